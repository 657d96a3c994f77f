"""What `backup` and `restore` take and answer alike: options, the shapes of their JSON, the columns of their tables."""

from __future__ import annotations

import time
from typing import Annotated

import msgspec
import typer

from headrace.backup.listing import Found
from headrace.backup.manifest import Manifest
from headrace.backup.producing import Restored
from headrace.cli.output import Column
from headrace.cli.parsing import show_size, show_time

Rate = Annotated[str | None, typer.Option("--rate", metavar="SIZE", help="no more than this a second, as in 50MiB")]
Where = Annotated[str, typer.Argument(metavar="BACKUP", help="the backup's folder")]


class Made(msgspec.Struct, frozen=True):
    """A backup that was made."""

    backup: str
    kind: str
    source: str
    cluster_id: str
    topics: int
    partitions: int
    bytes: int
    reused_bytes: int  # of these, shared with the backup that it is based on, or with one that was cut short
    took_ms: int
    resumed: bool
    based_on: str | None
    damage: list[str]


class Wrong(msgspec.Struct, frozen=True):
    path: str
    why: str


class Verified(msgspec.Struct, frozen=True):
    backup: str
    ok: bool
    files: int
    bytes: int
    problems: list[Wrong]


class BackupRow(msgspec.Struct, frozen=True):
    name: str
    path: str
    state: str
    kind: str | None
    made_ms: int | None
    topics: int | None
    partitions: int | None
    bytes: int | None
    cluster_id: str | None
    source: str | None
    based_on: str | None
    headrace: str | None


class PartitionRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start_offset: int
    end_offset: int
    bytes: int


class RestoredDirectory(msgspec.Struct, frozen=True):
    backup: str
    data: str
    topics: int
    partitions: int
    bytes: int
    took_ms: int


class RestoredTopics(msgspec.Struct, frozen=True):
    backup: str
    server: str
    partitions: list[Restored]
    bytes: int
    took_ms: int


def _size(count: int | None) -> str:
    return "-" if count is None else show_size(count)


def _time(ms: int | None) -> str:
    return "-" if ms is None else show_time(ms)


def _shift(shift: int | None) -> str:
    if shift is None:
        return "changed, not all by the same"
    return "kept" if shift == 0 else f"{shift:+d}"


BACKUPS = (
    Column("name"),
    Column("state"),
    Column("kind"),
    Column("made_ms", "made", show=_time),
    Column("topics", align="right"),
    Column("partitions", align="right"),
    Column("bytes", "size", align="right", show=_size),
    Column("based_on", wide=True),
    Column("cluster_id", wide=True),
    Column("source", wide=True),
    Column("headrace", "version", wide=True),
    Column("path", wide=True),
)
PARTITIONS = (
    Column("topic"),
    Column("partition", align="right"),
    Column("start_offset", "start", align="right"),
    Column("end_offset", "end", align="right"),
    Column("bytes", "size", align="right", show=_size),
)
RESTORED = (
    Column("topic"),
    Column("partition", align="right"),
    Column("start_offset", "start was", align="right"),
    Column("end_offset", "end was", align="right"),
    Column("first_offset", "first now", align="right"),
    Column("records", align="right"),
    Column("left_out", align="right", wide=True),
    Column("shift", "offsets", show=_shift),
)


def row_of(found: Found, name: str) -> BackupRow:
    manifest = found.manifest
    if manifest is None:
        return BackupRow(name, found.path, found.state, None, None, None, None, None, None, None, None, None)
    return BackupRow(
        name,
        found.path,
        found.state,
        manifest.kind,
        manifest.began_ms,
        len(manifest.topics),
        partition_count(manifest),
        manifest.bytes,
        manifest.cluster_id,
        manifest.source,
        manifest.based_on,
        manifest.headrace,
    )


def rows_of(manifest: Manifest) -> list[PartitionRow]:
    return [
        PartitionRow(topic.name, part.partition, part.start_offset, part.end_offset, part.bytes)
        for topic in manifest.topics
        for part in topic.partitions
    ]


def partition_count(manifest: Manifest) -> int:
    return sum(len(topic.partitions) for topic in manifest.topics)


def since_ms(began: float) -> int:
    return int((time.monotonic() - began) * 1000)
