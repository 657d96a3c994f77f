"""A node: one data directory, one broker, its doors. Built from ports, so that the simulator starts the same node as
`headrace serve`."""

from __future__ import annotations

import asyncio
import base64
import os
import random
from collections.abc import Awaitable, Callable

from headrace.broker.broker import Broker, OnEvent
from headrace.cluster import controller
from headrace.cluster.image import Image
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated, MetadataRecord
from headrace.doors.kafka.door import KafkaDoor
from headrace.errors import HeadraceError, InvalidConfig
from headrace.log.config import StoreLimits
from headrace.log.store import LogStore
from headrace.node.settings import Address, Settings
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
        log_background: Background | None = None,
        end_background: Callable[[], None] = lambda: None,
    ) -> None:
        """`log_background`: threads for the log alone, so that a sync never waits behind reads. `end_background` waits
        for what they still do; after it the data directory is let go."""
        self.settings = settings
        self._files, self._clock, self._background = files, clock, background
        self._log_background, self._end_background = log_background or background, end_background
        self._chance, self._on_event, self._open_files = chance, on_event, open_files
        self.addresses: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._ticks = 0

    async def start(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        settings = self.settings
        limits = StoreLimits(open_files=self._open_files, tail_bytes=settings.tail_memory_bytes)
        self.store = LogStore.open(
            settings.data, self._files, self._clock, self._log_background, limits, self._on_event
        )
        try:
            self.quorum = Quorum(self.store, self._files, self._clock, settings.node_id, self._on_event)
            self.broker = Broker(
                self.store,
                self.quorum,
                settings.node_id,
                settings.broker,
                self._clock,
                self._background,
                loop.create_future,
                lambda: self._chance.randbytes(16),
                self._on_event,
            )
            self.kafka = KafkaDoor(
                self.broker, self._background, loop, settings.kafka_limits, self._chance, self._on_event
            )
            if settings.kafka is not None:
                self.addresses["kafka"] = await self._listen("kafka", settings.kafka, self.kafka.start)
            self.quorum.propose_now(self._registration)
        except BaseException:
            self.store.close()
            raise
        self._timer = loop.call_later(TICK_S, self._tick)

    async def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        await self.kafka.stop()
        self.broker.flush()
        drained = self._loop.create_future()
        self.store.drain(lambda: drained.set_result(None))
        await drained
        self.broker.close()
        self.quorum.close()
        self._end_background()
        self.store.close()

    def _registration(self, image: Image) -> list[MetadataRecord]:
        listeners = {name: str(address) for name, address in self.addresses.items()}
        records = controller.register_node(image, self.settings.node_id, listeners, None)
        if not image.cluster_id:
            cluster_id = self._chance.randbytes(16)
            records = [ClusterCreated(_text_id(cluster_id), self._clock.now_ms()), *records]
        elif self.settings.node_id not in image.nodes:
            known = ", ".join(map(str, sorted(image.nodes)))
            raise InvalidConfig(f"{self.settings.data} belongs to node {known}: start with --node-id {known}")
        return records

    async def _listen(self, name: str, at: Address, start: Callable[[str, int], Awaitable[tuple[str, int]]]) -> Address:
        try:
            host, port = await start(at.host, at.port)
        except OSError as error:
            raise HeadraceError(
                f"cannot listen on {at} for {name}: {os.strerror(error.errno) if error.errno else error}; "
                f"--{name} HOST:PORT moves it (port 0: any free one)"
            ) from error
        return Address(host, port)

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        self._ticks += 1
        if self._ticks % TICKS_TO_MAINTENANCE == 0:
            self.broker.maintain()
        else:
            self.broker.sync_due()


def _text_id(raw: bytes) -> str:
    """As Kafka writes ids: 22 characters."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
