"""`headrace export` and `headrace import`: a topic to a file of JSON lines, CSV or Parquet, and back.

Both stream: what is in memory at once is bounded, whatever the topic's size. An export goes partition by partition in
the order of offsets, each up to the end that held when it was begun, so that the same topic gives the same file. An
import sends rows in the file's order and counts them when they are acknowledged; what it says it sent is in the topic.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Annotated, get_args

import msgspec
import typer

from headrace.cli import options
from headrace.cli.asking import Yes, confirm
from headrace.cli.connecting import with_client
from headrace.cli.exchange.inward import How, import_rows, rows_of
from headrace.cli.exchange.outward import Range, export_topic
from headrace.cli.exchange.places import STREAM, Format, format_of, opened, told_format
from headrace.cli.exits import not_found, usage
from headrace.cli.importing.sources import STORES
from headrace.cli.output import done
from headrace.cli.parsing import one_of, position, show_size, whole_numbers
from headrace.cli.produce import ACKS, CODECS, Acks, Compression
from headrace.cli.progress import progress
from headrace.cli.topics import TopicName, complete

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


Target = Annotated[
    str, typer.Argument(metavar="TOPIC|STORE", help=f"a topic; or {', '.join(STORES)}", autocompletion=complete)
]
InputFile = Annotated[str, typer.Argument(metavar="FILE|DIR", help="- for standard input")]
KeepPartitions = Annotated[bool, typer.Option("--keep-partitions", help="each row's own partition")]
KeepTimestamps = Annotated[bool, typer.Option("--keep-timestamps", help="each row's own time, not now")]
CreateOption = Annotated[int | None, typer.Option(metavar="N", help="make the topic, with N partitions, if missing")]
Only = Annotated[list[str] | None, typer.Option(metavar="TOPIC", help="of a store: only this topic")]
Prefix = Annotated[str, typer.Option(metavar="TEXT", help="of a store: goes before each topic's name")]
SkipDamaged = Annotated[bool, typer.Option("--skip-damaged", help="of a store: leave out what does not read")]
KeyFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="of pubsub: with the key that values were encrypted with")
]
HttpDoor = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT", help="of pubsub: where positions go", show_default="where the node says"),
]


def import_command(
    topic: Target,
    file: InputFile = STREAM,
    form: FormatOption = None,
    keep_partitions: KeepPartitions = False,
    keep_timestamps: KeepTimestamps = False,
    create: CreateOption = None,
    acks: Acks = "all",
    compression: Compression = "none",
    only: Only = None,
    prefix: Prefix = "",
    skip_damaged: SkipDamaged = False,
    key_file: KeyFile = None,
    http: HttpDoor = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="only read, and count")] = False,
) -> None:
    """Send a file's rows to a topic, or all that another broker stored to topics of the same names.

    A FILE is what `headrace export` wrote, or any file with a column `value`. Partitions are chosen by key and times
    are those of the import, unless they are to be kept.

    A STORE is a DIR in which another broker kept its data: lines (<topic>.log of JSON lines), binary
    (<topic>_p<N>.log and .idx) or pubsub (pubsub.sqlite). Records keep their order, times, keys, headers and ids, and
    mostly their offsets. What is there already is not sent again, so that the same command goes on with an import that
    was cut off; all of it is read back at the end.

    Examples:
      headrace import orders orders.jsonl --create 3 --keep-partitions --keep-timestamps
      headrace import orders people.csv
      headrace consume orders -o jsonl | headrace import copy
      headrace import lines ./data --dry-run
      headrace import pubsub ./data1 --only demo-topic
    """
    if topic in STORES and os.path.isdir(file):
        if form or keep_partitions or keep_timestamps or create is not None or acks != "all" or compression != "none":
            raise usage("options of a FILE have no effect on a STORE", "headrace import --help")
        from headrace.cli.importing.command import Wish, import_folder  # who imports a file needs none of it

        import_folder(Wish(topic, file, prefix, only or [], skip_damaged, key_file, http, dry_run))
        return
    if topic in STORES and form is None and (sys.stdin.isatty() if file == STREAM else told_format(file) is None):
        from headrace.cli.importing.telling import missing

        raise missing(topic, None if file == STREAM else file)
    if only or prefix or skip_damaged or key_file or http:
        raise usage(f"options of a STORE have no effect on a FILE, and {file} is no folder", "headrace import --help")
    how = How(
        keep_partitions,
        keep_timestamps,
        create,
        one_of("--acks", acks, tuple(ACKS)),
        one_of("--compression", compression, CODECS),
    )
    if file != STREAM and not os.path.exists(file):  # before its name is asked for its format
        raise not_found(f"there is no file {file}")
    _import_file(topic, file, format_of(file, form), how, dry_run=dry_run)


def _import_file(topic: str, file: str, chosen: Format, how: How, *, dry_run: bool) -> None:
    asked = options.current()
    with opened(file, chosen) as source, progress("importing", None, options=asked) as advance:
        rows = rows_of(chosen, source, file if file != STREAM else "standard input")
        if dry_run:
            count = sum(map(len, rows))
            options.note("Nothing was sent (--dry-run).")
        else:
            count = with_client(lambda client: import_rows(client, topic, rows, how, advance), asked)
    words = f"Imported {count:,} records into {topic}." if not dry_run else f"{file} holds {count:,} records."
    done(words, Imported(topic, file, chosen, count), asked)
