"""A node: one data directory, one broker, its doors. Built from ports, so that the simulator starts the same node as
`headrace serve`."""

from __future__ import annotations

import asyncio
import base64
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

MAINTENANCE_S = 10.0  # how often retention looks for something to do


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
    ) -> None:
        self.settings = settings
        self._files, self._clock, self._background = files, clock, background
        self._chance, self._on_event, self._open_files = chance, on_event, open_files
        self.addresses: dict[str, Address] = {}
        self._timer: asyncio.TimerHandle | None = None

    async def start(self) -> None:
        self._loop = loop = asyncio.get_running_loop()
        settings = self.settings
        limits = StoreLimits(open_files=self._open_files, tail_bytes=settings.tail_memory_bytes)
        self.store = LogStore.open(settings.data, self._files, self._clock, self._background, limits)
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
        self._timer = loop.call_later(MAINTENANCE_S, self._maintain)

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
                f"cannot listen on {at} for {name}: {error.strerror or error}; --{name} HOST:PORT moves it"
            ) from error
        return Address(host, port)

    def _maintain(self) -> None:
        self._timer = self._loop.call_later(MAINTENANCE_S, self._maintain)
        self.broker.maintain()


def _text_id(raw: bytes) -> str:
    """As Kafka writes ids: 22 characters."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
