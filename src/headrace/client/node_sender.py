"""Produce requests to one node: what is ready for it is gathered into one request after the other, several on their
way at once. One batch of a partition goes in a request, as Kafka wants it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final
from uuid import UUID

from headrace.client.apis import PRODUCE, ProduceRequest
from headrace.client.asking import BROKER_SHARE
from headrace.client.connection import Answer, Connection
from headrace.client.lane import Batch, Lane
from headrace.client.refusals import MISDIRECTED
from headrace.errors import ConnectionFailed, HeadraceError, UnsupportedByBroker
from headrace.ports import Buffer
from headrace.wire.kafka.produce import BY_ID, PartitionResult

if TYPE_CHECKING:
    from headrace.client.sender import Sender

MAX_REQUESTS: Final = 5  # on their way at once
MAX_REQUEST_BYTES: Final = 16 << 20  # far below what brokers take, and enough that a request's own cost is nothing
MIN_REQUEST_TIMEOUT_S: Final = 1.0  # however little is left of a batch's time

Sent = list[tuple[Lane, Batch]]


class NodeSender:
    """Requests to one node, one after the other."""

    def __init__(self, sender: Sender, node_id: int) -> None:
        self._sender, self._node_id = sender, node_id
        self._lanes: dict[Lane, None] = {}  # that may have something ready, in the order in which they came
        self._on_their_way = 0
        self._wake = asyncio.Event()

    def offer(self, lane: Lane) -> None:
        self._lanes[lane] = None
        self._wake.set()

    async def run(self) -> None:
        while True:
            if not self._lanes or self._on_their_way >= MAX_REQUESTS:
                self._wake.clear()
                await self._wake.wait()
                continue
            connection = await self._connect()
            if connection is not None:
                await connection.drain()
                batches = self._collect()
                if batches:
                    self._send(connection, batches)

    async def _connect(self) -> Connection | None:
        """None when there is none now; the lanes went to look for other leaders."""
        sender = self._sender
        error: HeadraceError
        try:
            node = sender.metadata.nodes.get(self._node_id)
            if node is not None:
                return await sender.asking.connections.to(node)
            error = ConnectionFailed(f"node {self._node_id} left the cluster")
        except ConnectionFailed as failure:
            error = failure
        lanes, self._lanes = self._lanes, {}
        for lane in lanes:
            lane.note(error)
        await sender.refresh({lane.topic for lane in lanes})
        for lane in lanes:
            sender.offer(lane)
        return None

    def _collect(self) -> Sent:
        """One batch of each lane that has one ready, up to the size of a request; a lane with more stays in line."""
        sender, now = self._sender, self._sender.loop.time()
        found: Sent = []
        size = 0
        lanes, self._lanes = self._lanes, {}
        for lane in lanes:
            node = sender.metadata.leader(lane.topic, lane.partition)
            if node is None or node.id != self._node_id:
                sender.offer(lane)
            elif size >= MAX_REQUEST_BYTES:
                self._lanes[lane] = None
            elif (batch := lane.take(now)) is not None:
                found.append((lane, batch))
                size += len(batch.encoded or b"")
                if lane.is_ready(now):
                    self._lanes[lane] = None
            elif lane.needs_identity:
                sender.identify(lane)
            elif lane.not_before > now:
                sender.offer_at(lane.not_before, lane)
        return found

    def _send(self, connection: Connection, batches: Sent) -> None:
        sender = self._sender
        left = max(batch.deadline for _, batch in batches) - sender.loop.time()
        timeout = max(MIN_REQUEST_TIMEOUT_S, min(sender.request_timeout, left))
        request, newest = _request(sender, batches, int(timeout * BROKER_SHARE * 1000))
        if not sender.acks:
            self._send_unanswered(connection, request, newest, batches)
            return
        try:
            answer = connection.send(PRODUCE, request, timeout, newest)
        except UnsupportedByBroker as error:
            for lane, batch in batches:
                sender.refuse(lane, batch, error)
            return
        except HeadraceError as error:
            self._all_lost(batches, error)
            return
        self._on_their_way += 1
        sender.start(self._finish(connection, answer, batches))

    def _send_unanswered(
        self, connection: Connection, request: ProduceRequest, newest: int | None, batches: Sent
    ) -> None:
        """acks=0: written to the connection is all that there is to know."""
        try:
            connection.send_unanswered(PRODUCE, request, newest)
        except HeadraceError as error:
            self._all_lost(batches, error)
            return
        for lane, batch in batches:
            self._sender.answered(lane, batch, PartitionResult(lane.partition))
            self._sender.offer(lane)

    async def _finish(self, connection: Connection, answer: asyncio.Future[Answer], batches: Sent) -> None:
        sender = self._sender
        try:
            response = connection.read(PRODUCE, await answer)
        except HeadraceError as error:
            self._on_their_way -= 1
            self._all_lost(batches, error)
            await sender.refresh({lane.topic for lane, _ in batches})
            return
        self._on_their_way -= 1
        results = {
            (topic.topic_id or topic.name, result.partition): result
            for topic in response.topics
            for result in topic.partitions
        }
        stale: set[str] = set()
        for lane, batch in batches:
            result = results.get((_topic_id(sender, lane), lane.partition)) or results.get((lane.topic, lane.partition))
            if result is None:
                sender.lost(lane, batch, ConnectionFailed(f"{connection.address}: its answer left out a partition"))
            else:
                sender.answered(lane, batch, result)
                if result.error in MISDIRECTED and not sender.metadata.learn(
                    lane.topic, lane.partition, result.leader, response.endpoints
                ):
                    stale.add(lane.topic)
            sender.offer(lane)
        self._wake.set()
        if stale:
            await sender.refresh(stale)

    def _all_lost(self, batches: Sent, error: HeadraceError) -> None:
        for lane, batch in batches:
            self._sender.lost(lane, batch, error)
            self._sender.offer(lane)
        self._wake.set()


def _topic_id(sender: Sender, lane: Lane) -> UUID | None:
    topic = sender.metadata.known(lane.topic)
    return None if topic is None else topic.topic_id


def _request(sender: Sender, batches: Sent, timeout_ms: int) -> tuple[ProduceRequest, int | None]:
    """The request, and the newest version that it can be said in: by topic ids only if all have one."""
    by_topic: dict[str, list[tuple[int, Buffer | None]]] = {}
    ids: dict[str, UUID | None] = {}
    for lane, batch in batches:
        by_topic.setdefault(lane.topic, []).append((lane.partition, batch.encoded))
        ids[lane.topic] = _topic_id(sender, lane)
    topics = [(name, ids[name], partitions) for name, partitions in by_topic.items()]
    newest = sender.newest_produce
    if not all(ids.values()):
        newest = BY_ID - 1 if newest is None else min(newest, BY_ID - 1)
    return ProduceRequest(sender.acks, timeout_ms, topics, sender.transactional_id), newest
