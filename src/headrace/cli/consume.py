"""`headrace consume` and `headrace tail`: records of topics, from a position to another, or as they come.

Reading leaves nothing behind: no group, no committed position, no topic that was not there. What was asked for by
position is exact; conditions and counts are applied here, record by record.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli import record_filter
from headrace.cli.connecting import with_client
from headrace.cli.exits import not_found, usage
from headrace.cli.last_records import last_records
from headrace.cli.options import current, detail, note
from headrace.cli.parsing import Position, position, whole_numbers
from headrace.cli.printing import Printer
from headrace.cli.topics import ByPattern, TopicNames, several

if TYPE_CHECKING:
    from headrace.aio import Client, Consumer
    from headrace.client.positions import Positions

FLUSH_S = 0.1  # how late a record may show

Start = Annotated[str, typer.Option("--start", metavar="POSITION", help="start, end, N, -N, @time or @-10m")]
End = Annotated[
    str | None, typer.Option("--end", metavar="POSITION", help="stop before this", show_default="what is there now")
]
Partitions = Annotated[
    str | None, typer.Option("-P", "--partition", metavar="N,…", help="only these", show_default="all")
]
Count = Annotated[int | None, typer.Option("-n", "--count", metavar="N", min=1, help="stop after so many")]
Follow = Annotated[bool, typer.Option("-F", "--follow", help="go on with what comes")]
Template = Annotated[
    str | None,
    typer.Option("-f", "--format", metavar="TEXT", help=r"%t %p %o %i %T %D %k %K %s %S %h, as in '%o %k %s\n'"),
]
Filters = Annotated[
    list[str] | None, typer.Option("--filter", metavar="CONDITION", help="as in 'key=42' or 'value~error'")
]
Committed = Annotated[bool, typer.Option("--committed", help="only what no open or aborted transaction wrote")]


class Wanted(msgspec.Struct, frozen=True):
    """What is to be read, of which topics."""

    topics: list[str]
    regex: bool
    start: Position
    end: Position | None
    partitions: list[int] | None
    count: int | None
    follow: bool
    template: str | None
    filters: list[str]
    committed: bool

    @property
    def isolation(self) -> str:
        return "read_committed" if self.committed else "read_uncommitted"


def consume(
    topics: TopicNames,
    start: Start = "start",
    end: End = None,
    partition: Partitions = None,
    count: Count = None,
    follow: Follow = False,
    template: Template = None,
    filters: Filters = None,
    regex: ByPattern = False,
    committed: Committed = False,
) -> None:
    r"""Read records, from a position to another; without more, all that are there.

    A position is start, end, an offset (100), so many records before the end (-10, of each partition) or a time
    (@2026-01-31, @2026-01-31T12:00, @-10m, @1700000000).

    What is printed is the value and a line end; -f gives a format, -o jsonl everything, for `headrace produce` too.
    In a format %t is the topic, %p partition, %o offset, %i id, %T timestamp (%D as a date), %k key, %s value, %h
    headers, %K and %S the lengths of key and value; \n \t \0 \xNN as usual.

    A filter is FIELD=TEXT, FIELD!=TEXT, FIELD~REGEX, FIELD!~REGEX or FIELD<N (<= > >=), where FIELD is key, value,
    value.PATH (of JSON), header.NAME, topic, partition, offset, timestamp or size. Of several, all must hold.

    Examples:
      headrace consume orders
      headrace consume orders --start -10 -f '%p:%o %k %s\n'
      headrace consume orders --start @-10m --follow -o jsonl
      headrace consume --regex 'orders-.*' --filter value.customer=7 --count 5
      headrace consume orders --start 100 --end 200 --partition 0
    """
    now = time.time_ns() // 1_000_000
    stop = position(end, now) if end is not None else None
    if follow and stop is not None:
        raise usage("--follow has no end, and --end names one", "leave one of them out")
    numbers = whole_numbers(partition) if partition is not None else None
    begin = position(start, now)
    asked = Wanted(topics, regex, begin, stop, numbers, count, follow, template, filters or [], committed)
    _read(asked)


def tail(
    topics: TopicNames,
    lines: Annotated[int, typer.Option("-n", "--lines", metavar="N", min=0, help="of each partition, at first")] = 10,
    partition: Partitions = None,
    no_follow: Annotated[bool, typer.Option("--no-follow", help="stop where the topic ends now")] = False,
    template: Template = None,
    filters: Filters = None,
    regex: ByPattern = False,
    committed: Committed = False,
) -> None:
    r"""Show the last records, and then those that come, until Ctrl-C.

    Formats and filters are those of `headrace consume`.

    Examples:
      headrace tail orders
      headrace tail orders -n 0 --filter 'header.source=shop' -f '%D %k %s\n'
      headrace tail orders -n 100 --no-follow -o jsonl
    """
    numbers = whole_numbers(partition) if partition is not None else None
    start: Position = -lines if lines else "end"
    _read(Wanted(topics, regex, start, None, numbers, None, not no_follow, template, filters or [], committed))


def _read(asked: Wanted) -> None:
    if asked.template is not None and current().output is not None:
        raise usage("-f and -o both say how records look", "leave one of them out")
    keep = record_filter.compiled(asked.filters)
    options = current()
    printer = Printer(options, asked.template)

    async def work(client: Client) -> int:
        topics = await several(client, asked.topics, regex=asked.regex)
        if asked.partitions is not None:
            _check_partitions(asked.partitions, {topic.name: len(topic.partitions) for topic in topics})
        names = [topic.name for topic in topics]
        detail(f"reading {', '.join(names)}")
        consumer = client.consumer(
            *names,
            start=await _offsets(client, names, asked, asked.start),
            end=await _offsets(client, names, asked, asked.end) if asked.end is not None else None,
            partitions=asked.partitions,
            follow=asked.follow,
            isolation=asked.isolation,
        )
        async with consumer:
            return await _print(consumer, printer, keep, asked.count)

    try:
        found = with_client(work, options)
    finally:
        printer.close()
    if not found and options.output is None:
        note("No records there." if keep is None else "No records there that the filter lets through.")


async def _offsets(client: Client, topics: list[str], asked: Wanted, at: Position) -> Positions:
    """So many records before the end are looked for; the client itself counts offsets."""
    if isinstance(at, int) and at < 0:
        return await last_records(client, topics, asked.partitions, -at, asked.isolation)
    return at


async def _print(consumer: Consumer, printer: Printer, keep: record_filter.Condition | None, count: int | None) -> int:
    """How many were printed."""
    printed = 0
    flushing = Flushing(printer)
    try:
        async for record in consumer:
            if keep is None or keep(record):
                printer(record)
                printed += 1
                if printed == count:
                    break
    except asyncio.CancelledError:
        flushing.check()
        raise
    finally:
        flushing.stop()
    return printed


class Flushing:
    """Shows what was printed every now and then, without a system call for each record. When nobody reads any more, it
    ends the task that prints."""

    def __init__(self, printer: Printer) -> None:
        self._printer = printer
        self._reader = asyncio.current_task()
        self._failure: OSError | None = None
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while True:
                await asyncio.sleep(FLUSH_S)
                self._printer.flush()
        except OSError as error:
            self._failure = error
            if self._reader is not None:
                self._reader.cancel()

    def check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._task.cancel()


def _check_partitions(wanted: Sequence[int], counts: dict[str, int]) -> None:
    for topic, count in counts.items():
        if max(wanted) >= count:
            raise not_found(f"{topic} has no partition {max(wanted)}", f"it has 0 to {count - 1}")
