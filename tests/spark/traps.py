"""Steps of a batch on its way into a topic, and traps at them: whoever comes to a step where one is set kills, with
SIGKILL and before it does anything else, whom the trap is for.

Tasks, the driver and the broker are processes of their own and come to steps of their own, so the traps are a file that
all of them look at, one at a time. What sprang is written down: a trap that nobody stepped on proves nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec
import psutil

# In a task
WRITING: Final = "rows are being written"
FLUSHED: Final = "a task has flushed"
# In the broker
SENT: Final = "the commit was sent"
SYNCED: Final = "its batch is synced"
FIRST_MARKER: Final = "the first marker is there"
LAST_MARKER: Final = "the last marker is there"
ANSWER: Final = "the answer is lost"
# In the driver
ANSWERED: Final = "the answer is there, and no checkpoint"
STEPS: Final = (WRITING, FLUSHED, SENT, SYNCED, FIRST_MARKER, LAST_MARKER, ANSWER, ANSWERED)

WORKERS, DRIVER, BROKER = "workers", "driver", "broker"
VICTIMS: Final = (WORKERS, DRIVER, BROKER)
TIME: Final = "time"  # nobody dies: whoever comes to the step does as if much time had passed


class Trap(msgspec.Struct):
    step: str
    victim: str
    passes: int = 0  # so often the step is passed before


class Cast(msgspec.Struct, kw_only=True):
    """Who is who. Workers are the processes below `roots` that have `word` in their command; where some of them are
    others' children, these: who only starts workers is none."""

    driver: int = 0  # of its process group, too
    broker: int = 0
    roots: Sequence[int] = ()
    word: str = "pyspark.daemon"


class Traps:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def cast(self, cast: Cast) -> None:
        _write(self._folder / "cast", msgspec.json.encode(cast))

    def set(self, traps: Sequence[Trap], fault: str = "") -> None:
        """`fault`: one that the broker is to have until the next time."""
        _write(self._folder / "set", msgspec.json.encode(traps))
        _write(self._folder / "sprung", b"")
        _write(self._folder / "fault", fault.encode())

    def fault(self) -> str:
        file = self._folder / "fault"
        return file.read_text() if file.exists() else ""

    def sprung(self) -> list[str]:
        """Steps and victims, in order."""
        return (self._folder / "sprung").read_text().splitlines()

    def is_set(self, step: str) -> bool:
        return any(trap.step == step for trap in self._load())

    def reach(self, step: str) -> str | None:
        """Who was killed, if whoever asks is still there to hear it."""
        with self._locked():
            traps = self._load()
            trap = next((one for one in traps if one.step == step), None)
            if trap is None:
                return None
            trap.passes -= 1
            if trap.passes < 0:
                traps.remove(trap)
            _write(self._folder / "set", msgspec.json.encode(traps))
            if trap.passes >= 0:
                return None
            with open(self._folder / "sprung", "a") as told:
                told.write(f"{step}: {trap.victim}\n")
        _kill(trap.victim, msgspec.json.decode((self._folder / "cast").read_bytes(), type=Cast))
        return trap.victim

    def _load(self) -> list[Trap]:
        with contextlib.suppress(FileNotFoundError):
            return msgspec.json.decode((self._folder / "set").read_bytes(), type=list[Trap])
        return []

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        with open(self._folder / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _write(file: Path, content: bytes) -> None:
    """Whole or not at all: the writer may be dead the next moment."""
    file.with_suffix(".new").write_bytes(content)
    file.with_suffix(".new").rename(file)


def _kill(victim: str, cast: Cast) -> None:
    with contextlib.suppress(ProcessLookupError):
        if victim == BROKER:
            os.kill(cast.broker, signal.SIGKILL)
        elif victim == DRIVER:
            os.killpg(cast.driver, signal.SIGKILL)
        elif victim == WORKERS:
            found = workers(cast)
            for process in sorted(found, key=lambda one: one.pid == os.getpid()):  # who kills comes last
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()


def workers(cast: Cast) -> list[psutil.Process]:
    found = []
    for root in cast.roots:
        with contextlib.suppress(psutil.NoSuchProcess):
            for process in psutil.Process(root).children(recursive=True):
                with contextlib.suppress(psutil.NoSuchProcess):
                    if cast.word in " ".join(process.cmdline()):
                        found.append((process, process.ppid()))
    pids = {process.pid for process, _ in found}
    return [process for process, parent in found if parent in pids] or [process for process, _ in found]
