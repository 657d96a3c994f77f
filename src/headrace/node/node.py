"""A node: one data directory, one broker, its doors. Built from ports, so that the simulator starts the same node as
`headrace serve`."""

from __future__ import annotations

import asyncio
import base64
import random
from collections.abc import Callable

from headrace.broker.broker import Broker, OnEvent
from headrace.broker.settings import Loggers, StaticSetting
from headrace.cluster import controller
from headrace.cluster.image import Image
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated, MetadataRecord
from headrace.doors.places import UNBOUNDED, Places
from headrace.errors import HeadraceError, InvalidConfig
from headrace.log.config import StoreLimits
from headrace.log.store import LogStore
from headrace.metrics import Histogram
from headrace.node import doors
from headrace.node.events import Events
from headrace.node.host import DiskSpace
from headrace.node.real import LoopTimers
from headrace.node.settings import Address, Settings
from headrace.node.watch import NodeWatch
from headrace.ports import Background, Clock, Files

TICK_S = 1.0  # how often a flush.ms is looked at
TICKS_TO_MAINTENANCE = 10  # and retention, which has more to look through


class Node:
    def __init__(
        self,
        settings: Settings,
        *,
        files: Files,
        clock: Clock,
        background: Background,
        chance: random.Random,
        on_event: OnEvent,
        open_files: int = 1024,
        connections: int = UNBOUNDED,
        log_background: Background | None = None,
        sync_background: Background | None = None,
        end_background: Callable[[], None] = lambda: None,
        disk_space: Callable[[], DiskSpace | None] = lambda: None,
        loggers: Loggers | None = None,
    ) -> None:
        """`connections`: of all doors together, so that they never take the log's `open_files`.
        `log_background`: threads for the log's housekeeping, `sync_background` for its syncs, so that these never wait
        behind reads or deletions. `end_background` waits for what they still do; after it the data directory is let go.
        `disk_space` may wait for the disk."""
        self.settings = settings
        self._files, self.clock, self.background = files, clock, background
        self._log_background, self._end_background = log_background or background, end_background
        self._sync_background = sync_background
        self.chance, self._open_files, self.disk_space = chance, open_files, disk_space
        self._loggers = loggers
        self.events = Events(on_event)
        self.watch = NodeWatch(self)
        self.lag = Histogram()
        self.doors: dict[str, doors.Door] = {}
        self.addresses: dict[str, Address] = {}
        self.is_stopping = False
        self._places = Places(connections)
        self._started_at = self._due = clock.monotonic()
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = 0

    async def start(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        settings = self.settings
        limits = StoreLimits(
            open_files=self._open_files,
            tail_bytes=settings.tail_memory_bytes,
            compaction_bytes=settings.compaction_memory_bytes,
        )
        self.store = LogStore.open(
            settings.data,
            self._files,
            self.clock,
            self._log_background,
            limits,
            self.events.event,
            self._sync_background,
        )
        try:
            self.quorum = Quorum(self.store, self._files, self.clock, settings.node_id, self.events.event)
            self.broker = Broker(
                self.store,
                self.quorum,
                settings.node_id,
                settings.broker,
                self.clock,
                self.background,
                loop.create_future,
                lambda: self.chance.randbytes(16),
                self.events.event,
                LoopTimers(loop),
            )
            self.broker.loggers, self.broker.disk_space = self._loggers, self.disk_space
            self.kafka, self.http = doors.kafka_door(self, loop), doors.http_door(self, loop)
            self.tcp = doors.tcp_doors(self, loop)
            self.doors = {"kafka": self.kafka, "http": self.http, **self.tcp}
            for door in self.doors.values():
                door.places = self._places
            for name, address in settings.listen().items():
                if name in self.doors:
                    self.addresses[name] = await doors.bind(name, self.doors[name], address)
            self.broker.configuration.bound = tuple(
                StaticSetting(f"headrace.{name}.bound", str(address), f"Where the {name} door listens.")
                for name, address in self.addresses.items()
            )
            await self._register()
            self.broker.groups.start()
            self.broker.queues.start()
            self.broker.transactions.start()
            await self.broker.make_sure_of(settings.default_topics)
        except BaseException:
            await self._give_up()
            raise
        await self._serve()
        self._wait_for_tick()

    async def _serve(self) -> None:
        """Only now: what came in before the registration was synced would carry the leader epoch of the last run."""
        try:
            for name, address in self.addresses.items():
                await doors.serve(name, self.doors[name], address)
        except HeadraceError:  # all else runs, and the doors before this one may have let somebody in
            await self.stop()
            raise
        except BaseException:
            await self._give_up()
            raise

    async def _give_up(self) -> None:
        for door in self.doors.values():
            await door.stop()
        self.store.close()

    async def stop(self) -> None:
        self.is_stopping = True
        if self._timer is not None:
            self._timer.cancel()
        self.broker.groups.stop()
        await asyncio.gather(*(door.stop() for door in self.doors.values()))  # each waits for what it has under way
        await self.broker.queues.stop()
        self.broker.flush()
        drained = self._loop.create_future()
        self.store.drain(lambda: drained.set_result(None))
        await drained
        self.broker.close()
        self.quorum.close()
        self._end_background()
        self.store.close()

    async def _register(self) -> None:
        """By the loop, not at once: an entry that begins a segment of the metadata log has a sync under way already."""
        registered: asyncio.Future[None] = self._loop.create_future()

        def done(error: HeadraceError | None) -> None:
            if not registered.done():
                registered.set_exception(error) if error is not None else registered.set_result(None)

        self.quorum.propose(self._registration, done)
        await registered

    def _registration(self, image: Image) -> list[MetadataRecord]:
        listeners = {name: str(address) for name, address in self.addresses.items()}
        advertised = {"kafka": self.settings.kafka_advertised, "http": self.settings.http_advertised}
        listeners |= {name: str(address) for name, address in advertised.items() if address is not None}
        records = controller.register_node(image, self.settings.node_id, listeners, None)
        if not image.cluster_id:
            cluster_id = self.chance.randbytes(16)
            records = [ClusterCreated(_text_id(cluster_id), self.clock.now_ms()), *records]
        elif self.settings.node_id not in image.nodes:
            known = ", ".join(map(str, sorted(image.nodes)))
            raise InvalidConfig(f"{self.settings.data} belongs to node {known}: start with --node-id {known}")
        return records

    @property
    def uptime_s(self) -> float:
        return self.clock.monotonic() - self._started_at

    def _wait_for_tick(self) -> None:
        self._due = self.clock.monotonic() + TICK_S
        self._timer = self._loop.call_later(TICK_S, self._tick)

    def _tick(self) -> None:
        self.lag.observe(max(0.0, self.clock.monotonic() - self._due))
        self._wait_for_tick()
        self._ticks += 1
        self.broker.sync_due()
        if self._ticks % TICKS_TO_MAINTENANCE == 0:
            self.broker.maintain()
            self.watch.look()

    def catch_up(self) -> None:
        """All that is done now and then is done now: for a driver that moves the clock."""
        self.broker.sync_due()
        self.broker.maintain()
        self.broker.groups.catch_up()
        self.broker.queues.catch_up()
        self.watch.look()
        self.kafka.look_for_timeouts()
        for tcp in self.tcp.values():
            tcp.look_for_timeouts()


def _text_id(raw: bytes) -> str:
    """As Kafka writes ids: 22 characters."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
