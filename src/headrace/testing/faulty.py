"""The disks that a broker under test can stand on: one in memory, one in a temporary folder. Both fail on request.

A disk outlives the node; `LifeFiles` is what one life of a node sees of it. When that life ends its files are closed,
as the kernel closes those of a dead process, and whatever of it still runs reaches no file any more.

`memory` is the simulator's disk: no folder is touched and nothing waits for a real sync, but what was not synced is
still lost with the power, names of files included. `disk` has real files, to be looked at; a power loss takes what was
written since the last sync, all or its end, and leaves names as they are.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.node.host import DiskSpace, disk_space
from headrace.ports import Buffer, Files
from headrace.testing.disk import SimulatedDisk
from headrace.testing.tempfiles import TempFiles

T = TypeVar("T")

PREFIX = "headrace-test-"
MEMORY_DISK_BYTES = 1 << 40  # what a disk in memory says that it has; nothing is set aside for it


class Killed(BaseException):
    """The process is dead: nothing that a program could handle."""


class NoTemporaryFolder(HeadraceError):
    """A temporary log was asked for where no folder can be made."""


class FaultyDisk(Protocol):
    @property
    def root(self) -> str:
        """The node's data directory."""
        ...

    def open_life(self) -> LifeFiles: ...

    def close_handles(self) -> None:
        """A life is over: what it had open is closed, what it had locked is free."""
        ...

    def lose_power(self) -> None: ...

    def fill(self, free_bytes: int = 0) -> None: ...

    def empty(self) -> None: ...

    def fail_syncs(self, count: int = 1, path: str = "") -> None: ...

    def mend(self) -> None:
        """Whatever was to fail and has not yet will not."""
        ...

    def space(self) -> DiskSpace | None: ...

    def descriptors(self) -> list[int]:
        """Of real files that are open."""
        ...

    def remove(self) -> None:
        """Everything that it holds."""
        ...


class LifeFiles:
    """The Files port for one life."""

    def __init__(self, files: Files, lock: contextlib.AbstractContextManager[object]) -> None:
        self._files, self._lock = files, lock
        self.is_dead = False

    def _do(self, operation: Callable[[], T]) -> T:
        with self._lock:
            if self.is_dead:
                raise Killed("the process is dead")
            return operation()

    def open(self, path: str, *, create: bool = False) -> int:
        return self._do(lambda: self._files.open(path, create=create))

    def close(self, handle: int) -> None:
        self._do(lambda: self._files.close(handle))

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        return self._do(lambda: self._files.pwritev(handle, buffers, position))

    def pread(self, handle: int, size: int, position: int) -> bytes:
        return self._do(lambda: self._files.pread(handle, size, position))

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        return self._do(lambda: self._files.pread_nowait(handle, size, position))

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return self._do(lambda: self._files.is_resident(handle, size, position))

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        return self._do(lambda: self._files.pour(handle, pipe, size, position))

    def datasync(self, handle: int) -> None:
        self._do(lambda: self._files.datasync(handle))

    def truncate(self, handle: int, size: int) -> None:
        self._do(lambda: self._files.truncate(handle, size))

    def reserve(self, handle: int, position: int, size: int) -> bool:
        return self._do(lambda: self._files.reserve(handle, position, size))

    def release(self, handle: int, size: int) -> None:
        self._do(lambda: self._files.release(handle, size))

    def size(self, handle: int) -> int:
        return self._do(lambda: self._files.size(handle))

    def rename(self, old: str, new: str) -> None:
        self._do(lambda: self._files.rename(old, new))

    def remove(self, path: str) -> None:
        self._do(lambda: self._files.remove(path))

    def remove_directory(self, path: str) -> None:
        self._do(lambda: self._files.remove_directory(path))

    def make_directory(self, path: str) -> None:
        self._do(lambda: self._files.make_directory(path))

    def sync_directory(self, path: str) -> None:
        self._do(lambda: self._files.sync_directory(path))

    def list(self, path: str) -> list[str]:
        return self._do(lambda: self._files.list(path))

    def exists(self, path: str) -> bool:
        return self._do(lambda: self._files.exists(path))

    def lock(self, path: str) -> int:
        return self._do(lambda: self._files.lock(path))

    def holds(self, lock: int, path: str) -> bool:
        return self._do(lambda: self._files.holds(lock, path))


class _Untraced(SimulatedDisk):
    """The trace is for the simulator, which compares runs; a broker under test runs for long."""

    def _change(self, text: str) -> None:
        super()._change(text)
        self.trace.clear()


class MemoryDisk:
    def __init__(self, seed: int) -> None:
        self.root = "/data"
        self._disk = _Untraced(seed)
        self._lock = threading.RLock()  # the simulator, where it comes from, has no threads

    def open_life(self) -> LifeFiles:
        return LifeFiles(self._disk, self._lock)

    def close_handles(self) -> None:
        with self._lock:
            self._disk.crash()

    def lose_power(self) -> None:
        with self._lock:
            self._disk.power_loss()

    def fill(self, free_bytes: int = 0) -> None:
        with self._lock:
            self._disk.fill(free_bytes)

    def empty(self) -> None:
        with self._lock:
            self._disk.empty()

    def fail_syncs(self, count: int = 1, path: str = "") -> None:
        with self._lock:
            self._disk.fail_syncs(count, path)

    def mend(self) -> None:
        with self._lock:
            self._disk.mend()

    def space(self) -> DiskSpace | None:
        return DiskSpace(min(self._disk.free_bytes, MEMORY_DISK_BYTES), MEMORY_DISK_BYTES)

    def descriptors(self) -> list[int]:
        return []

    def remove(self) -> None:
        """It goes with its last user."""


class TempDisk:
    """A folder of its own, which goes with it; or one that was given, which stays."""

    def __init__(self, seed: int, folder: str | os.PathLike[str] | None = None) -> None:
        self._files = TempFiles(seed, real_syncs=folder is not None)
        if folder is not None:
            self.root = os.path.abspath(folder)
            self._remove = _nothing
            return
        try:
            made = tempfile.mkdtemp(prefix=PREFIX)
        except OSError as error:
            raise NoTemporaryFolder(
                f"no folder can be made for a temporary log ({error}): name one that can be written to (TMPDIR, or"
                ' data=FOLDER), or use storage="memory", which needs none'
            ) from error
        self.root = os.path.join(made, "data")
        # Also when the interpreter ends with the broker still open; but never by a forked child.
        self._remove = weakref.finalize(self, _remove_folder, made, os.getpid())

    def open_life(self) -> LifeFiles:
        return LifeFiles(self._files, contextlib.nullcontext())

    def close_handles(self) -> None:
        self._files.close_handles()

    def lose_power(self) -> None:
        self._files.lose_power()

    def fill(self, free_bytes: int = 0) -> None:
        self._files.free_bytes = free_bytes

    def empty(self) -> None:
        self._files.free_bytes = None

    def fail_syncs(self, count: int = 1, path: str = "") -> None:
        self._files.fail_syncs(count, path)

    def mend(self) -> None:
        self._files.mend()

    def space(self) -> DiskSpace | None:
        real, free_bytes = disk_space(self.root), self._files.free_bytes
        return real if real is None or free_bytes is None else DiskSpace(free_bytes, real.total_bytes)

    def descriptors(self) -> list[int]:
        return self._files.descriptors()

    def remove(self) -> None:
        self._remove()


def _remove_folder(folder: str, pid: int) -> None:
    if os.getpid() == pid:
        shutil.rmtree(folder, ignore_errors=True)


def _nothing() -> None:
    """The folder is not ours."""
