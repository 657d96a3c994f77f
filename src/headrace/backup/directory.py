"""A backup of a data directory, whether a node serves from it or not. It only reads there, and takes no lock.

What it holds: of every partition the batches up to some offset, all of these fixed within the same moment (internal
topics first: a position that is kept in one never points behind the records it belongs to), and metadata that fits.

Metadata comes last. Were it first, it would know less than the logs: a producer's id that a log has seen would be
given out again, an epoch used twice. But last it may name topics that were made meanwhile. So it is read in rounds:
each round copies what the metadata names and is not copied yet; the metadata of the round that finds nothing missing is
the backup's. A topic that it names existed when its logs were copied, and still does: so nothing was deleted under the
copy. After ROUNDS of them (somebody makes topics all the time) what is left is taken as it began: without records.

The sync journal is not copied: at any moment it is ahead of some log. A restore writes one that is true of the copy.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from typing import NamedTuple

import headrace
from headrace.backup.manifest import DATA, FileEntry, Manifest, PartitionEntry, TopicEntry, entry_of
from headrace.backup.metadata import METADATA, Metadata, copy_metadata
from headrace.backup.place import Place, told
from headrace.broker.topic import folder_name
from headrace.cluster.image import TopicImage
from headrace.errors import BackupUnsettled, DirectoryUnusable
from headrace.log.copied import CopiedFile, digest_of, put_file
from headrace.log.copying import CopiedLog, LogCopier, Survey, survey
from headrace.log.files import ReadOnlyFiles
from headrace.log.format import LOG, segments_of
from headrace.log.journal import load_marks
from headrace.log.store import read_format
from headrace.log.writing import read_whole
from headrace.ports import Clock

ROUNDS = 6
ATTEMPTS = 4  # at one log, in one round


class _Wanted(NamedTuple):
    topic_id: bytes
    partition: int
    folder: str  # within the data directory, and within the copy

    @property
    def log_id(self) -> bytes:
        return self.topic_id + self.partition.to_bytes(4, "big")


class DirectoryBackup:
    def __init__(self, data: str, place: Place, clock: Clock, pace: Callable[[int], None]) -> None:
        self._data, self._place, self._clock = os.path.abspath(data), place, clock
        self._source = ReadOnlyFiles()
        self._copier = LogCopier(self._source, place.files, place, pace)
        self._copied: dict[_Wanted, CopiedLog] = {}

    def run(self) -> Manifest:
        """Blocks. Raises errors of ours only."""
        try:
            return self._run()
        except OSError as error:
            raise told(error, self._place.root) from error

    def _run(self) -> Manifest:
        began_ms = self._clock.now_ms()
        format_file = self._copy_format()
        metadata = self._copy_in_rounds()
        manifest = self._manifest(metadata, began_ms, format_file)
        self._place.finish(manifest)
        return manifest

    def _copy_in_rounds(self) -> Metadata:
        unsettled: dict[_Wanted, BackupUnsettled] = {}
        for _ in range(ROUNDS):
            metadata = self._copy_metadata()
            missing = [wanted for wanted in _wanted(metadata) if wanted not in self._copied]
            if not missing:
                return metadata
            unsettled = self._copy_all(missing)
        metadata = self._copy_metadata()
        for wanted in _wanted(metadata):
            if wanted in unsettled:
                raise unsettled[wanted]
            self._copied.setdefault(wanted, CopiedLog())
        return metadata

    def _copy_format(self) -> FileEntry:
        path = f"{self._data}/format"
        if not self._source.exists(path):
            raise DirectoryUnusable(f"{self._data} is no data directory: there is no file `format` in it")
        read_format(self._source, self._data)
        data = read_whole(self._source, path)
        self._place.files.make_directory(f"{self._place.root}/{DATA}")
        put_file(self._place.files, f"{self._place.root}/{DATA}/format", data)
        return entry_of(CopiedFile("format", len(data), digest_of(data)), DATA)

    def _copy_metadata(self) -> Metadata:
        return copy_metadata(self._copier, self._source, self._data, self._place.files, self._target(), self._now())

    def _copy_all(self, missing: list[_Wanted]) -> dict[_Wanted, BackupUnsettled]:
        """All ends are fixed before the first byte is copied. What did not hold still is left for the next round."""
        marks = load_marks(self._source, f"{self._data}/synced")
        surveys: list[tuple[_Wanted, Survey]] = []
        unsettled: dict[_Wanted, BackupUnsettled] = {}
        for wanted in missing:
            try:
                log_id = wanted.log_id
                found = survey(self._source, f"{self._data}/{wanted.folder}", log_id, marks.get(log_id))
                surveys.append((wanted, found))
            except BackupUnsettled as error:
                unsettled[wanted] = error
        for wanted, found in surveys:
            try:
                self._copied[wanted] = self._copy_log(wanted, found)
            except BackupUnsettled as error:
                unsettled[wanted] = error
        return unsettled

    def _copy_log(self, wanted: _Wanted, found: Survey) -> CopiedLog:
        folder = f"{self._target()}/{wanted.folder}"
        for _ in range(ATTEMPTS):
            try:
                copied = self._copier.copy(found, folder, self._now())
                if self._copier.is_settled(found, copied, folder):
                    return copied
            except BackupUnsettled:
                pass
            marks = load_marks(self._source, f"{self._data}/synced")
            found = survey(self._source, found.folder, found.log_id, marks.get(found.log_id))
        raise BackupUnsettled(f"{found.folder} did not hold still for a copy, {ATTEMPTS} times: try again")

    def _manifest(self, metadata: Metadata, began_ms: int, format_file: FileEntry) -> Manifest:
        topics = [self._topic(topic) for topic in _in_order(metadata)]
        kept = [self._copied[wanted] for wanted in _wanted(metadata)]
        log = metadata.log
        return Manifest(
            kind=DATA,
            headrace=headrace.__version__,
            cluster_id=metadata.image.cluster_id,
            source=self._data,
            began_ms=began_ms,
            ended_ms=self._now(),
            topics=topics,
            files=[format_file, *(entry_of(file, f"{DATA}/{METADATA}") for file in metadata.files)],
            metadata=_partition(0, f"{DATA}/{METADATA}/log", log),
            based_on=self._place.based_on,
            reused_bytes=sum(copied.reused_bytes for copied in (log, *kept)),
            damage=[words for copied in (log, *kept) for words in copied.damage],
        )

    def _topic(self, topic: TopicImage) -> TopicEntry:
        partitions = [
            _partition(index, f"{DATA}/{wanted.folder}", self._copied[wanted])
            for index, wanted in enumerate(_partitions(topic))
        ]
        return TopicEntry(topic.name, topic.topic_id.hex(), dict(topic.config), partitions)

    def _target(self) -> str:
        return f"{self._place.root}/{DATA}"

    def _now(self) -> int:
        return self._clock.now_ms()


def _in_order(metadata: Metadata) -> list[TopicImage]:
    return sorted(metadata.image.topics.values(), key=lambda topic: (not topic.name.startswith("__"), topic.name))


def _wanted(metadata: Metadata) -> list[_Wanted]:
    return [wanted for topic in _in_order(metadata) for wanted in _partitions(topic)]


def _partitions(topic: TopicImage) -> list[_Wanted]:
    folder = f"topics/{folder_name(topic.name, topic.topic_id)}"
    return [_Wanted(topic.topic_id, index, f"{folder}/{index}") for index in range(len(topic.partitions))]


def _partition(index: int, folder: str, copied: CopiedLog) -> PartitionEntry:
    files = [entry_of(file, folder, _base(file.name)) for file in copied.files]
    mark = copied.mark
    return PartitionEntry(
        index,
        copied.start_offset,
        copied.next_offset,
        sum(file.bytes for file in files),
        files,
        mark.generation if mark is not None else 0,
        mark.segment if mark is not None else -1,
        mark.position if mark is not None else 0,
    )


def _base(name: str) -> int:
    found = segments_of([name], LOG)
    return found[0][0] if found else -1


def data_bytes(data: str) -> int:
    """About what a copy will take, for whoever watches it."""
    sizes = 0
    for folder, _, names in os.walk(data):
        for name in names:
            with contextlib.suppress(OSError):
                sizes += os.stat(f"{folder}/{name}").st_size
    return sizes
