"""The folder that a backup is made in: what was copied before, what is copied now, and its end.

- The manifest is written last, when all that it lists is synced. Until then `progress.jsonl` says what is complete,
  so that a backup that was cut short goes on, and that the folder is ours to write in.
- Complete segments never change, so those of an earlier backup are linked rather than copied: both backups then hold
  the file, and either can be removed. A file system that cannot link gets a copy.
- One process at a time makes a backup here: it holds the lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable

import msgspec

from headrace.backup import manifest as manifests
from headrace.backup.late import LateFiles, settle
from headrace.backup.manifest import DATA, LOCK, PROGRESS, Manifest
from headrace.errors import DirectoryLocked, DiskFull, HeadraceError, NotEmpty
from headrace.log.copied import CopiedFile
from headrace.log.copying import SegmentKey
from headrace.log.files import OsFiles
from headrace.log.format import LOG, LOG_ID_BYTES, segments_of
from headrace.log.writing import FULL, explain, read_whole, write_all


class _Done(msgspec.Struct, frozen=True):
    """A line of `progress.jsonl`."""

    log_id: str
    generation: int
    base: int
    size: int
    digest: str
    path: str
    revision: int = 0

    @property
    def key(self) -> SegmentKey:
        return SegmentKey(bytes.fromhex(self.log_id), self.generation, self.base, self.revision)


class Place:
    """`Earlier` for the copier of logs."""

    def __init__(self, root: str, lock: int, files: LateFiles) -> None:
        self.root, self.files, self._lock = root, files, lock
        self.is_resumed = files.exists(f"{root}/{PROGRESS}")
        self._complete = {done.key: done for done in self._load_progress()}
        self._shared: dict[SegmentKey, _Done] = {}
        self.based_on: str | None = None
        self._progress = files.open(f"{root}/{PROGRESS}", create=True)
        self._progress_size = 0
        files.truncate(self._progress, 0)
        for done in self._complete.values():
            self._append(done)

    @classmethod
    def open(cls, root: str) -> Place:
        files, root = LateFiles(), os.path.abspath(root)
        check_target(root)
        files.make_directory(root)
        try:
            lock = files.lock(f"{root}/{LOCK}")
        except BlockingIOError:
            raise DirectoryLocked(f"another process makes a backup in {root} at this moment") from None
        return cls(root, lock, files)

    def share(self, folder: str, earlier: Manifest) -> None:
        """Segments of that backup are linked from now on, not copied."""
        self.based_on = os.path.abspath(folder)
        for log_id, partition in _logs(earlier):
            for file in partition.files:
                if 0 <= file.base < partition.segment:
                    path = f"{self.based_on}/{file.path}"
                    _, revision = segments_of([os.path.basename(path)], LOG)[0]
                    done = _Done(log_id.hex(), partition.generation, file.base, file.bytes, file.digest, path, revision)
                    self._shared[done.key] = done

    def take(self, key: SegmentKey, size: int, path: str) -> str | None:
        done = self._complete.get(key)
        if done is not None and done.path == os.path.relpath(path, self.root) and _is_file(path, size, done.size):
            return done.digest
        done = self._shared.get(key)
        if done is None or not _is_file(done.path, size, done.size):
            return None
        return done.digest if self.link(done.path, path) else None

    def link(self, original: str, path: str) -> bool:
        """One more name for the same file. False: another file system, or one without links."""
        try:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.link(original, path)
        except OSError:
            return False
        return True

    def note(self, key: SegmentKey, file: CopiedFile, path: str) -> None:
        """Synced before it is written down: after a power loss, what is written down is there."""
        handle = self.files.open(path)
        try:
            OsFiles().datasync(handle)
        finally:
            self.files.close(handle)
        within = os.path.relpath(path, self.root)
        log_id = key.log_id.hex()
        self._append(_Done(log_id, key.generation, key.base, file.size, file.digest, within, key.revision))

    def finish(self, manifest: Manifest) -> None:
        listed = {file.path for file in manifest.all_files()}
        for path in within(self.root):
            if path not in listed and path not in (PROGRESS, LOCK):
                os.unlink(f"{self.root}/{path}")
        for folder, _, _ in os.walk(self.root, topdown=False):
            with contextlib.suppress(OSError):  # it is not empty
                os.rmdir(folder)
        settle(self.root)
        manifests.save(OsFiles(), self.root, manifest)
        self.close()
        os.unlink(f"{self.root}/{PROGRESS}")
        os.unlink(f"{self.root}/{LOCK}")

    def close(self) -> None:
        """As it is: without a manifest nothing takes it for a backup."""
        if self._lock >= 0:
            self.files.close(self._progress)
            self.files.close(self._lock)
            self._lock = -1

    def _append(self, done: _Done) -> None:
        data = msgspec.json.encode(done) + b"\n"
        write_all(self.files, self._progress, data, self._progress_size)
        self._progress_size += len(data)

    def _load_progress(self) -> Iterable[_Done]:
        if not self.is_resumed:
            return
        for line in read_whole(self.files, f"{self.root}/{PROGRESS}").splitlines():
            with contextlib.suppress(msgspec.MsgspecError):  # the last one was cut short
                yield msgspec.json.decode(line, type=_Done)


def check_target(root: str) -> None:
    """NotEmpty unless the folder is new, empty, or holds a backup that was cut short."""
    if not os.path.exists(root):
        return
    if not os.path.isdir(root):
        raise NotEmpty(f"{root} is a file: a backup is a folder")
    names = set(os.listdir(root)) - {LOCK}
    if manifests.NAME in names:
        raise NotEmpty(f"{root} holds a backup already: choose another name")
    if names and PROGRESS not in names:
        raise NotEmpty(f"{root} is not empty, and what is in it is no backup: choose another name")


def within(root: str) -> list[str]:
    """All files below, by their paths from there."""
    return sorted(os.path.relpath(f"{folder}/{name}", root) for folder, _, names in os.walk(root) for name in names)


def _logs(manifest: Manifest) -> Iterable[tuple[bytes, manifests.PartitionEntry]]:
    if manifest.kind != DATA:
        return
    for topic in manifest.topics:
        for partition in topic.partitions:
            log_id = bytes.fromhex(topic.topic_id) + partition.partition.to_bytes(4, "big")
            assert len(log_id) == LOG_ID_BYTES
            yield log_id, partition


def _is_file(path: str, size: int, noted: int) -> bool:
    try:
        return size == noted == os.stat(path).st_size
    except FileNotFoundError:
        return False


def told(error: OSError, root: str) -> HeadraceError:
    """The operating system's words as ours."""
    if error.errno in FULL:
        return DiskFull(f"no space left in {root}: make room and run it again, what is complete stays")
    return explain(error, f"making a backup in {root}")
