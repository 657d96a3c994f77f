"""Writing whole things: all the bytes, or a whole file in place of another."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from headrace.errors import DiskFull, HeadraceError, StorageFailed
from headrace.log.format import NEW
from headrace.ports import Buffer, Files

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_HANDLES = frozenset({errno.EMFILE, errno.ENFILE})  # of this process, of the machine
MAX_BUFFERS = 1024  # IOV_MAX of Linux and macOS


def write_all(files: Files, handle: int, data: Buffer, position: int) -> None:
    write_rest(files, handle, (data,), position, 0)


def write_rest(files: Files, handle: int, buffers: Sequence[Buffer], position: int, written: int) -> None:
    """All of `buffers` from `position` on, of which the first `written` bytes are there already."""
    place = 0
    while place < len(buffers):
        if written >= len(buffers[place]):
            written -= len(buffers[place])
            position += len(buffers[place])
            place += 1
            continue
        first = memoryview(buffers[place])[written:]
        count = files.pwritev(handle, (first, *buffers[place + 1 : place + MAX_BUFFERS]), position + written)
        if count <= 0:
            raise OSError(errno.EIO, "a write wrote nothing")
        written += count


def replace_file(files: Files, path: str, data: Buffer, *, durable: bool) -> None:
    """Whole or not at all: a new file takes the old one's name. Durable: also after a power loss, once this
    returned."""
    write_beside(files, path, data, durable=durable)
    files.rename(path + NEW, path)
    if durable:
        files.sync_directory(os.path.dirname(path))


def write_beside(files: Files, path: str, data: Buffer, *, durable: bool = True) -> None:
    """The file that is to take that name."""
    handle = files.open(path + NEW, create=True)
    try:
        files.truncate(handle, 0)
        write_all(files, handle, data, 0)
        if durable:
            files.datasync(handle)
    finally:
        files.close(handle)


def read_whole(files: Files, path: str) -> bytes:
    handle = files.open(path)
    try:
        size = files.size(handle)
        data = files.pread(handle, size, 0)
        while len(data) < size:  # a read of more than 2 GiB, or one that was interrupted
            more = files.pread(handle, size - len(data), len(data))
            if not more:
                break
            data += more
        return data
    finally:
        files.close(handle)


def is_short_of_handles(error: BaseException) -> bool:
    """Only opening is refused with this: nothing was done, and the same again may go well a moment later."""
    return isinstance(error, OSError) and error.errno in NO_HANDLES


def explain(error: BaseException, what: str) -> HeadraceError:
    """The operating system's words as ours."""
    if isinstance(error, HeadraceError):
        return error
    if isinstance(error, OSError) and error.errno in FULL:
        return DiskFull(f"no space left {what}: free some, or shorten retention; writing resumes by itself")
    if is_short_of_handles(error):
        return DiskFull(
            f"too many open files {what}: raise the limit of open files (ulimit -n), or close connections;"
            " writing resumes by itself"
        )
    return StorageFailed(f"the disk failed {what} ({error}): check it, then open the log again to recover")
