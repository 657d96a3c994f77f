"""The verbs of `headrace bench`, their options and how their result is shown."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import options
from headrace.cli.bench import plot as picture
from headrace.cli.bench import works
from headrace.cli.bench.fanout import fanout
from headrace.cli.bench.figures import COLUMNS, Meter
from headrace.cli.bench.load import INDEX_BYTES, Load
from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.exits import usage
from headrace.cli.output import show
from headrace.cli.parsing import duration_ms, one_of, size
from headrace.cli.produce import ACKS, CODECS, Acks, Compression
from headrace.cli.progress import Advance, progress

if TYPE_CHECKING:
    from headrace.aio import Client

Work = Callable[["Client", Load, Advance], Awaitable[list[Meter]]]

MOST_LATENCIES = 10_000_000  # when each record was due is kept until the end

app = Noun("Measure a server: how fast it takes records, gives them, and how long one takes.")

TopicOption = Annotated[
    str | None, typer.Option("--topic", metavar="NAME", help="use this topic, and leave it as it is")
]
Records = Annotated[int, typer.Option("-n", "--records", metavar="N", help="how many records")]
Bytes = Annotated[str, typer.Option("--size", metavar="SIZE", help="bytes of a record's value")]
Partitions = Annotated[int, typer.Option("--partitions", metavar="N", help="of the topic that is made")]
Rate = Annotated[float, typer.Option("--rate", metavar="N", help="records per second; 0: as fast as it goes")]
Linger = Annotated[str, typer.Option("--linger", metavar="TIME", help="how long a batch waits for more records")]
BatchBytes = Annotated[str, typer.Option("--batch", metavar="SIZE", help="largest batch")]
Plot = Annotated[str | None, typer.Option("--plot", metavar="FILE", help="draw it: .png, .svg or .pdf")]
Keep = Annotated[bool, typer.Option("--keep", help="do not delete the topic that was made")]


@app.command()
def produce(
    topic: TopicOption = None,
    records: Records = 200_000,
    value_size: Bytes = "100",
    partitions: Partitions = 1,
    acks: Acks = "all",
    compression: Compression = "none",
    rate: Rate = 0,
    linger: Linger = "5ms",
    batch: BatchBytes = "1MiB",
    plot: Plot = None,
    keep: Keep = False,
) -> None:
    """Send records as fast as they are acknowledged, or at a rate.

    Examples:
      headrace bench produce
      headrace bench produce -n 1000000 --size 1KiB --acks 1 --compression zstd
      headrace bench produce --rate 5000 --plot produce.png
    """
    load = _load(topic, records, value_size, partitions, acks, compression, rate, linger, batch, keep)
    _measure("produce", works.produce, load, plot)


@app.command()
def consume(
    topic: TopicOption = None,
    records: Records = 200_000,
    value_size: Bytes = "100",
    partitions: Partitions = 1,
    compression: Compression = "none",
    plot: Plot = None,
    keep: Keep = False,
) -> None:
    """Read records from the start, as fast as they come.

    Without --topic it makes a topic and fills it first; that is not measured.

    Examples:
      headrace bench consume --size 1KiB
      headrace bench consume --topic orders -n 1000000 -o json
    """
    load = _load(topic, records, value_size, partitions, "1", compression, 0, "5ms", "1MiB", keep)
    _measure("consume", works.consume, load, plot)


@app.command()
def latency(
    topic: TopicOption = None,
    records: Records = 5_000,
    value_size: Bytes = "100",
    partitions: Partitions = 1,
    acks: Acks = "all",
    compression: Compression = "none",
    rate: Rate = 1_000,
    linger: Linger = "0",
    plot: Plot = None,
    keep: Keep = False,
) -> None:
    """How long one record takes at a steady rate: to its acknowledgement, and to a waiting consumer.

    A latency counts from the moment when the record was due, so a server that stalls is charged for what waited.

    Examples:
      headrace bench latency
      headrace bench latency --rate 200 -n 2000 --acks 1 --plot latency.svg
    """
    load = _load(topic, records, value_size, partitions, acks, compression, rate, linger, "1MiB", keep)
    if load.size < INDEX_BYTES:
        raise usage(f"a latency needs values of {INDEX_BYTES} bytes or more", f"--size {INDEX_BYTES}")
    if load.records > MOST_LATENCIES:
        raise usage(f"each of {load.records:,} records would be remembered", f"-n {MOST_LATENCIES} at most")
    if not load.rate or load.acks == "0":
        raise usage("a latency is measured at a rate, and to an acknowledgement", "--rate 1000 --acks 1")
    _measure("latency", works.latency, load, plot)


app.command()(fanout)


def _load(
    topic: str | None, records: int, value_size: str, partitions: int, acks: str, compression: str, rate: float,
    linger: str, batch: str, keep: bool,
) -> Load:  # fmt: skip
    one_of("--acks", acks, tuple(ACKS))
    one_of("--compression", compression, CODECS)
    wait_s = duration_ms(linger) / 1000
    given = Load(topic, partitions, records, size(value_size), acks, compression, rate, wait_s, size(batch), keep)
    return given.checked()


def _measure(name: str, work: Work, load: Load, plot: str | None) -> None:
    asked = options.current()
    if plot is not None:
        picture.check(plot)
    with progress(name, load.records, options=asked) as advance:
        meters = with_client(lambda client: work(client, load, advance), asked)
    show([meter.result() for meter in meters], COLUMNS, asked)
    if plot is not None:
        sizes = f"{load.size} B" if load.topic is None or name != "consume" else load.topic
        picture.draw(plot, meters, f"{name}: {load.records:,} records of {sizes}, {asked.server}")
        options.note(f"Drew {plot}.")
