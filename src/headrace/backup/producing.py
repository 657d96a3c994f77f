"""Topics of a backup, brought back into a server that runs: made anew, or appended to if that is asked for.

What a server takes from a client is not all that a log can hold. So, of each batch:

- records, keys, headers, timestamps (as readers saw them) and compression stay as they are;
- the producer's identity goes: its sequences belong to another log;
- the mark of a transaction goes, with the markers that ended it; records of one that was aborted, or never ended,
  are left out, as a reader of committed records never saw them;
- the server gives offsets. They are the old ones when the topic is new, began at 0 and nothing is missing in between.
  What became of them is told for each partition.

Every file is checked against the manifest before the first record is sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from headrace.backup.batches import batches_of
from headrace.backup.manifest import Manifest, PartitionEntry, TopicEntry
from headrace.backup.verify import check_file
from headrace.errors import BackupDamaged, BackupUnsettled, TopicExists, UnknownTopic
from headrace.records import codec, compression
from headrace.records.control import decode_marker
from headrace.records.header import CRC_FROM, HEADER, TRANSACTIONAL, BatchHeader, read_header
from headrace.records.kernel import crc32c

if TYPE_CHECKING:
    from headrace.client.client import Client

AT_ONCE = 8  # partitions that are sent to at the same time; each waits for one answer after the other


class Restored(msgspec.Struct, frozen=True):
    """A partition as it is now. `shift` is what its offsets have changed by; None: not all by the same."""

    topic: str
    partition: int
    start_offset: int  # as it was
    end_offset: int
    first_offset: int  # where its records begin now
    records: int
    left_out: int  # batches: markers, and what was never committed
    shift: int | None


class Wish(msgspec.Struct, frozen=True):
    topic: TopicEntry
    name: str  # that it gets


class Producing:
    def __init__(self, client: Client, folder: str, manifest: Manifest, pace: Callable[[int], None]) -> None:
        self._client, self._folder, self._manifest, self._pace = client, folder, manifest, pace

    async def run(self, wishes: list[Wish], *, append: bool) -> list[Restored]:
        for wish in wishes:
            self._check_files(wish.topic)
        for wish in wishes:
            await self._make(wish, append=append, only_look=True)
        for wish in wishes:
            await self._make(wish, append=append)
        room = asyncio.Semaphore(AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [
                    group.create_task(self._send(wish.name, part, room, is_new=not append))
                    for wish in wishes
                    for part in wish.topic.partitions
                ]
        except ExceptionGroup as several:
            raise several.exceptions[0] from None
        return [task.result() for task in tasks]

    def _check_files(self, topic: TopicEntry) -> None:
        for partition in topic.partitions:
            for file in partition.files:
                if (problem := check_file(self._folder, file, lambda _: None)) is not None:
                    raise BackupDamaged(f"{self._folder}/{problem.path}: {problem.why}; nothing was sent")

    async def _make(self, wish: Wish, *, append: bool, only_look: bool = False) -> None:
        count = len(wish.topic.partitions)
        try:
            there = await self._client.admin.topic(wish.name)
        except UnknownTopic:
            await self._client.admin.create_topic(wish.name, count, config=wish.topic.config, validate_only=only_look)
            return
        if not append and only_look:
            raise TopicExists(f"topic {wish.name!r} exists: give it another name (--as), or --append to it")
        if len(there.partitions) < count:
            raise TopicExists(f"topic {wish.name!r} has {len(there.partitions)} partitions, and the backup {count}")

    async def _send(self, name: str, partition: PartitionEntry, room: asyncio.Semaphore, *, is_new: bool) -> Restored:
        async with room:
            records = left_out = 0
            first = expected = -1
            shifts: set[int | None] = set()
            for batch, old in self._committed(partition):
                if batch is None:
                    left_out += 1
                    continue
                base = await self._client.produce_batches(name, partition.partition, batch, "all")
                if is_new and expected >= 0 and base != expected:
                    raise BackupUnsettled(
                        f"somebody else writes to {name}/{partition.partition}: delete the topic and try again"
                    )
                header = read_header(batch)
                first = base if first < 0 else first
                expected = base + header.last_offset_delta + 1
                is_dense = header.last_offset_delta == old.last_offset_delta
                shifts.add(base - old.base_offset if is_dense else None)
                records += header.record_count
                self._pace(len(batch))
            shift = shifts.pop() if len(shifts) == 1 else (None if shifts else 0)
            was = (partition.start_offset, partition.end_offset)
            return Restored(name, partition.partition, *was, max(first, 0), records, left_out, shift)

    def _committed(self, partition: PartitionEntry) -> Iterator[tuple[bytearray | None, BatchHeader]]:
        """Each batch as it can be sent; None for those that are left out."""
        outcomes = self._outcomes(partition)
        for batch in batches_of(self._folder, self._manifest, partition):
            header = read_header(batch)
            is_left_out = header.is_control or not header.record_count
            if header.is_transactional and not header.is_control:
                ends = outcomes.get(header.producer_id, ())
                is_left_out |= not next((commits for offset, commits in ends if offset > header.base_offset), False)
            yield (None if is_left_out else _anonymous(batch, header)), header

    def _outcomes(self, partition: PartitionEntry) -> dict[int, list[tuple[int, bool]]]:
        """By producer: where each of its transactions ended, and whether it was committed."""
        found: dict[int, list[tuple[int, bool]]] = {}
        for batch in batches_of(self._folder, self._manifest, partition):
            header = read_header(batch)
            if header.is_control and (marker := decode_marker(batch)) is not None:
                found.setdefault(header.producer_id, []).append((header.base_offset, marker.is_commit))
        return found


def _anonymous(batch: bytes, header: BatchHeader) -> bytearray:
    if header.is_log_append_time or header.record_count != header.last_offset_delta + 1:
        # Times that the broker gave, or gaps that compaction left: no client may send these, so it is made anew.
        return codec.encode(codec.decode(batch), codec.BatchOptions(compression=compression.NAMES[header.compression]))
    made = bytearray(batch)
    if header.is_transactional or header.producer_id >= 0:
        attributes = header.attributes & ~TRANSACTIONAL
        plain = header._replace(attributes=attributes, producer_id=-1, producer_epoch=-1, base_sequence=-1)
        HEADER.pack_into(made, 0, *plain)
        with memoryview(made) as view:
            crc = crc32c(view[CRC_FROM:])
        HEADER.pack_into(made, 0, *plain._replace(crc=crc))
    return made
