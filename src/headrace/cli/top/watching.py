"""The command: look, wait, look again, show. On a terminal the screen is drawn anew until Ctrl-C; elsewhere one view is
printed, or as many as were asked."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import options
from headrace.cli.connecting import with_client
from headrace.cli.doors import NoDoor, door_of
from headrace.cli.exits import usage
from headrace.cli.options import Options
from headrace.cli.output import show
from headrace.cli.parsing import duration_ms
from headrace.cli.top import sample, screen
from headrace.cli.top.sample import Sample
from headrace.cli.top.view import View, view
from headrace.errors import ConnectionFailed

if TYPE_CHECKING:
    from headrace.aio import Client

HTTP_VARIABLE = "HEADRACE_HTTP"
HTTP_TIMEOUT_S = 5.0
LEAST_INTERVAL_S = 0.1
FOR_EVER = 0


def command(
    once: Annotated[bool, typer.Option("--once", help="one view, then end")] = False,
    count: Annotated[int, typer.Option("-n", "--count", metavar="N", help="so many views, then end", min=0)] = FOR_EVER,
    interval: Annotated[str, typer.Option(metavar="TIME", help="between two looks")] = "1s",
    http: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="the node's http door", show_default="where the node says"),
    ] = None,
    topics: Annotated[int, typer.Option(metavar="N", help="show at most so many topics", min=1)] = 20,
) -> None:
    """Watch a server: rates, latencies, connections, disk, and the topics that have most to do.

    The figures come from the node's http door. Where there is none (another Kafka-compatible server) records per second
    and sizes come over the Kafka protocol.

    Examples:
      headrace top
      headrace top --once -o json
      headrace top -n 10 --interval 5s -o jsonl
    """
    asked = options.current()
    interval_s = duration_ms(interval) / 1000
    if interval_s < LEAST_INTERVAL_S:
        raise usage(f"--interval is at least {LEAST_INTERVAL_S:g}s", "--interval 1s")
    alive = asked.output_or() in ("table", "wide") and not once and not count and sys.stdout.isatty()
    wanted = count or (FOR_EVER if alive else 1)
    given = http or os.environ.get(HTTP_VARIABLE)

    async def work(client: Client) -> None:
        door = await _door(client, given, asked)
        views = _views(client, door, asked, interval_s, wanted)
        if alive:
            await _draw(views, topics)
        else:
            await _print(views, topics, asked)

    try:
        with_client(work, asked)
    except KeyboardInterrupt:
        if not alive:  # on the screen it is how one leaves
            raise


async def _door(client: Client, given: str | None, asked: Options) -> str | None:
    """The http door of this server; None where there is none, or where it is somebody else's."""
    try:
        door = given or await door_of(client, "http", asked)
    except NoDoor as error:
        options.note(f"Only what the Kafka protocol tells: {error}. --http HOST:PORT names one.")
        return None
    try:
        found = await asyncio.to_thread(sample.health, door, HTTP_TIMEOUT_S)
    except ConnectionFailed:
        if given is not None:
            raise
        options.note(f"No http door at {door}: only what the Kafka protocol tells. --http HOST:PORT names it.")
        return None
    cluster_id = (await client.admin.cluster()).cluster_id
    if found.cluster_id == cluster_id:
        return door
    words = f"the http door at {door} belongs to cluster {found.cluster_id}, the server to {cluster_id}"
    if given is not None:
        raise usage(words, "--http names the http door of the same node as --server")
    options.note(f"Left out: {words}. --http HOST:PORT names the right one.")
    return None


async def _views(
    client: Client, door: str | None, asked: Options, interval_s: float, wanted: int
) -> AsyncIterator[View]:
    async def look() -> Sample:
        if door is not None:
            return await asyncio.to_thread(sample.from_metrics, door, HTTP_TIMEOUT_S)
        return await sample.from_kafka(client)

    source = "metrics" if door is not None else "kafka"
    before, due, given = await look(), time.monotonic() + interval_s, 0
    while wanted == FOR_EVER or given < wanted:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        now = await look()
        yield view(asked.server, source, before, now)
        before, due, given = now, max(due + interval_s, time.monotonic()), given + 1


async def _print(views: AsyncIterator[View], most_topics: int, asked: Options) -> None:
    form = asked.output_or()
    if form in ("table", "wide", "jsonl", "csv"):
        first = True
        async for one in views:
            if form == "jsonl":
                show([one], (), asked)
            elif form == "csv":
                _csv(one, asked, first)
            else:
                print("\n".join([*([] if first else [""]), *screen.lines(one, most_topics)]))
            sys.stdout.flush()
            first = False
    else:
        show([one async for one in views], (), asked)


def _csv(one: View, asked: Options, first: bool) -> None:
    import csv

    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    names = [column.name for column in screen.TOPIC_COLUMNS]
    if first:
        write(["time_ms", *names])
    for topic in one.topics:
        cells = (getattr(topic, name) for name in names)
        write([one.time_ms, *("" if cell is None else cell for cell in cells)])


async def _draw(views: AsyncIterator[View], most_topics: int) -> None:
    from rich.console import Console
    from rich.live import Live
    from rich.text import Text

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        live.update(Text("Looking…"), refresh=True)
        async for one in views:
            room = max(1, min(most_topics, console.height - len(screen.lines(one, 0)) - 2))
            live.update(Text("\n".join(screen.lines(one, room)), no_wrap=True, overflow="crop"), refresh=True)
