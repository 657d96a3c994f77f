"""The import of a folder: look at all of it, make the topics, send what they lack, read it back, then the positions.

Topics that it makes keep their records for ever, whatever the node's default is: what is imported is old, and would be
gone before anybody saw it."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.broker import config
from headrace.cli import options
from headrace.cli.connecting import with_client
from headrace.cli.doors import door_of
from headrace.cli.exits import Refusal, not_found
from headrace.cli.importing import positions as committing
from headrace.cli.importing.sources import Position, Source
from headrace.cli.importing.transfer import Surveyed, Transfer, survey
from headrace.cli.options import Options
from headrace.cli.output import Column, show
from headrace.cli.parsing import show_size
from headrace.cli.progress import progress
from headrace.cluster.controller import check_topic_name
from headrace.doors.kafka.names import to_kafka
from headrace.errors import InvalidTopicName, UnknownTopic

if TYPE_CHECKING:
    from headrace.aio import Client

FOR_EVER = "-1"
BATCH_HEAD_BYTES = 1 << 10  # what a batch of one record costs besides the record
Key = tuple[str, int]  # topic and partition of the source

COLUMNS = (
    Column("topic"),
    Column("partition", align="right"),
    Column("records", align="right"),
    Column("found", "there before", align="right"),
    Column("sent", align="right"),
    Column("bytes", "size", align="right", show=show_size),
    Column("damaged", align="right"),
    Column("result"),
    Column("checksum", wide=True),
)


class Wish(NamedTuple):
    store: str
    folder: str
    prefix: str
    only: list[str]
    skip_damaged: bool
    key_file: str | None
    http: str | None
    dry_run: bool


class ImportedPartition(msgspec.Struct, frozen=True):
    topic: str
    """Its name in the server."""
    partition: int
    records: int
    found: int
    """Of these, those that were there before."""
    sent: int
    bytes: int
    damaged: int
    """Entries of the source that do not read and were left out."""
    checksum: str
    result: str
    """`verified`: read back, with the same count and checksum. `not sent`: a dry run."""


def import_folder(wish: Wish) -> None:
    with contextlib.closing(_source(wish)) as source:
        _import(source, wish, options.current())


def _import(source: Source, wish: Wish, asked: Options) -> None:
    chosen = {topic: count for topic, count in source.topics().items() if not wish.only or topic in wish.only}
    if missing := [name for name in wish.only if name not in chosen]:
        raise not_found(f"{wish.folder} holds no topic {missing[0]!r}", "--dry-run lists what it holds")
    surveyed = _surveyed(source, chosen, wish, asked)
    total = sum(found.contents.records for found in surveyed.values())
    places = [one for one in source.positions() if one.topic in chosen]
    if wish.dry_run:
        rows = [_row(wish, key, found, None) for key, found in surveyed.items()]
        show(rows, COLUMNS, asked, empty=f"{wish.folder} holds no topics.")
        options.note(f"{total:,} records and {len(places):,} positions. Nothing was sent (--dry-run).")
        return
    rows, begun = [], []

    async def work(client: Client) -> None:
        for topic, count in chosen.items():
            largest = max(surveyed[topic, index].contents.largest_bytes for index in range(count))
            await _make(client, wish.prefix + topic, count, largest)
            begun.append(topic)
        for (topic, index), found in surveyed.items():
            transfer = Transfer(client, to_kafka(wish.prefix + topic), index, advance)
            await transfer.run(source.read(topic, index))
            rows.append(_row(wish, (topic, index), found, transfer))
        if places:
            await _commit(client, wish, places, asked)

    try:
        with progress("importing", total, options=asked) as advance:
            with_client(work, asked)
    except BaseException:
        if begun:
            options.note("What is in the topics stays; the same command goes on from there.")
        raise
    show(rows, COLUMNS, asked, empty=f"{wish.folder} holds no topics.")
    options.note(f"{total:,} records are there and were read back; {len(places):,} positions.")


def _source(wish: Wish) -> Source:
    if wish.store == "lines":
        from headrace.cli.importing.lines import LinesSource

        return LinesSource(wish.folder)
    if wish.store == "binary":
        from headrace.cli.importing.binary import BinarySource

        return BinarySource(wish.folder)
    from headrace.cli.importing.pubsub import PubsubSource

    return PubsubSource(wish.folder, _key(wish.key_file))


def _key(file: str | None) -> str | None:
    if file is None:
        return os.environ.get("PUBSUB_STORAGE_KEY") or os.environ.get("STORAGE_ENCRYPTION_KEY")
    with open(file) as opened:
        return opened.read().strip()


def _surveyed(source: Source, chosen: dict[str, int], wish: Wish, asked: Options) -> dict[Key, Surveyed]:
    """All of it is read before anything is sent: what does not read, and names that cannot be, are told at once."""
    for topic in chosen:
        try:
            check_topic_name(wish.prefix + topic)
        except InvalidTopicName as error:
            raise Refusal(f"{wish.folder}: {error}", "--only TOPIC leaves the others out") from error
    keys = [(topic, index) for topic, count in chosen.items() for index in range(count)]
    with progress("reading", None, options=asked) as advance:
        found = {key: survey(source.read(*key), advance) for key in keys}
    for one in found.values():
        for damage in one.damages:
            options.note(str(damage))
    damaged = sum(one.damaged for one in found.values())
    if damaged and not wish.skip_damaged and not wish.dry_run:
        raise Refusal(f"{damaged} stored entries do not read; nothing was sent", "--skip-damaged leaves them out")
    return found


async def _make(client: Client, name: str, partitions: int, largest_bytes: int) -> None:
    known = to_kafka(name)
    try:
        there = await client.admin.topic(known)
    except UnknownTopic:
        settings = {"retention.ms": FOR_EVER}
        needed = largest_bytes + BATCH_HEAD_BYTES
        if needed > int(str(config.SETTINGS["max.message.bytes"].default)):
            settings["max.message.bytes"] = str(needed)
        await client.admin.create_topic(known, partitions, config=settings)
        return
    if len(there.partitions) != partitions:
        why = f"topic {name!r} has {len(there.partitions)} partitions, and the source {partitions}"
        raise Refusal(why, "--prefix NAME- imports into topics of other names")
    for setting in await client.admin.config("topic", known):
        if setting.name == "retention.ms" and setting.value != FOR_EVER:
            options.note(f"Topic {name} keeps records for {setting.value} ms: what is older goes.")


async def _commit(client: Client, wish: Wish, places: list[Position], asked: Options) -> None:
    address = wish.http or await door_of(client, "http", asked)
    for place in places:
        committing.commit(address, wish.prefix + place.topic, place, asked.timeout_s)


def _row(wish: Wish, key: Key, found: Surveyed, transfer: Transfer | None) -> ImportedPartition:
    contents = found.contents
    there = transfer.found if transfer else 0
    return ImportedPartition(
        topic=wish.prefix + key[0],
        partition=key[1],
        records=contents.records,
        found=there,
        sent=contents.records - there if transfer else 0,
        bytes=contents.bytes,
        damaged=found.damaged,
        checksum=contents.checksum,
        result="verified" if transfer else "not sent",
    )
