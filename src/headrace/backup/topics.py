"""A backup of topics through a server, ours or any other that speaks Kafka's protocol, near or far.

Of each partition the batches from its start to the end that it had when the backup began, as the server keeps them;
all ends are asked for before the first byte is read. Beside them the topic's own settings. Files hold batches and
nothing else, one after the other, and are named by the offset that they begin with.

Based on an earlier backup, only what is new is read, and the files before it are shared. That needs the same topic
(by its id) and the same history: the last batch of the earlier backup is read again and must be equal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import headrace
from headrace.backup.batches import FILE_BYTES, BatchFile, last_batch
from headrace.backup.manifest import TOPICS, FileEntry, Manifest, PartitionEntry, TopicEntry
from headrace.backup.place import Place, told
from headrace.broker.topic import folder_name
from headrace.errors import BackupUnsettled, OffsetOutOfRange, UnknownTopic
from headrace.log.copied import copy_file
from headrace.log.files import ReadOnlyFiles
from headrace.ports import Clock
from headrace.records.batch import read_header

if TYPE_CHECKING:
    from headrace.client.client import Client
    from headrace.client.values import Topic

OWN = "topic"  # the source of a setting that was given to the topic itself
ATTEMPTS = 5  # at one partition: retention may let go of its start while it is read
NO_ID = bytes(16)


class TopicsBackup:
    def __init__(self, client: Client, place: Place, clock: Clock, pace: Callable[[int], None]) -> None:
        self._client, self._place, self._clock, self._pace = client, place, clock, pace
        self._earlier: dict[tuple[str, int], PartitionEntry] = {}
        self._reused_bytes = 0

    def share(self, folder: str, earlier: Manifest) -> None:
        self._place.based_on = os.path.abspath(folder)
        for topic in earlier.topics:
            if earlier.kind == TOPICS and topic.topic_id != NO_ID.hex():
                for partition in topic.partitions:
                    self._earlier[topic.topic_id, partition.partition] = partition

    async def run(self, names: Sequence[str], source: str) -> Manifest:
        began_ms = self._clock.now_ms()
        admin = self._client.admin
        cluster = await admin.cluster()
        topics = [await admin.topic(name) for name in names]
        ends = {topic.name: await admin.offsets(topic.name, "end") for topic in topics}
        try:
            entries = [
                await self._topic(topic, {index: at.offset for index, at in ends[topic.name].items()})
                for topic in topics
            ]
            manifest = Manifest(
                kind=TOPICS,
                headrace=headrace.__version__,
                cluster_id=cluster.cluster_id or "",
                source=source,
                began_ms=began_ms,
                ended_ms=self._clock.now_ms(),
                topics=entries,
                based_on=self._place.based_on,
                reused_bytes=self._reused_bytes,
            )
            self._place.finish(manifest)
        except OSError as error:
            raise told(error, self._place.root) from error
        return manifest

    async def _topic(self, topic: Topic, ends: dict[int, int]) -> TopicEntry:
        settings = await self._client.admin.config("topic", topic.name)
        config = {one.name: one.value for one in settings if one.source == OWN and one.value is not None}
        topic_id = topic.topic_id.bytes if topic.topic_id is not None else NO_ID
        folder = f"{TOPICS}/{folder_name(topic.name, topic_id)}"
        partitions = [
            await self._partition(topic.name, topic_id.hex(), index, ends[index], f"{folder}/{index}")
            for index in range(len(topic.partitions))
        ]
        if topic.topic_id is not None and (await self._client.admin.topic(topic.name)).topic_id != topic.topic_id:
            raise UnknownTopic(f"topic {topic.name!r} was deleted, and made again, while it was read")
        return TopicEntry(topic.name, topic_id.hex(), config, partitions)

    async def _partition(self, topic: str, topic_id: str, index: int, end: int, folder: str) -> PartitionEntry:
        self._place.files.make_directory(f"{self._place.root}/{folder}")
        shared = await self._shared(topic, index, self._earlier.get((topic_id, index)), end, folder)
        for _ in range(ATTEMPTS):
            start = shared.end_offset if shared else (await self._client.admin.offsets(topic, "start"))[index].offset
            try:
                files, next_offset = await self._read(topic, index, start, end, folder)
            except OffsetOutOfRange:
                shared = None  # let go before it could be read: what was shared has a gap behind it now
                continue
            before = shared.files if shared else []
            listed = [*before, *files]
            first = shared.start_offset if shared else start
            return PartitionEntry(index, first, max(next_offset, start), sum(file.bytes for file in listed), listed)
        raise BackupUnsettled(f"{topic}/{index} lets go of its records faster than they can be read")

    async def _read(self, topic: str, index: int, start: int, end: int, folder: str) -> tuple[list[FileEntry], int]:
        """From `start` to `end`; the offset behind the last batch."""
        files: list[FileEntry] = []
        file: BatchFile | None = None
        next_offset = start
        try:
            if start < end:
                async for batch in self._client.batches(topic, index, start, end):
                    header = read_header(batch)
                    if header.base_offset >= end or header.next_offset <= next_offset:
                        continue
                    if file is not None and file.size >= FILE_BYTES:
                        files.append(file.finish())
                        file = None
                    if file is None:
                        file = BatchFile(self._place.files, self._place.root, folder, header.base_offset)
                    file.add(batch)
                    self._pace(len(batch))
                    next_offset = header.next_offset
            if file is not None:
                files.append(file.finish())
        finally:
            if file is not None:
                file.close()
        return files, max(next_offset, end)

    async def _shared(
        self, topic: str, index: int, earlier: PartitionEntry | None, end: int, folder: str
    ) -> PartitionEntry | None:
        """The earlier backup's files in place, if they are of the same history."""
        if earlier is None or not earlier.files or earlier.end_offset > end:
            return None
        assert self._place.based_on is not None
        if not await self._is_same_history(topic, index, earlier):
            return None
        for file in earlier.files:
            original, path = f"{self._place.based_on}/{file.path}", f"{self._place.root}/{file.path}"
            if os.path.dirname(file.path) != folder:
                return None
            if not self._place.link(original, path):
                copy_file(ReadOnlyFiles(), self._place.files, original, path, self._pace)
            self._reused_bytes += file.bytes
        return earlier

    async def _is_same_history(self, topic: str, index: int, earlier: PartitionEntry) -> bool:
        known = last_batch(f"{self._place.based_on}/{earlier.files[-1].path}")
        header = read_header(known)
        try:
            async for batch in self._client.batches(topic, index, header.base_offset, header.next_offset):
                return bytes(batch) == known
        except OffsetOutOfRange:
            return False
        return False
