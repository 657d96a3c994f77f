"""Small repairs of files, each whole and safe by itself."""

from __future__ import annotations

from headrace.log.format import INDEX, NEW
from headrace.log.segment import Segment
from headrace.log.walk import WINDOW_BYTES
from headrace.log.writing import write_all
from headrace.ports import Files


def save_index(files: Files, segment: Segment, data: bytes) -> None:
    """Not synced: an index that a power loss took is built anew."""
    path = segment.path(INDEX)
    handle = files.open(path + NEW, create=True)
    try:
        files.truncate(handle, 0)
        write_all(files, handle, data, 0)
    finally:
        files.close(handle)
    files.rename(path + NEW, path)


def cut_file(files: Files, path: str, size: int) -> None:
    """Synced at once: were the cut lost, old bytes could show up behind new ones."""
    handle = files.open(path)
    try:
        if files.size(handle) > size:
            files.truncate(handle, size)
        files.datasync(handle)
    finally:
        files.close(handle)


def write_again(files: Files, segment: Segment, position: int) -> None:
    """The same bytes in the same place, from `position` on, and synced."""
    handle = files.open(segment.path())
    try:
        while position < segment.size:
            data = files.pread(handle, min(WINDOW_BYTES, segment.size - position), position)
            if not data:
                raise OSError(f"{segment.path()} became shorter while it was read")
            write_all(files, handle, data, position)
            position += len(data)
        files.datasync(handle)
    finally:
        files.close(handle)
