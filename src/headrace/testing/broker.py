"""A real broker inside of the test's own process: the node of `headrace serve` on real sockets and free ports, with a
clock that can be moved and a disk that fails on request.

It has a thread and a loop of its own, so that any client can talk to it: blocking ones, asyncio ones, those in C. All
methods may be called from any thread; each returns when what it asks for is done. `broker.aio` has the same methods
as coroutines, for tests whose loop must go on meanwhile.

Addresses and data stay the same over `crash`, `stop`, `start` and `restart`. Whatever is left to chance comes from the
seed. A child that is forked off can talk to the broker, but not command it.
"""

from __future__ import annotations

import os
import random
import threading
import weakref
import zlib
from collections.abc import Callable, Coroutine, Iterable, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

from headrace.errors import HeadraceError, InvalidConfig
from headrace.node import settings as node_settings
from headrace.node.settings import Settings
from headrace.node.settings.sources import nearest
from headrace.node.settings.table import BY_FLAG, LISTEN
from headrace.testing.aio import AsyncBroker
from headrace.testing.clock import BrokerClock, Duration, MovableClock, duration_s, nanoseconds
from headrace.testing.events import Event, Events
from headrace.testing.faulty import FaultyDisk, MemoryDisk, TempDisk
from headrace.testing.life import Life, NotRunning
from headrace.testing.reserved import ReservedPort
from headrace.testing.shortcuts import Setting, Shortcuts, as_text
from headrace.testing.workers import Slowness

T = TypeVar("T")

Storage = Literal["memory", "disk"]
Topics = Mapping[str, int] | Iterable[str]

OFF = "off"
OWN_ARGUMENTS = ("storage", "seed", "topics", "data", "host")  # beside the flags of serve


class BrokerFault(HeadraceError):
    """The broker found a fault in itself during a test: a defect of Headrace, whatever the test says."""


class Broker(Shortcuts):
    """`with Broker() as broker:` or `async with`; or `start` and `close`.

    `storage`: "memory" keeps the log in this process, "disk" in a temporary folder (or in `data`, which then stays).
    `topics`: names, or names with their counts of partitions. `settings`: the flags of `headrace serve`, with
    underscores.
    """

    __test__ = False  # pytest: this is no test class

    def __init__(
        self,
        storage: Storage = "memory",
        *,
        seed: int = 0,
        topics: Topics = (),
        data: str | os.PathLike[str] | None = None,
        host: str = "127.0.0.1",
        **settings: Setting,
    ) -> None:
        if storage not in ("memory", "disk") or (storage == "memory" and data is not None):
            raise ValueError(f'storage is "memory" or "disk", and only "disk" takes data=; not {storage!r}')
        self.storage, self.seed = storage, seed
        self._pid, self._host, self._given = os.getpid(), host, settings
        self._topics = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, -1)
        self._lock = threading.RLock()
        self._movable = MovableClock()
        self.clock = BrokerClock(self._movable, self._advance)
        self._chance = random.Random(f"{seed}/node")
        self._drops = random.Random(f"{seed}/drops")
        self._slowness = Slowness(random.Random(f"{seed}/slowness"))
        self._disk: FaultyDisk | None = None
        self._data = data
        self._ports: dict[str, ReservedPort] = {}
        self._settings: Settings | None = None
        self._events: Events | None = None
        self._life: Life | None = None
        _OPEN.add(self)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(check=kind is None)

    async def __aenter__(self) -> Self:
        await self.aio.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aio.close(check=kind is None)

    def __repr__(self) -> str:
        return f"<headrace.testing.Broker {'at ' + self.kafka if self.is_running else 'that is down'}>"

    @property
    def aio(self) -> AsyncBroker:
        """The same methods as coroutines."""
        return AsyncBroker(self)

    # Where it is

    @property
    def kafka(self) -> str:
        """`HOST:PORT` for Kafka clients."""
        return self.address("kafka")

    @property
    def http(self) -> str:
        """`HOST:PORT` of the http door."""
        return self.address("http")

    @property
    def addresses(self) -> dict[str, str]:
        """`HOST:PORT` of every door that it has, by its name: kafka, binary, lines, json, http, msgpack."""
        return {door: self.address(door) for door in LISTEN if getattr(self._settings, door, None) is not None}

    def address(self, door: str) -> str:
        """Stays the same while the broker is down."""
        if self._settings is None:
            raise NotRunning("the broker was not started yet: its addresses are not known")
        address = getattr(self._settings, door, None)
        if address is None:
            raise NotRunning(f"the broker has no {door} door")
        return str(address)

    @property
    def data(self) -> str:
        """The data directory; of storage="memory", a name that no file system knows."""
        assert self._disk is not None, "the broker was not started yet"
        return self._disk.root

    @property
    def is_running(self) -> bool:
        return self._life is not None and os.getpid() == self._pid

    @property
    def events(self) -> list[Event]:
        """What it has said lately, as in the log of `headrace serve`."""
        return self._events.all() if self._events is not None else []

    # Coming and going

    def start(self) -> None:
        """Returns when it serves."""
        self._check_process()
        with self._lock:
            if self._life is not None:
                return
            first = self._settings is None
            if first:
                self._prepare()
            assert self._settings is not None and self._disk is not None
            life = Life(self._settings, self._movable, self._disk, self._slowness, self._chance, self._on_event)
            try:
                life.start()
                self._life = life
                missing = {name: count for name, count in self._topics.items() if name not in self.topics()}
                for name, partitions in missing.items():
                    self.create_topic(name, partitions)
            except BaseException:  # whoever could not enter will not leave: nothing may stay behind
                self._end(Life.stop)
                if first:
                    self._release()
                raise

    def stop(self) -> None:
        """As SIGTERM: answers what is under way, syncs, closes. Its data and addresses stay."""
        self._end(Life.stop)

    def restart(self) -> None:
        """Stops it unless it is down, and starts it on the same data and addresses."""
        with self._lock:
            self.stop()
            self.start()

    def close(self, *, check: bool = True) -> None:
        """Stops it for good; its data is gone. Faults that were asked for are healed first. `check`: a fault that the
        broker found in itself is raised."""
        if os.getpid() != self._pid:
            return
        with self._lock:
            if self._life is not None:
                self.heal()
            try:
                self.stop()
            finally:
                self._release()
        if check and self._events is not None and self._events.faults:
            raise BrokerFault("\n".join(map(str, self._events.faults)))

    # Faults

    def crash(self, *, power_loss: bool = False) -> None:
        """As kill -9: connections are reset, nothing is flushed. With `power_loss`, what was not synced is lost as
        well, all or some of it by seed. `restart` brings it back."""
        with self._lock:
            self._end(Life.crash)
            if power_loss and self._disk is not None:
                self._disk.lose_power()

    def drop_connections(self, share: float = 1.0) -> int:
        """Resets all connections, or that share of them, by seed; says how many."""
        life = self._running()
        return life.call(life.drop_connections, share, self._drops)

    def slow_disk(self, duration: Duration = 1.0, *, jitter: float = 0.0) -> None:
        """From now on each sync, and each read that misses memory, takes so much longer, give or take that part of
        it. The time is the broker's own: `clock.advance` gets over it. 0 heals, and lets go what waits."""
        self._check_process()
        if not 0 <= jitter <= 1:
            raise ValueError(f"jitter is a part of the duration, 0 to 1, not {jitter}")
        self._slowness.seconds, self._slowness.jitter = duration_s(duration), jitter
        if not self._slowness.seconds and self._life is not None:
            self._life.call(self._life.hurry)

    def fill_disk(self, free_bytes: int = 0) -> None:
        """Only so many bytes can be written from now on; then the disk is full, until `free_disk`."""
        self._with_disk().fill(free_bytes)

    def free_disk(self) -> None:
        """There is space again."""
        self._with_disk().empty()

    def fail_sync(self, count: int = 1, *, path: str = "") -> None:
        """The next so many syncs fail, of files and folders whose path contains `path`. What they would have synced is
        in doubt, as on a real disk, and a power loss takes it."""
        self._with_disk().fail_syncs(count, path)

    def heal(self) -> None:
        """All of the above is over: the disk is quick, empty and sound. What is lost stays lost."""
        disk = self._with_disk()
        disk.mend()
        disk.empty()
        self.slow_disk(0)

    def settle(self) -> None:
        """Returns when the broker has nothing to do at the moment."""
        life = self._running()
        life.call(life.settle)

    def connections(self) -> int:
        life = self._running()
        return life.call(life.connections)

    # Inside

    def _prepare(self) -> None:
        seed = zlib.crc32(f"{self.seed}/disk".encode())
        disk: FaultyDisk = MemoryDisk(seed) if self.storage == "memory" else TempDisk(seed, self._data)
        try:
            self._settings = self._read_settings(disk.root)
        except BaseException:
            disk.remove()
            self._release()
            raise
        self._disk = disk
        self._events = Events(f"headrace broker at {self.kafka}, storage={self.storage}, seed={self.seed}")

    def _read_settings(self, root: str) -> Settings:
        flags = {"data": root}
        for door in LISTEN:
            if self._given.get(door) is None:
                self._ports[door] = ReservedPort(self._host)
                host = f"[{self._host}]" if ":" in self._host else self._host
                flags[door] = f"{host}:{self._ports[door].number}"
        for name in self._given:
            if name.replace("_", "-") not in BY_FLAG and (near := nearest(name, list(OWN_ARGUMENTS))):
                raise InvalidConfig(f"a broker takes no {name}=; did you mean {near}=?")
        flags |= {name.replace("_", "-"): as_text(value) for name, value in self._given.items()}
        return node_settings.read(flags, {})

    def _end(self, how: Callable[[Life], None]) -> None:
        self._check_process()
        with self._lock:
            life, self._life = self._life, None
            if life is not None:
                how(life)

    def _release(self) -> None:
        for port in self._ports.values():
            port.release()
        self._ports.clear()
        if self._disk is not None:
            self._disk.remove()
        if self._events is not None:
            self._events.end()
        self._settings = None

    def _advance(self, seconds: float) -> None:
        self._check_process()
        with self._lock:
            if self._life is None:
                self._movable.move(nanoseconds(seconds))
            else:
                self._life.call(self._life.advance, seconds)

    def _ask(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        life = self._running()
        return life.call(function, life.node.broker, *args)

    def _on_event(self, name: str, fields: dict[str, object]) -> None:
        assert self._events is not None
        self._events.add(Event(self._movable.now_ms(), name, fields))

    def _running(self) -> Life:
        self._check_process()
        if self._life is None:
            raise NotRunning("the broker is down: start() or restart() brings it up")
        return self._life

    def _with_disk(self) -> FaultyDisk:
        self._check_process()
        if self._disk is None:
            raise NotRunning("the broker was not started yet: it has no disk")
        return self._disk

    def _check_process(self) -> None:
        if os.getpid() != self._pid:
            raise NotRunning(
                f"this broker belongs to process {self._pid}: a forked child can talk to it at its addresses, no more"
            )

    def _disown(self) -> None:
        """In a child: what it inherited must not keep ports and locks once the parent has let them go."""
        descriptors = [port.descriptor for port in self._ports.values()]
        if self._life is not None:
            descriptors += self._life.sockets()
        if self._disk is not None:
            descriptors += self._disk.descriptors()
        nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for descriptor in descriptors:
            if descriptor >= 0:
                os.dup2(nothing, descriptor, inheritable=False)
        os.close(nothing)


_OPEN: weakref.WeakSet[Broker] = weakref.WeakSet()


def _disown_all() -> None:
    for broker in list(_OPEN):
        broker._disown()


os.register_at_fork(after_in_child=_disown_all)
