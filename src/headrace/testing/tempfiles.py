"""Real files that can be made to fail: the operating system's, with a memory of what was not synced.

A folder that is thrown away needs no real syncs: that memory alone decides what a power loss takes, and a process that
dies loses nothing that was written. It saves each broker some twenty waits for the disk.

Of each file it keeps how much of it was synced and what unsynced writes have overwritten, so that a power loss can be
played back on a real file system. Names are not tracked: a power loss may keep them, and here it does.
"""

from __future__ import annotations

import contextlib
import errno
import os
import random
import threading
from collections.abc import Sequence

from headrace.log.files import OsFiles
from headrace.ports import Buffer


class Unsynced:
    """What a power loss would undo in one file."""

    __slots__ = ("overwritten", "synced_bytes")

    def __init__(self, synced_bytes: int) -> None:
        self.synced_bytes = synced_bytes
        self.overwritten: list[tuple[int, bytes]] = []  # in the order of the writes


class TempFiles(OsFiles):
    def __init__(self, seed: int, *, real_syncs: bool) -> None:
        self._real_syncs = real_syncs
        self._chance = random.Random(seed)
        self._lock = threading.Lock()  # for the tables; never held during a system call that waits
        self._files: dict[str, Unsynced] = {}
        self._handles: dict[int, tuple[Unsynced, str]] = {}
        self._locks: set[int] = set()
        self._failing: list[tuple[str, int]] = []
        self.free_bytes: int | None = None  # None: as many as there are

    # Faults

    def fail_syncs(self, count: int, path: str) -> None:
        self._failing.append((path, count))

    def mend(self) -> None:
        self._failing.clear()

    def descriptors(self) -> list[int]:
        return [*self._handles.copy(), *self._locks.copy()]

    def close_handles(self) -> None:
        for handle in self.descriptors():
            with contextlib.suppress(OSError):
                os.close(handle)
        self._handles.clear()
        self._locks.clear()
        self.mend()

    def lose_power(self) -> None:
        """Nothing may be open."""
        for path, file in sorted(self._files.items()):
            with contextlib.suppress(FileNotFoundError), open(path, "r+b") as real:
                for position, old in reversed(file.overwritten):
                    real.seek(position)
                    real.write(old)
                size = real.seek(0, os.SEEK_END)
                if size > file.synced_bytes:
                    real.truncate(
                        self._chance.choice((file.synced_bytes, self._chance.randint(file.synced_bytes, size)))
                    )
        self._files.clear()

    # The Files port

    def open(self, path: str, *, create: bool = False) -> int:
        handle = super().open(path, create=create)
        with self._lock:
            # A file that was there before we looked is taken for synced.
            self._handles[handle] = self._files.setdefault(path, Unsynced(super().size(handle))), path
        return handle

    def close(self, handle: int) -> None:
        with self._lock:
            self._handles.pop(handle, None)
            self._locks.discard(handle)
        super().close(handle)

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        file, path = self._handles[handle]
        size, wanted = super().size(handle), sum(map(len, buffers))
        growth = max(0, position + wanted - size)
        if self.free_bytes is not None and growth > self.free_bytes:
            fits = wanted - (growth - self.free_bytes)
            if fits <= 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
            buffers = [memoryview(b"".join(buffers))[:fits]]
        if position < file.synced_bytes:
            file.overwritten.append((position, super().pread(handle, min(wanted, size - position), position)))
        written = super().pwritev(handle, buffers, position)
        if self.free_bytes is not None:
            self.free_bytes -= max(0, position + written - size)
        return written

    def datasync(self, handle: int) -> None:
        file, path = self._handles[handle]
        self._maybe_fail(path)
        size, overwritten = super().size(handle), len(file.overwritten)
        if self._real_syncs:
            super().datasync(handle)
        file.synced_bytes = size
        del file.overwritten[:overwritten]

    def truncate(self, handle: int, size: int) -> None:
        file, _ = self._handles[handle]
        before = super().size(handle)
        if size < file.synced_bytes:
            file.overwritten.append((size, super().pread(handle, before - size, size)))
        super().truncate(handle, size)
        if self.free_bytes is not None:
            self.free_bytes += before - size

    def reserve(self, handle: int, position: int, size: int) -> bool:
        if self.free_bytes is not None and size > self.free_bytes:
            return False
        return super().reserve(handle, position, size)

    def rename(self, old: str, new: str) -> None:
        super().rename(old, new)
        with self._lock:
            moved = {
                path: path.replace(old, new, 1) for path in self._files if path == old or path.startswith(old + "/")
            }
            for path, name in moved.items():
                self._files[name] = self._files.pop(path)

    def remove(self, path: str) -> None:
        size = os.path.getsize(path) if self.free_bytes is not None else 0
        super().remove(path)
        with self._lock:
            self._files.pop(path, None)
            if self.free_bytes is not None:
                self.free_bytes += size

    def sync_directory(self, path: str) -> None:
        self._maybe_fail(path)
        if self._real_syncs:
            super().sync_directory(path)

    def lock(self, path: str) -> int:
        handle = super().lock(path)
        self._locks.add(handle)
        return handle

    def _maybe_fail(self, path: str) -> None:
        with self._lock:
            for place, (part, count) in enumerate(self._failing):
                if part in path:
                    self._failing[place : place + 1] = [(part, count - 1)] if count > 1 else []
                    raise OSError(errno.EIO, "the sync failed", path)
