"""Files of a backup that hold batches: written from a server's answers, read for another server.

A topic's backup has batches and nothing else; a data directory's has segments, where they follow a header. Both are
read the same way, window by window, every batch checked.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.backup.manifest import DATA, FileEntry, Manifest, PartitionEntry
from headrace.errors import BackupDamaged, CorruptBatch
from headrace.log.copied import new_digest, remove_file
from headrace.log.files import OsFiles, ReadOnlyFiles
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.walk import WINDOW_BYTES
from headrace.log.writing import write_all
from headrace.records.batch import HEADER_BYTES, read_header
from headrace.records.kernel import scan

FILE_BYTES = 1 << 30  # then the next file begins: what an incremental backup shares, and a disk takes
ENDING = ".batches"


class BatchFile:
    def __init__(self, files: OsFiles, root: str, folder: str, base: int) -> None:
        self._files, self._base, self._digest = files, base, new_digest()
        self._path, self.size = f"{folder}/{base:020d}{ENDING}", 0
        remove_file(files, f"{root}/{self._path}")
        self._handle = files.open(f"{root}/{self._path}", create=True)

    def add(self, batch: bytes) -> None:
        """CorruptBatch rather than a backup of what nobody could read."""
        found, _, why = scan(batch, 0, len(batch), -1, True)
        if why is not None or len(found) != 1:
            raise CorruptBatch(
                f"what the server gave as a batch at offset {read_header(batch).base_offset} is none: {why}"
            )
        write_all(self._files, self._handle, batch, self.size)
        self._digest.update(batch)
        self.size += len(batch)

    def finish(self) -> FileEntry:
        self.close()
        return FileEntry(self._path, self.size, self._digest.hexdigest(), self._base)

    def close(self) -> None:
        if self._handle >= 0:
            self._files.close(self._handle)
            self._handle = -1


def batches_of(folder: str, manifest: Manifest, partition: PartitionEntry) -> Iterator[bytes]:
    """Every batch of a partition that holds something from its start on."""
    begin = SEGMENT_HEADER_BYTES if manifest.kind == DATA else 0
    for file in sorted((file for file in partition.files if file.base >= 0), key=lambda file: file.base):
        for batch in _batches(f"{folder}/{file.path}", begin):
            if read_header(batch).next_offset > partition.start_offset:
                yield batch


def last_batch(path: str) -> bytes:
    batch = b""
    for batch in _batches(path, 0):  # noqa: B007  (the last one is what is asked for)
        pass
    return batch


def _batches(path: str, position: int) -> Iterator[bytes]:
    files = ReadOnlyFiles()
    handle = files.open(path)
    window = WINDOW_BYTES
    try:
        while data := files.pread(handle, window, position):
            found, at, why = scan(data, 0, len(data), -1, True)
            for start, size, *_ in found:
                yield data[start : start + size]
            if why not in (None, "short"):
                raise BackupDamaged(f"{path} holds damage at byte {position + at} ({why}), as its original did")
            if not found:
                needed = read_header(data).size if len(data) >= HEADER_BYTES else 0
                if needed <= window:
                    raise BackupDamaged(f"{path} ends in the middle of a batch, at byte {position}")
            window = max(WINDOW_BYTES, read_header(data, at).size if len(data) - at >= HEADER_BYTES else 0)
            position += at
    finally:
        files.close(handle)
