"""How many bytes partitions take on the disk. An open log knows; of one that nobody has opened yet the files are asked,
off the loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from headrace.broker.partition import Partition
from headrace.log.format import LOG
from headrace.ports import Files


def measure(partitions: Iterable[Partition], files: Files) -> Callable[[], list[int]]:
    """What is known is taken down now; the rest is found by what this gives, which may wait for the disk."""
    known = [p.log.size_bytes if p.log is not None else p.folder for p in partitions]
    return lambda: [size if isinstance(size, int) else _folder_bytes(files, size) for size in known]


def _folder_bytes(files: Files, folder: str) -> int:
    """0 for a log that was never written to, or that went while we looked."""
    try:
        return sum(_file_bytes(files, f"{folder}/{name}") for name in files.list(folder) if name.endswith(LOG))
    except FileNotFoundError:
        return 0


def _file_bytes(files: Files, path: str) -> int:
    handle = files.open(path)
    try:
        return files.size(handle)
    finally:
        files.close(handle)
