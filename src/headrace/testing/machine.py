"""The machine under a simulated node: its disk, its clock, its threads; and the node's own start and stop.

`MachineFiles` stands between the node and the disk: it writes every operation into the trace, and through it
a dead process reaches no file. The power can go at any change of the disk, in the middle of whatever the node
is doing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from headrace.node.node import Node
from headrace.node.settings import Address, Settings
from headrace.ports import Buffer
from headrace.testing import process as processes
from headrace.testing.background import SimulatedBackground, SimulatedClock
from headrace.testing.disk import PowerLoss, SimulatedDisk
from headrace.testing.loop import SimulatedLoop
from headrace.testing.workload import WALL_MS

T = TypeVar("T")

DATA = "/data"
# Little of everything, so that runs of seconds reach the bounds: open files, memory tails.
OPEN_FILES = 12
TAIL_MEMORY_BYTES = 64 * 1024
MAX_SKEW_MS = 60_000
MAX_CLOCK_STEP_MS = 10_000
NEVER = -1
FORGOTTEN_SHARE = 0.5  # of the pages that a failed sync did not write
FREE_BYTES_WHEN_FULL = (0, 100, 3000)


class Machine(Protocol):
    """What the node runs on, and the node's own start and stop. All calls but the last four come from its
    process."""

    on_forgotten: Callable[[], None]  # called when the node learns of a sync that failed and lost what it was to keep

    async def start(self, loop: SimulatedLoop, host: str, port: int) -> None:
        """Returns when it serves."""
        ...

    async def stop(self) -> None: ...

    def crash(self) -> None:
        """The process died: its files are closed, its memory is gone."""
        ...

    def lose_power(self) -> None: ...

    def lose_power_at(self, changes: int, on_power_loss: Callable[[], None]) -> None:
        """Calls back in the middle of that many changes of the disk from now, unless healed before."""
        ...

    def strike(self, kind: str) -> None:
        """A fault of the disk or the clock begins: `full`, `sync`, `forget`, `clock`."""
        ...

    def heal(self, kind: str) -> None:
        """What `strike` did, or `lose_power_at` (`power`) has not done yet, is over."""
        ...


class MachineFiles:
    def __init__(self, disk: SimulatedDisk, loop: SimulatedLoop) -> None:
        self._disk, self._loop = disk, loop
        self.on_power_loss: Callable[[], None] = lambda: None

    def _do(self, name: str, where: str, operation: Callable[[], T]) -> T:
        owner = processes.current()
        if owner is not None and not owner.alive:
            raise PowerLoss(f"{name} {where}: the process is dead")
        try:
            result = operation()
        except OSError as error:
            self._loop.trace.add("disk", f"{name} {where} {type(error).__name__} {error.errno}")
            raise
        except PowerLoss:
            self._loop.trace.add("disk", f"{name} {where} and the power goes")
            self.on_power_loss()
            raise
        self._loop.trace.add("disk", f"{name} {where}{_said(result)}")
        return result

    def open(self, path: str, *, create: bool = False) -> int:
        return self._do("create" if create else "open", path, lambda: self._disk.open(path, create=create))

    def close(self, handle: int) -> None:
        self._do("close", str(handle), lambda: self._disk.close(handle))

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        where = f"{handle} {position}+{sum(map(len, buffers))}"
        return self._do("write", where, lambda: self._disk.pwritev(handle, buffers, position))

    def pread(self, handle: int, size: int, position: int) -> bytes:
        return self._do("read", f"{handle} {position}+{size}", lambda: self._disk.pread(handle, size, position))

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        where = f"{handle} {position}+{size}"
        return self._do("try-read", where, lambda: self._disk.pread_nowait(handle, size, position))

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return self._disk.is_resident(handle, size, position)

    def pour(self, handle: int, pipe: int, size: int, position: int) -> int:
        return self._disk.pour(handle, pipe, size, position)

    def datasync(self, handle: int) -> None:
        self._do("sync", str(handle), lambda: self._disk.datasync(handle))

    def truncate(self, handle: int, size: int) -> None:
        self._do("truncate", f"{handle} {size}", lambda: self._disk.truncate(handle, size))

    def reserve(self, handle: int, position: int, size: int) -> bool:
        where = f"{handle} {position}+{size}"
        return self._do("reserve", where, lambda: self._disk.reserve(handle, position, size))

    def release(self, handle: int, size: int) -> None:
        self._do("release", f"{handle} {size}", lambda: self._disk.release(handle, size))

    def size(self, handle: int) -> int:
        return self._do("size", str(handle), lambda: self._disk.size(handle))

    def rename(self, old: str, new: str) -> None:
        self._do("rename", f"{old} {new}", lambda: self._disk.rename(old, new))

    def remove(self, path: str) -> None:
        self._do("remove", path, lambda: self._disk.remove(path))

    def remove_directory(self, path: str) -> None:
        self._do("remove-directory", path, lambda: self._disk.remove_directory(path))

    def make_directory(self, path: str) -> None:
        self._do("make-directory", path, lambda: self._disk.make_directory(path))

    def sync_directory(self, path: str) -> None:
        self._do("sync-directory", path, lambda: self._disk.sync_directory(path))

    def list(self, path: str) -> list[str]:
        return self._do("list", path, lambda: self._disk.list(path))

    def exists(self, path: str) -> bool:
        return self._do("exists", path, lambda: self._disk.exists(path))

    def lock(self, path: str) -> int:
        return self._do("lock", path, lambda: self._disk.lock(path))

    def holds(self, lock: int, path: str) -> bool:
        return self._do("holds", path, lambda: self._disk.holds(lock, path))


def _said(result: object) -> str:
    match result:
        case None:
            return ""
        case bytes() | bytearray() | memoryview():
            return f" = {len(result)} bytes"
        case _:
            return f" = {result}"


class SimulatedMachine:
    def __init__(self, loop: SimulatedLoop) -> None:
        self.random = loop.random_for("machine")
        self._trace = loop.trace
        self.disk = SimulatedDisk(
            self.random.randrange(1 << 32),
            short_writes=self.random.choice((0.0, 0.1)),
            waits=self.random.choice((0.0, 0.3)),
        )
        self.files = MachineFiles(self.disk, loop)
        self.background = SimulatedBackground(loop)
        self.clock = SimulatedClock(loop, WALL_MS, self.random.randint(-MAX_SKEW_MS, MAX_SKEW_MS))
        self.node: Node | None = None
        self.on_forgotten: Callable[[], None] = lambda: None  # the node learns of a sync that failed and lost pages
        self._forgets = False

    async def start(self, loop: SimulatedLoop, host: str, port: int) -> None:
        settings = Settings(data=DATA, kafka=Address(host, port), tail_memory_bytes=TAIL_MEMORY_BYTES)
        self.node = Node(
            settings,
            files=self.files,
            clock=self.clock,
            background=self.background,
            chance=self.random,
            on_event=self._event,
            open_files=OPEN_FILES,
        )
        await self.node.start()

    async def stop(self) -> None:
        assert self.node is not None
        await self.node.stop()

    def _event(self, name: str, fields: dict[str, object]) -> None:
        self._trace.add("event", f"{name} " + " ".join(f"{key}={value}" for key, value in fields.items()))
        if name == "log.failed" and self._forgets:
            self._forgets = False
            self.on_forgotten()

    def crash(self) -> None:
        self.disk.crash()

    def lose_power(self) -> None:
        self.disk.power_loss(self.random.choice(("some", "some", "some", "none", "all")))

    def lose_power_at(self, changes: int, on_power_loss: Callable[[], None]) -> None:
        self.files.on_power_loss = on_power_loss
        self.disk.stop_at(self.disk.changes + 1 + changes)

    def strike(self, kind: str) -> None:
        match kind:
            case "full":
                self.disk.fill(self.random.choice(FREE_BYTES_WHEN_FULL))
            case "sync" | "forget":
                self._forgets = kind == "forget"
                self.disk.forgets = FORGOTTEN_SHARE if self._forgets else 0.0
                self.disk.fail_syncs(1)
            case "clock":
                self.clock.step(self.random.randint(-MAX_CLOCK_STEP_MS, MAX_CLOCK_STEP_MS))
            case _:
                raise ValueError(f"no fault of a machine: {kind}")

    def heal(self, kind: str) -> None:
        match kind:
            case "full":
                self.disk.empty()
            case "sync" | "forget":
                self.disk.mend()
            case "power":
                self.disk.stop_at(NEVER)
