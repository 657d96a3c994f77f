"""CPU time of everything that a program started, by process, from the kernel's own books.

Spark forks and ends Python workers as it likes, and does not wait for them, so the kernel adds their time to nobody's
books when they are gone. Hence each process is looked at often, and one that is gone keeps what it had when it was last
seen: what is missed is the last tenth of a second of its life.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

LOOK_EVERY_S: Final = 0.1
TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_PARENT, _USER, _SYSTEM, _STARTED = 1, 11, 12, 19  # fields after the name


class Process(NamedTuple):
    pid: int
    started: int  # numbers of processes are used again
    parent: int
    name: str
    ticks: int  # its own; those of its children stand in their own books


def processes() -> Iterator[Process]:
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = Path(f"/proc/{entry}/stat").read_text()
        except (FileNotFoundError, ProcessLookupError):  # it ended meanwhile
            continue
        name = text[text.index("(") + 1 : text.rindex(")")]
        fields = text[text.rindex(")") + 2 :].split()
        ticks = int(fields[_USER]) + int(fields[_SYSTEM])
        yield Process(int(entry), int(fields[_STARTED]), int(fields[_PARENT]), name, ticks)


class Watch:
    """`with Watch(kind_of) as watch: ...` follows what this process started, until the end. `watch.cpu_s()` gives
    seconds so far, by the kinds that `kind_of` tells; this process itself is its caller's."""

    def __init__(self, kind_of: Callable[[Process], str]) -> None:
        self._kind_of = kind_of
        self._root = os.getpid()
        self._seen: dict[tuple[int, int], tuple[str, int]] = {}  # kind and ticks
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._own_s = 0.0
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def cpu_s(self) -> dict[str, float]:
        began = time.thread_time()
        self._look()
        seconds: dict[str, float] = {}
        with self._lock:
            for kind, ticks in self._seen.values():
                seconds[kind] = seconds.get(kind, 0.0) + ticks / TICKS_PER_SECOND
        self._own_s += time.thread_time() - began
        return seconds

    @property
    def own_s(self) -> float:
        """What watching itself cost."""
        return self._own_s

    def _run(self) -> None:
        while not self._over.wait(LOOK_EVERY_S):
            began = time.thread_time()
            self._look()
            self._own_s += time.thread_time() - began

    def _look(self) -> None:
        below: dict[int, list[Process]] = {}
        for one in processes():
            below.setdefault(one.parent, []).append(one)
        found = list(below.get(self._root, []))
        with self._lock:
            while found:
                one = found.pop()
                found += below.get(one.pid, [])
                _, before = self._seen.get((one.pid, one.started), ("", 0))
                self._seen[one.pid, one.started] = (self._kind_of(one), max(before, one.ticks))
