"""What the operating system knows of this process and of its disk. Only asked for when somebody looks; off the loop,
because a disk may take its time even to say how full it is."""

from __future__ import annotations

import os
import resource
import sys
import time
from typing import NamedTuple

STATM, STAT, DESCRIPTORS = "/proc/self/statm", "/proc/self/stat", "/proc/self/fd"
START_FIELD = 19  # of /proc/self/stat after the name: ticks from the machine's start to the process's
_LOADED_AT = time.time()  # where the system does not tell when the process began


class DiskSpace(NamedTuple):
    free_bytes: int
    """What we may still write: less than what is free, where some is reserved for root."""

    total_bytes: int


class ProcessState(NamedTuple):
    cpu_s: float
    memory_bytes: int | None
    open_files: int | None
    open_files_limit: int
    threads: int | None
    started_s: float


def disk_space(path: str) -> DiskSpace | None:
    """None: the system does not say."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return DiskSpace(found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize)


def process_state() -> ProcessState:
    used = resource.getrusage(resource.RUSAGE_SELF)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    fields = _words(STAT, after=") ")
    ticks = os.sysconf("SC_CLK_TCK")
    return ProcessState(
        used.ru_utime + used.ru_stime,
        _memory_bytes(used.ru_maxrss),
        _open_files(),
        soft,
        int(fields[17]) if fields else None,
        _boot_s() + int(fields[START_FIELD]) / ticks if fields else _LOADED_AT,
    )


def _memory_bytes(largest: int) -> int | None:
    pages = _words(STATM)
    if pages:
        return int(pages[1]) * os.sysconf("SC_PAGE_SIZE")
    return largest if sys.platform == "darwin" else None  # there: the most that it ever was


def _open_files() -> int | None:
    try:
        return len(os.listdir(DESCRIPTORS)) - 1  # without the one that lists them
    except OSError:
        return None


def _boot_s() -> float:
    return time.time() - time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else 0.0


def _words(path: str, after: str = "") -> list[str]:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            text = file.read()
    except OSError:
        return []
    return text.rpartition(after)[2].split() if after else text.split()
