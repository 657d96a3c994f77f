"""The Files port on a real operating system. One method, one system call; nothing is remembered but the
locks, and whether the system can send from its memory.

Where `fdatasync` does not exist (macOS) the device's own cache is flushed with F_FULLFSYNC, because `fsync`
there stops at the device's door.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache
from typing import cast

from headrace.ports import Buffer
from headrace.records.kernel import room

_NOWAIT: int = getattr(os, "RWF_NOWAIT", 0)
_KEEP_SIZE = 1
_CACHESTAT = 451  # on all of these
_CACHESTAT_MACHINES = frozenset({"x86_64", "aarch64", "riscv64", "ppc64le", "s390x", "armv7l", "loongarch64"})
_NEVER_POURS = frozenset({errno.EINVAL, errno.ENOSYS, errno.EPERM, errno.EOPNOTSUPP})  # this file system, or this jail
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_WOULD_WAIT = frozenset({errno.EAGAIN, errno.EOPNOTSUPP, errno.ENOSYS})


def _full_sync(handle: int) -> None:
    fcntl.fcntl(handle, getattr(fcntl, "F_FULLFSYNC", 51))


_datasync = os.fdatasync if hasattr(os, "fdatasync") else _full_sync
_sync_names = os.fsync if hasattr(os, "fdatasync") else _full_sync


@cache
def _allocate() -> Callable[[int, int, int, int], int] | None:
    """Linux's fallocate, which alone can leave the size as it is; the standard library has only POSIX's."""
    import ctypes

    try:
        call = ctypes.CDLL(None).fallocate64
    except (AttributeError, OSError):
        return None
    call.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
    return cast(Callable[[int, int, int, int], int], call)


def _cachestat() -> Callable[[int, int, int], int]:
    """Linux's cachestat (6.5 and newer): how many pages of a stretch are in memory; none where nobody can tell. For
    one thread."""
    import ctypes

    if not sys.platform.startswith("linux") or os.uname().machine not in _CACHESTAT_MACHINES:
        return lambda handle, size, position: 0

    class Stretch(ctypes.Structure):
        _fields_ = (("position", ctypes.c_uint64), ("size", ctypes.c_uint64))

    class Pages(ctypes.Structure):
        _fields_ = tuple((name, ctypes.c_uint64) for name in ("cached", "dirty", "writeback", "evicted", "recently"))

    call = ctypes.CDLL(None).syscall
    call.argtypes = (ctypes.c_long, ctypes.c_uint, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint)
    stretch, pages = Stretch(), Pages()
    at, to = ctypes.addressof(stretch), ctypes.addressof(pages)

    def cached(handle: int, size: int, position: int) -> int:
        stretch.position, stretch.size = position, size
        return pages.cached if call(_CACHESTAT, handle, at, to, 0) == 0 else 0

    return cached


class OsFiles:
    _cached: Callable[[int, int, int], int] | None = None  # from the first question on

    def open(self, path: str, *, create: bool = False) -> int:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0), 0o640)

    def close(self, handle: int) -> None:
        os.close(handle)

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        return os.pwritev(handle, buffers, position)

    def pread(self, handle: int, size: int, position: int) -> bytes:
        return os.pread(handle, size, position)

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        if not _NOWAIT:
            return None
        buffer = room(size)
        try:
            count = os.preadv(handle, (buffer,), position, _NOWAIT)
        except OSError as error:
            if error.errno in _WOULD_WAIT:
                return None
            raise
        return buffer if count == size else memoryview(buffer)[:count]

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        if self._cached is None:
            self._cached = _cachestat()
        return self._cached(handle, size, position) > (position + size - 1) // _PAGE_BYTES - position // _PAGE_BYTES

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        try:
            return os.splice(handle, pipe, size, position)
        except OSError as error:
            if error.errno in _NEVER_POURS:
                self._cached = lambda handle, size, position: 0
            raise

    def datasync(self, handle: int) -> None:
        _datasync(handle)

    def truncate(self, handle: int, size: int) -> None:
        os.ftruncate(handle, size)

    def reserve(self, handle: int, position: int, size: int) -> bool:
        allocate = _allocate()
        return allocate is not None and allocate(handle, _KEEP_SIZE, position, size) == 0

    def release(self, handle: int, size: int) -> None:
        if os.fstat(handle).st_size == size:  # never a byte that somebody wrote
            os.ftruncate(handle, size)

    def size(self, handle: int) -> int:
        return os.fstat(handle).st_size

    def rename(self, old: str, new: str) -> None:
        os.rename(old, new)

    def remove(self, path: str) -> None:
        os.unlink(path)

    def remove_directory(self, path: str) -> None:
        os.rmdir(path)

    def make_directory(self, path: str) -> None:
        os.makedirs(path, mode=0o750, exist_ok=True)

    def sync_directory(self, path: str) -> None:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync_names(handle)
        finally:
            os.close(handle)

    def list(self, path: str) -> list[str]:
        return sorted(os.listdir(path))

    def exists(self, path: str) -> bool:
        return os.path.exists(path)

    def lock(self, path: str) -> int:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(handle)
            raise
        return handle

    def holds(self, lock: int, path: str) -> bool:
        try:
            return os.path.samestat(os.fstat(lock), os.stat(path))
        except (FileNotFoundError, NotADirectoryError):
            return False


class ReadOnlyFiles(OsFiles):
    """For looking into a directory that another process works in: nothing here can change it."""

    def open(self, path: str, *, create: bool = False) -> int:
        if create:
            raise _read_only(path)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        raise _read_only(str(handle))

    def truncate(self, handle: int, size: int) -> None:
        raise _read_only(str(handle))

    def reserve(self, handle: int, position: int, size: int) -> bool:
        return False

    def release(self, handle: int, size: int) -> None:
        raise _read_only(str(handle))

    def rename(self, old: str, new: str) -> None:
        raise _read_only(old)

    def remove(self, path: str) -> None:
        raise _read_only(path)

    def remove_directory(self, path: str) -> None:
        raise _read_only(path)

    def make_directory(self, path: str) -> None:
        raise _read_only(path)

    def lock(self, path: str) -> int:
        raise _read_only(path)


def _read_only(path: str) -> OSError:
    return OSError(errno.EROFS, "it is only looked at", path)
