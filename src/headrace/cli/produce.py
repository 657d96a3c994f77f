"""`headrace produce`: records from the command line, from standard input or from files, to a topic.

A record counts when the server has acknowledged it, never before; when something fails, the number of those that
arrived is told, so that whoever sends the rest knows where to begin.
"""

from __future__ import annotations

import os
import sys
import time
from io import UnsupportedOperation
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.connecting import with_client
from headrace.cli.exits import usage
from headrace.cli.options import current, note
from headrace.cli.parsing import counted, one_of, pair, time_ms
from headrace.cli.progress import progress
from headrace.cli.sending import JSONL, LINES, WHOLE, Pace, Sent, Shape, from_files, from_values, send_all
from headrace.cli.text import raw, unescaped
from headrace.cli.topics import TopicName, nearest

if TYPE_CHECKING:
    from headrace.aio import Client

FORMS = (LINES, JSONL, WHOLE)
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LONG_BYTES = 1 << 20  # what is less is sent before anybody looks
ACKS = ("0", "1", "all")

Values = Annotated[
    list[str] | None, typer.Argument(metavar="VALUE", help="records; without any, standard input is read")
]
Files = Annotated[list[str] | None, typer.Option("-f", "--file", metavar="FILE", help="read this; - is standard input")]
Form = Annotated[str, typer.Option("--format", metavar="|".join(FORMS), help="what a record is in the input")]
Key = Annotated[str | None, typer.Option("-k", "--key", metavar="TEXT", help="of records that bring none")]
Headers = Annotated[
    list[str] | None, typer.Option("-H", "--header", metavar="NAME=VALUE", help="header of every record")
]
Partition = Annotated[
    int | None, typer.Option("-P", "--partition", metavar="N", min=0, help="where to", show_default="by key, else any")
]
Timestamp = Annotated[
    str | None, typer.Option("--timestamp", metavar="@TIME", help="of every record", show_default="now")
]
Delimiter = Annotated[
    str, typer.Option("-D", "--delimiter", metavar="TEXT", help=r"between records; knows \n \t \0 \xNN")
]
KeyDelimiter = Annotated[
    str | None, typer.Option("-K", "--key-delimiter", metavar="TEXT", help="between key and value of a line")
]
EmptyIsNull = Annotated[bool, typer.Option("-Z", "--null", help="an empty value is null: a tombstone")]
Compression = Annotated[
    str, typer.Option("-z", "--compression", metavar="CODEC", help=f"of the batches: {', '.join(CODECS)}")
]
Acks = Annotated[
    str, typer.Option("--acks", metavar="|".join(ACKS), help="what counts as sent: received, written, synced")
]
Rate = Annotated[float | None, typer.Option("--rate", metavar="N", help="records per second at most")]


def command(
    topic: TopicName,
    values: Values = None,
    files: Files = None,
    form: Form = LINES,
    key: Key = None,
    headers: Headers = None,
    partition: Partition = None,
    timestamp: Timestamp = None,
    delimiter: Delimiter = r"\n",
    key_delimiter: KeyDelimiter = None,
    empty_is_null: EmptyIsNull = False,
    compression: Compression = "none",
    acks: Acks = "all",
    rate: Rate = None,
) -> None:
    """Send records to a topic.

    The input has one record on each line; with --format jsonl one JSON object, as `headrace consume -o jsonl` prints
    them: {"key": "k", "value": "v", "headers": {"h": "x"}}; with --format whole each file is one record.

    The result with -o json says how many arrived and where; -o jsonl has a line for each record.

    Examples:
      headrace produce orders 'one' 'two' --key customer-7
      seq 1000 | headrace produce orders --rate 100
      headrace produce orders -K : < pairs.txt
      headrace produce orders --format jsonl --file orders.jsonl --compression zstd
      headrace consume orders -o jsonl | headrace produce copies --format jsonl
    """
    if values and files:
        raise usage("records come from VALUE or from --file, not from both")
    if rate is not None and rate <= 0:
        raise usage("--rate takes more than nothing", "--rate 100")
    shape = Shape(
        form=one_of("--format", form, FORMS),
        delimiter=unescaped(delimiter) or b"\n",
        key_delimiter=unescaped(key_delimiter) if key_delimiter else None,
        empty_is_null=empty_is_null,
        key=raw(key) if key is not None else None,
        headers=tuple(_header(text) for text in headers or ()),
        partition=partition,
        timestamp_ms=time_ms(timestamp.removeprefix("@"), time.time_ns() // 1_000_000) if timestamp else None,
    )
    one_of("--acks", acks, ACKS)
    one_of("--compression", compression, CODECS)
    _send(topic, shape, values or [], files or ["-"], compression, acks, rate)


def _send(
    topic: str, shape: Shape, values: list[str], files: list[str], compression: str, acks: str, rate: float | None
) -> None:
    options = current()
    sent = Sent(topic, options)
    is_typing = not values and "-" in files and sys.stdin.isatty()

    async def work(client: Client) -> None:
        if (near := await nearest(client, topic)) is not None:
            note(f"There is no topic {topic} yet{near}; it is made with the first record, where the server does that.")
        if is_typing:
            note("Type records, one on a line; Ctrl-D ends.")
        records = from_values(shape, values) if values else from_files(shape, files)
        async with client.producer(
            acks=acks, compression=compression, delivery_timeout=options.timeout_s, request_timeout=options.timeout_s
        ) as producer:
            await send_all(producer, topic, records, sent, Pace(rate) if rate is not None else None)

    try:
        size = _size(files) if not values else None
        if size is not None and (size > LONG_BYTES or rate is not None):
            with progress("Sending", size, "bytes", options) as sent.advance:
                with_client(work, options)
        else:
            with_client(work, options)
        sent.count()
        if sent.failure is not None:
            raise sent.failure
    except BaseException as error:
        sent.count()  # closing the producer waited for those that were under way
        if sent.records:
            why = "then interrupted." if isinstance(error, KeyboardInterrupt) else "and then:"
            note(f"{counted(sent.records, 'record')} acknowledged, {why}")
        raise
    sent.finish()


def _header(text: str) -> tuple[str, bytes | None]:
    name, value = pair(text, "a header", "source=shop")
    return name, raw(value)


def _size(files: list[str]) -> int | None:
    """Of all of them; None where one does not tell, as a pipe."""
    try:
        sizes = [os.stat(sys.stdin.fileno() if name == "-" else name).st_size for name in files]
    except (OSError, UnsupportedOperation):
        return None
    return sum(sizes) if all(sizes) else None
