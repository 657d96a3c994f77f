"""`headrace export` and `headrace import`: a topic to a file of JSON lines, CSV or Parquet, and back.

Both stream: what is in memory at once is bounded, whatever the topic's size. An export goes partition by partition in
the order of offsets, each up to the end that held when it was begun, so that the same topic gives the same file. An
import sends rows in the file's order and counts them when they are acknowledged; what it says it sent is in the topic.
"""

from __future__ import annotations

import os
import time
from typing import Annotated, get_args

import msgspec
import typer

from headrace.cli import options
from headrace.cli.asking import Yes, confirm
from headrace.cli.connecting import with_client
from headrace.cli.exchange.inward import How, import_rows, rows_of
from headrace.cli.exchange.outward import Range, export_topic
from headrace.cli.exchange.places import STREAM, Format, format_of, opened
from headrace.cli.output import done
from headrace.cli.parsing import one_of, position, show_size, whole_numbers
from headrace.cli.produce import ACKS, CODECS, Acks, Compression
from headrace.cli.progress import progress
from headrace.cli.topics import TopicName

FORMATS: tuple[str, ...] = get_args(Format)

FormatOption = Annotated[
    str | None, typer.Option("--format", metavar="|".join(FORMATS), help="if the file's name does not tell")
]


class Exported(msgspec.Struct, frozen=True):
    topic: str
    file: str
    format: str
    records: int
    bytes: int
    """Of the file; 0 for a stream."""


class Imported(msgspec.Struct, frozen=True):
    topic: str
    file: str
    format: str
    records: int


def export_command(
    topic: TopicName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="- for standard output")] = STREAM,
    form: FormatOption = None,
    start: Annotated[str, typer.Option(metavar="POSITION", help="from here: start, N, -N, @time")] = "start",
    end: Annotated[str, typer.Option(metavar="POSITION", help="up to here, exclusive: end, N, -N, @time")] = "end",
    partition: Annotated[str | None, typer.Option(metavar="N,…", help="only these, as in 0,2-4")] = None,
    yes: Yes = False,
) -> None:
    """Write a topic's records to a file: JSON lines, CSV or Parquet.

    The file appears when it is whole. Positions count in each partition by itself. Names that end in .gz are gzip.

    Examples:
      headrace export orders orders.jsonl
      headrace export orders last-hour.parquet --start @-1h
      headrace export orders - --format csv --partition 0 --start 100 --end 200
    """
    chosen = format_of(file, form)
    if file != STREAM and os.path.exists(file):
        confirm(f"replace {file}", yes=yes)
    asked = options.current()
    now_ms = time.time_ns() // 1_000_000
    ends = Range(position(start, now_ms), position(end, now_ms), whole_numbers(partition) if partition else None)
    count = with_client(lambda client: export_topic(client, topic, file, chosen, ends), asked)
    size = os.path.getsize(file) if file != STREAM else 0
    result = Exported(topic, file, chosen, count, size)
    words = f"Exported {count:,} records of {topic} to {file} ({show_size(size)})."
    if file == STREAM:
        options.note(f"Exported {count:,} records of {topic}.")
    else:
        done(words, result, asked)


def import_command(
    topic: TopicName,
    file: Annotated[str, typer.Argument(metavar="FILE", help="- for standard input")] = STREAM,
    form: FormatOption = None,
    keep_partitions: Annotated[bool, typer.Option("--keep-partitions", help="each row's own partition")] = False,
    keep_timestamps: Annotated[bool, typer.Option("--keep-timestamps", help="each row's own time, not now")] = False,
    create: Annotated[
        int | None, typer.Option(metavar="N", help="make the topic, with N partitions, if missing")
    ] = None,
    acks: Acks = "all",
    compression: Compression = "none",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only read the file, and count")] = False,
) -> None:
    """Send a file's rows to a topic: what `headrace export` wrote, or any file with a column `value`.

    Partitions are chosen by key and times are those of the import, unless they are to be kept.

    Examples:
      headrace import orders orders.jsonl --create 3 --keep-partitions --keep-timestamps
      headrace import orders people.csv
      headrace consume orders -o jsonl | headrace import copy
    """
    chosen = format_of(file, form)
    asked = options.current()
    how = How(
        keep_partitions,
        keep_timestamps,
        create,
        one_of("--acks", acks, tuple(ACKS)),
        one_of("--compression", compression, CODECS),
    )
    with opened(file, chosen) as source, progress("importing", None, options=asked) as advance:
        rows = rows_of(chosen, source, file if file != STREAM else "standard input")
        if dry_run:
            count = sum(map(len, rows))
            options.note("Nothing was sent (--dry-run).")
        else:
            count = with_client(lambda client: import_rows(client, topic, rows, how, advance), asked)
    words = f"Imported {count:,} records into {topic}." if not dry_run else f"{file} holds {count:,} records."
    done(words, Imported(topic, file, chosen, count), asked)
