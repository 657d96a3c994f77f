"""Small repairs of files, each whole and safe by itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from headrace.log.damage import Hole
from headrace.log.format import INDEX, NEW
from headrace.log.segment import Segment
from headrace.log.walk import WINDOW_BYTES
from headrace.log.writing import write_all
from headrace.ports import Files


def save_index(files: Files, segment: Segment, data: bytes) -> None:
    """Its name is synced with the directory, by whoever writes the snapshot that comes with it."""
    path = segment.path(INDEX)
    handle = files.open(path + NEW, create=True)
    try:
        files.truncate(handle, 0)
        write_all(files, handle, data, 0)
        files.datasync(handle)
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


def write_again(files: Files, segment: Segment, position: int, holes: Sequence[Hole]) -> None:
    """The same bytes in the same place, from `position` on, and synced. But for those of its holes, which may not read,
    and are lost whatever becomes of them."""
    handle = files.open(segment.path())
    try:
        for begin, end in _between(
            sorted((hole.position, hole.end_position) for hole in holes), position, segment.size
        ):
            while begin < end:
                data = files.pread(handle, min(WINDOW_BYTES, end - begin), begin)
                if not data:
                    raise OSError(f"{segment.path()} became shorter while it was read")
                write_all(files, handle, data, begin)
                begin += len(data)
        files.datasync(handle)
    finally:
        files.close(handle)


def _between(holes: list[tuple[int, int]], position: int, end: int) -> Iterator[tuple[int, int]]:
    for first, last in holes:
        if position < min(first, end):
            yield position, min(first, end)
        position = max(position, last)
    if position < end:
        yield position, end
