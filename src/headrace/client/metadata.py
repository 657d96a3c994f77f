"""What the client knows of the cluster: its nodes, and for topics that somebody uses, who leads their partitions.

One view for a client's producers, consumers and administration. It is asked for when a topic is first used, again when
a broker says that it is old, and by age. All who want the same topics at once share one question.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Final

from headrace.client import backoff
from headrace.client.apis import METADATA
from headrace.client.connections import Connections
from headrace.client.refusals import LEADER_NOT_AVAILABLE, error_of
from headrace.client.values import Cluster, Node, Partition, Topic
from headrace.errors import ConnectionFailed, HeadraceError, RequestTimedOut
from headrace.wire.kafka.codes_client import RETRIABLE
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.leaders import Endpoint, Leader
from headrace.wire.kafka.metadata import AskedTopic, MetadataRequest, TopicState
from headrace.wire.kafka.primitives import NIL_UUID

MAX_AGE_S: Final = 300.0  # Kafka's metadata.max.age.ms: how soon new partitions are seen that nobody told us of
# A broker that makes topics on first use says "unknown" while it does. One that does not, never stops saying it.
CREATION_GRACE_S: Final = 3.0


class Metadata:
    def __init__(self, connections: Connections, timeout: float) -> None:
        self.nodes: dict[int, Node] = {}
        self.cluster_id: str | None = None
        self.controller_id = -1
        self._topics: dict[str, Topic] = {}
        self._asked_at: dict[str, float] = {}
        self._connections, self._timeout = connections, timeout
        self._loop = asyncio.get_running_loop()
        self._running: dict[tuple[tuple[str, ...], bool], asyncio.Task[None]] = {}

    @property
    def cluster(self) -> Cluster:
        return Cluster(self.cluster_id, self.controller_id, tuple(self.nodes[key] for key in sorted(self.nodes)))

    def known(self, name: str) -> Topic | None:
        """What we know without asking."""
        return self._topics.get(name)

    def leader(self, topic: str, partition: int) -> Node | None:
        known = self._topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return None
        return self.nodes.get(known.partitions[partition].leader)

    def leader_epoch(self, topic: str, partition: int) -> int:
        known = self._topics.get(topic)
        if known is None or not 0 <= partition < len(known.partitions):
            return -1
        return known.partitions[partition].leader_epoch

    def is_old(self, name: str) -> bool:
        return self._loop.time() - self._asked_at.get(name, -MAX_AGE_S) >= MAX_AGE_S

    def learn(self, topic: str, partition: int, leader: Leader | None, endpoints: Iterable[Endpoint]) -> bool:
        """A broker that refused said who leads instead; False when that is nothing new."""
        known = self._topics.get(topic)
        if leader is None or known is None or not 0 <= partition < len(known.partitions):
            return False
        old = known.partitions[partition]
        for node_id, host, port, rack in endpoints:
            self.nodes[node_id] = Node(node_id, host, port, rack)
        if leader.epoch <= old.leader_epoch or leader.node_id not in self.nodes:
            return False
        new = Partition(partition, leader.node_id, leader.epoch, old.replicas, old.in_sync)
        partitions = (*known.partitions[:partition], new, *known.partitions[partition + 1 :])
        self._topics[topic] = Topic(known.name, known.topic_id, known.internal, partitions)
        return True

    # Asking

    async def all(self) -> list[Topic]:
        """Every topic there is; none of them is kept, for nobody said that it will be used."""
        return [_topic(state) for state in await self._ask(None, False) if not state.error]

    async def refresh(self, names: Iterable[str], *, create: bool = False) -> None:
        """Asks anew. A topic that is not there any more is forgotten; nothing is raised for it."""
        wanted = tuple(sorted(set(names)))
        running = self._running.get((wanted, create))
        if running is None:
            running = self._running[wanted, create] = self._loop.create_task(self._refresh(wanted, create))
            running.add_done_callback(lambda task: task.cancelled() or task.exception())
        await asyncio.shield(running)

    async def topic(self, name: str, *, create: bool = False, grace_s: float = 0.0) -> Topic:
        """As known, else asked for until it is there with a leader for each partition; raises why not.

        `create`: the broker may make it. `grace_s`: for how long "there is no such topic" is not believed.
        """
        known = self._topics.get(name)
        if known is not None:
            return known
        begin, failures = self._loop.time(), 0
        while True:
            (state,) = await self._ask((name,), create)
            if not state.error and all(partition.leader >= 0 for partition in state.partitions):
                self._keep(state)
                return self._topics[name]
            waited = self._loop.time() - begin
            code = state.error or LEADER_NOT_AVAILABLE
            limit = grace_s if code == Code.UNKNOWN_TOPIC_OR_PARTITION else self._timeout
            if code not in RETRIABLE or waited >= limit:
                raise _refusal(name, code, create)
            failures += 1
            await asyncio.sleep(backoff.wait_s(failures))

    def forget(self, name: str) -> None:
        self._topics.pop(name, None)
        self._asked_at.pop(name, None)

    async def cluster_now(self) -> Cluster:
        await self._ask((), False)
        return self.cluster

    async def _refresh(self, names: tuple[str, ...], create: bool) -> None:
        try:
            for state in await self._ask(names, create):
                if state.error:
                    if state.error in (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.INVALID_TOPIC_EXCEPTION) and state.name:
                        self.forget(state.name)
                else:
                    self._keep(state)
        finally:
            self._running.pop((names, create), None)

    async def _ask(self, names: tuple[str, ...] | None, create: bool) -> list[TopicState]:
        asked = None if names is None else [AskedTopic(name, None) for name in names]
        request = MetadataRequest(asked, allow_auto_create=create)

        async def ask() -> list[TopicState]:
            connection = await self._connections.any(self.nodes)
            cluster, topics = await connection.ask(METADATA, request, self._timeout)
            if cluster.error:
                raise error_of(cluster.error, "the cluster's metadata")
            # A broker that is starting knows of no node yet, not even itself: what we knew is better.
            if cluster.nodes:
                self.nodes = {node.node_id: Node(*node) for node in cluster.nodes}
            self.cluster_id, self.controller_id = cluster.cluster_id, cluster.controller_id
            return topics

        return await self.until_connected(ask) if self.nodes else await ask()

    async def until_connected(self, ask: Callable[[], Awaitable[list[TopicState]]]) -> list[TopicState]:
        """Whoever was connected once waits for the cluster to come back, as long as one request may take."""
        begin, failures = self._loop.time(), 0
        while True:
            try:
                return await ask()
            except (ConnectionFailed, RequestTimedOut):
                failures += 1
                wait_s = backoff.wait_s(failures)
                if self._loop.time() - begin + wait_s >= self._timeout:
                    raise
                await asyncio.sleep(wait_s)

    def _keep(self, state: TopicState) -> None:
        topic = _topic(state)
        old = self._topics.get(topic.name)
        if old is not None and old.topic_id == topic.topic_id:
            topic = _newest(old, topic, self.nodes)
        self._topics[topic.name] = topic
        self._asked_at[topic.name] = self._loop.time()


def _topic(state: TopicState) -> Topic:
    partitions = sorted(state.partitions)
    return Topic(
        state.name or "",
        None if state.topic_id in (None, NIL_UUID) else state.topic_id,
        state.is_internal,
        tuple(
            Partition(one.partition, one.leader, one.leader_epoch, tuple(one.replicas), tuple(one.isr))
            for one in partitions
        ),
    )


def _newest(old: Topic, new: Topic, nodes: Container[int]) -> Topic:
    """A node that lags behind may tell of a leader that was replaced: of each partition the newer epoch counts, as
    long as its leader is there."""
    partitions = tuple(
        before if before.leader_epoch > now.leader_epoch >= 0 and before.leader in nodes else now
        for before, now in zip(old.partitions, new.partitions, strict=False)
    )
    return Topic(new.name, new.topic_id, new.internal, partitions + new.partitions[len(partitions) :])


def _refusal(name: str, code: int, create: bool) -> HeadraceError:
    if code == Code.UNKNOWN_TOPIC_OR_PARTITION:
        why = "there is no such topic"
        return error_of(code, f"topic {name!r}", why + (", and the broker does not make topics on first use" * create))
    if code == LEADER_NOT_AVAILABLE:
        return error_of(code, f"topic {name!r}", "a partition has no leader; are all nodes running?")
    return error_of(code, f"topic {name!r}")
