"""Files as they are copied: in windows, with a digest of what went through, and never over a file that is there.

A name that is taken is removed first and made anew: the old file may have other names, in other backups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from headrace.log.walk import WINDOW_BYTES
from headrace.log.writing import write_all
from headrace.ports import Files

DIGEST_BYTES = 32


class CopiedFile(NamedTuple):
    name: str
    size: int
    digest: str  # BLAKE2b, hexadecimal


class Through:
    """Reads one file, and whatever is read for the first time goes to the other."""

    def __init__(self, source: Files, target: Files, original: str, path: str, pace: Callable[[int], None]) -> None:
        self._source, self._target, self._pace = source, target, pace
        self._handle = source.open(original)
        try:
            remove_file(target, path)
            self.written = target.open(path, create=True)
        except OSError:
            source.close(self._handle)
            raise
        self.copied = 0
        self._digest = new_digest()

    def fetch(self, size: int, position: int) -> bytes:
        """Never starts behind what was copied, so that nothing is left out."""
        assert position <= self.copied
        data = self._source.pread(self._handle, size, position)
        new = memoryview(data)[self.copied - position :]
        if new:
            write_all(self._target, self.written, new, self.copied)
            self._digest.update(new)
            self.copied += len(new)
            self._pace(len(new))
        return data

    def rest(self, size: int) -> None:
        """Up to `size`, or to the end if that comes before."""
        while self.copied < size and self.fetch(min(WINDOW_BYTES, size - self.copied), self.copied):
            pass

    def digest(self) -> str:
        return self._digest.hexdigest()

    def close(self) -> None:
        self._source.close(self._handle)
        self._target.close(self.written)


def copy_file(source: Files, target: Files, original: str, path: str, pace: Callable[[int], None]) -> tuple[int, str]:
    """The whole file, synced: its size and its digest."""
    through = Through(source, target, original, path, pace)
    try:
        while through.fetch(WINDOW_BYTES, through.copied):
            pass
        target.datasync(through.written)
    finally:
        through.close()
    return through.copied, through.digest()


def put_file(files: Files, path: str, data: bytes) -> None:
    """A small file, whole and synced."""
    remove_file(files, path)
    handle = files.open(path, create=True)
    try:
        write_all(files, handle, data, 0)
        files.datasync(handle)
    finally:
        files.close(handle)


def remove_file(files: Files, path: str) -> None:
    if files.exists(path):
        files.remove(path)


def digest_of(data: bytes) -> str:
    made = new_digest()
    made.update(data)
    return made.hexdigest()


def digest_of_file(files: Files, path: str, pace: Callable[[int], None] = lambda _: None) -> str:
    handle, position, made = files.open(path), 0, new_digest()
    try:
        while data := files.pread(handle, WINDOW_BYTES, position):
            made.update(data)
            position += len(data)
            pace(len(data))
    finally:
        files.close(handle)
    return made.hexdigest()


def new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=DIGEST_BYTES)
