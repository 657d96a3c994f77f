"""One partition of a source into one partition of a topic, which holds nothing else: the n-th record of the one is at
offset n of the other.

What the topic has already is read first and compared with the beginning of the source, so an import that was cut off
goes on where it stopped, without doubles, and never behind records of somebody else. Batches go one after the other,
each synced before the next; the offset that a batch gets must be the one that was meant, or somebody else writes there
too. At the end all that was sent is read back: as many records as the source has, with the same checksum.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from headrace.cli.exchange.inward import in_thread
from headrace.cli.exits import Refusal
from headrace.cli.importing.sources import LOST, TORN, Damage
from headrace.records import codec
from headrace.records.record import Record

if TYPE_CHECKING:
    from headrace.client.client import Client

RECORDS_AT_ONCE = 1000  # of a batch, and of one read of the source
BATCH_BYTES = 512 << 10  # of a batch, unless one record is more
RECORD_BYTES = 64  # what a record costs besides its contents, at the most that matters here

Entries = Iterator[Record | Damage]
_encode = msgspec.msgpack.Encoder().encode


class Contents:
    """So many records, and the checksum of all that they say."""

    def __init__(self) -> None:
        self.records = self.bytes = self.largest_bytes = 0
        self._hash = hashlib.sha256()

    def add(self, record: Record) -> None:
        said = _encode((record.timestamp_ms, record.key, record.value, record.headers))
        self._hash.update(said)
        self.records += 1
        self.bytes += len(said)
        self.largest_bytes = max(self.largest_bytes, len(said))

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()


class Surveyed(NamedTuple):
    contents: Contents
    damages: list[Damage]
    damaged: int


MAX_DAMAGES = 20  # that are named; more are counted


def survey(entries: Entries, advance: Callable[[int], None]) -> Surveyed:
    """All of a partition's source, without a server."""
    contents, damages, damaged = Contents(), list[Damage](), 0
    for entry in entries:
        if isinstance(entry, Damage):
            damaged += entry.kind == LOST
            if len(damages) < MAX_DAMAGES or entry.kind == TORN:
                damages.append(entry)
        else:
            contents.add(entry)
            if not contents.records % RECORDS_AT_ONCE:
                advance(RECORDS_AT_ONCE)
    return Surveyed(contents, damages, damaged)


class Transfer:
    def __init__(self, client: Client, topic: str, partition: int, advance: Callable[[int], None]) -> None:
        self._client, self._topic, self._partition, self._advance = client, topic, partition, advance
        self.there = Contents()
        self.found = 0  # records that were there before

    async def run(self, entries: Entries) -> None:
        await self._read_back()
        self.found = self.there.records
        self._advance(self.found)
        sent = await self._send(entries)
        await self._read_back()
        if (sent.records, sent.checksum) != (self.there.records, self.there.checksum):
            raise self._refusal(f"{self.there.records:,} records were read back, and not as they were sent")

    async def _send(self, entries: Entries) -> Contents:
        source, batch, size = Contents(), list[Record](), 0
        while some := await in_thread(lambda: _records(entries)):
            for record in some:
                source.add(record)
                if source.records <= self.found:
                    if source.records == self.found and source.checksum != self.there.checksum:
                        raise self._refusal("it holds other records than the source begins with")
                    continue
                if batch and (size > BATCH_BYTES or len(batch) >= RECORDS_AT_ONCE):
                    await self._produce(batch, source.records - 1 - len(batch))
                    batch, size = [], 0
                batch.append(record)
                size += RECORD_BYTES + len(record.value or b"") + len(record.key or b"")
        if batch:
            await self._produce(batch, source.records - len(batch))
        if source.records < self.found:
            raise self._refusal(f"it holds {self.found:,} records, and the source {source.records:,}")
        return source

    async def _produce(self, batch: list[Record], meant: int) -> None:
        offset = await self._client.produce_batches(self._topic, self._partition, codec.encode(batch))
        if offset != meant:
            raise self._refusal(f"somebody else writes to it: a batch that was for offset {meant} got {offset}")
        self._advance(len(batch))

    async def _read_back(self) -> None:
        """All that is there and was not read yet."""
        async for batch in self._client.batches(self._topic, self._partition, self.there.records):
            for record in codec.decode(batch):
                if record.offset >= self.there.records:
                    if record.offset != self.there.records:
                        raise self._refusal(f"offset {self.there.records} is missing: it was used for something else")
                    self.there.add(record)

    def _refusal(self, why: str) -> Refusal:
        step = "--prefix NAME- imports into topics of other names; nothing else may write to them until it is done"
        return Refusal(f"topic {self._topic!r} partition {self._partition}: {why}", step)


def _records(entries: Entries) -> list[Record]:
    """The next of them, without what does not read: that was told, and agreed to, before."""
    some: list[Record] = []
    for entry in entries:
        if isinstance(entry, Record):
            some.append(entry)
            if len(some) == RECORDS_AT_ONCE:
                break
    return some
