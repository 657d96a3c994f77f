"""What is known of a topic, as commands show it, and how it is asked for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from headrace.cli.exits import Refusal
from headrace.cli.options import note
from headrace.cli.output import Column
from headrace.cli.parsing import duration_ms, show_size, size
from headrace.cli.topics import one
from headrace.doors.kafka.names import from_kafka
from headrace.errors import HeadraceError, InvalidConfig

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import Topic

NAMED = 5  # topics by name in a question; more are counted


class TopicRow(msgspec.Struct, frozen=True):
    name: str
    partitions: int
    replicas: int
    size_bytes: int | None
    internal: bool
    topic_id: str | None


class PartitionRow(msgspec.Struct, frozen=True):
    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start: int | None
    end: int | None
    records: int | None  # offsets from start to end: at most so many records
    size_bytes: int | None


class SettingRow(msgspec.Struct, frozen=True):
    name: str
    value: str | None
    source: str
    is_default: bool


class TopicDetail(msgspec.Struct, frozen=True):
    name: str
    topic_id: str | None
    internal: bool
    partitions: tuple[PartitionRow, ...]
    config: tuple[SettingRow, ...]


class Created(msgspec.Struct, frozen=True):
    name: str
    partitions: int | None  # None: the server decides (--dry-run)
    replicas: int | None
    action: str  # created, exists (--if-not-exists), or valid (--dry-run)


class Deleted(msgspec.Struct, frozen=True):
    name: str
    action: str  # deleted, or missing (--if-exists)


SIZE = Column("size_bytes", "size", align="right", show=show_size)
TOPIC_COLUMNS = [
    Column("name"),
    Column("partitions", align="right"),
    Column("replicas", align="right"),
    SIZE,
    Column("internal", wide=True),
    Column("topic_id", wide=True),
]
PARTITION_COLUMNS = [
    Column("partition", align="right"),
    Column("leader", align="right"),
    Column("leader_epoch", "epoch", align="right", wide=True),
    Column("replicas"),
    Column("in_sync"),
    Column("start", align="right"),
    Column("end", align="right"),
    Column("records", align="right"),
    SIZE,
]
SETTING_COLUMNS = [Column("name", "setting"), Column("value"), Column("source")]


def config_value(name: str, value: str) -> tuple[str, str]:
    """`retention.ms=7d` as Kafka takes it; what has no unit stays as it is, and the server judges it."""
    if re.search(r"[a-z]$", value, re.IGNORECASE):
        if name.endswith(".ms"):
            return name, str(duration_ms(value))
        if name.endswith(".bytes"):
            return name, str(size(value))
    return name, value


@contextlib.contextmanager
def known_settings(names: Iterable[str]) -> Iterator[None]:
    """A server that refuses a setting may not have it: then the next step is the name that was probably meant. Which
    there are is the server's to say, so nothing is refused here."""
    try:
        yield
    except InvalidConfig as error:
        from headrace.broker.config import SETTINGS

        for name in names:
            if name not in SETTINGS and (near := get_close_matches(name, SETTINGS, 1)):
                raise Refusal(str(error), f"did you mean {near[0]}?") from error
        raise


async def detail_of(client: Client, name: str) -> TopicDetail:
    topic, name = await one(client, name), from_kafka(name)
    starts, ends = await client.admin.offsets(name, "start"), await client.admin.offsets(name, "end")
    sizes = await partition_sizes(client)
    settings = await client.admin.config("topic", name)
    rows = []
    for partition in topic.partitions:
        start = starts[partition.index].offset if partition.index in starts else None
        end = ends[partition.index].offset if partition.index in ends else None
        rows.append(
            PartitionRow(
                partition.index,
                partition.leader if partition.leader >= 0 else None,
                partition.leader_epoch,
                partition.replicas,
                partition.in_sync,
                start,
                end,
                end - start if start is not None and end is not None else None,
                sizes.get((name, partition.index)),
            )
        )
    config = tuple(SettingRow(s.name, None if s.sensitive else s.value, s.source, s.is_default) for s in settings)
    return TopicDetail(name, _id(topic), topic.internal, tuple(rows), config)


def row_of(topic: Topic, sizes: dict[str, int]) -> TopicRow:
    replicas = max((len(partition.replicas) for partition in topic.partitions), default=0)
    return TopicRow(topic.name, len(topic.partitions), replicas, sizes.get(topic.name), topic.internal, _id(topic))


def created(topic: Topic, action: str) -> Created:
    replicas = max((len(partition.replicas) for partition in topic.partitions), default=0)
    return Created(topic.name, len(topic.partitions), replicas, action)


def _id(topic: Topic) -> str | None:
    return str(topic.topic_id) if topic.topic_id else None


def list_of(found: Sequence[Topic], sizes: dict[str, int]) -> str:
    """Whole for a few topics, counted for many: what is asked must fit on a screen."""
    total = sum(sizes.get(topic.name, 0) for topic in found)
    names = ", ".join(topic.name for topic in found[:NAMED]) + (
        f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    )
    noun = "topic" if len(found) == 1 else f"{len(found)} topics:"
    return f"{noun} {names} with all records ({show_size(total)})"


async def sizes_of(client: Client) -> dict[str, int]:
    """Bytes by topic, of its largest replicas; nothing where the server does not tell."""
    sizes: dict[str, int] = {}
    for (topic, _), count in (await partition_sizes(client)).items():
        sizes[topic] = sizes.get(topic, 0) + count
    return sizes


async def partition_sizes(client: Client) -> dict[tuple[str, int], int]:
    sizes: dict[tuple[str, int], int] = {}
    try:
        folders = await client.admin.log_dirs()
    except HeadraceError as error:
        note(f"(sizes are not known: {error})")
        return sizes
    for folder in folders:
        for part in folder.partitions:
            place = from_kafka(part.topic), part.partition
            sizes[place] = max(sizes.get(place, 0), part.size)
    return sizes
