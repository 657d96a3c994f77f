"""Who is asked what: any node, one node, the controller, the leaders of partitions; and when asking again is right.

What only reads is asked again until its time is over. What changes something is asked again only when the broker
said that it did not do it: after a lost connection nobody knows, and the error says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeVar

from headrace.client import backoff
from headrace.client.apis import LIST_OFFSETS, Api, Fill
from headrace.client.connection import Connection
from headrace.client.connections import Connections
from headrace.client.metadata import Metadata
from headrace.client.refusals import MISDIRECTED, NOT_CONTROLLER, error_of
from headrace.client.values import OffsetAt
from headrace.errors import ConnectionFailed, HeadraceError, RequestTimedOut, UnknownPartition
from headrace.wire.kafka.codes_client import RETRIABLE
from headrace.wire.kafka.list_offsets import AskedOffset, FoundOffset, ListOffsetsRequest

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")

# The broker's own time for a change, shorter than ours, so that its answer and not our timeout tells.
BROKER_SHARE: Final = 0.9


class Asking:
    def __init__(self, connections: Connections, metadata: Metadata, timeout: float) -> None:
        self.connections, self.metadata, self.timeout = connections, metadata, timeout
        self._loop = asyncio.get_running_loop()

    @property
    def broker_timeout_ms(self) -> int:
        return int(self.timeout * BROKER_SHARE * 1000)

    async def any(self, api: Api[Q, A], request: Q) -> A:
        """Something that every node can tell."""

        async def ask() -> A:
            connection = await self.connections.any(self.metadata.nodes)
            return await connection.ask(api, request, self.timeout)

        return await self._again(ask)

    async def node(self, node_id: int, api: Api[Q, A], request: Q) -> A:
        async def ask() -> A:
            return await (await self.to(node_id)).ask(api, request, self.timeout)

        return await self._again(ask)

    async def controller(
        self, api: Api[Fill, Any], request: Fill, codes: Callable[[Any], list[int]], node_id: int | None = None
    ) -> Any:
        """Changes something. `codes` finds the error codes in the answer: "not the controller" is asked again."""
        deadline, failures = self._loop.time() + self.timeout, 0
        while True:
            wanted = self.metadata.controller_id if node_id is None else node_id
            connection = await self.to(wanted) if wanted >= 0 else await self.connections.any(self.metadata.nodes)
            try:
                answer = await connection.ask(api, request, self.timeout)
            except ConnectionFailed as error:
                raise ConnectionFailed(f"{error}; whether {api.name} was done is not known") from error
            failures += 1
            wait_s = backoff.wait_s(failures)
            if NOT_CONTROLLER not in codes(answer) or self._loop.time() + wait_s > deadline:
                return answer
            await asyncio.sleep(wait_s)
            await self.metadata.cluster_now()

    async def leaders(
        self,
        topic: str,
        partitions: Mapping[int, R],
        ask: Callable[[Connection, dict[int, R]], Awaitable[dict[int, A]]],
        is_repeatable: bool = True,
    ) -> dict[int, A]:
        """Asks the leader of each partition, one question for each node, again where it led no more.

        `ask` gives what it found; the rest is asked again, after a look at who leads now. What is not repeatable is
        not asked again after a lost connection, since it may have been done.
        """
        deadline, failures = self._loop.time() + self.timeout, 0
        left, found = dict(partitions), dict[int, A]()
        failure: HeadraceError | None = None
        while left:
            by_node: dict[int, dict[int, R]] = {}
            for partition, wanted in left.items():
                node = self.metadata.leader(topic, partition)
                by_node.setdefault(-1 if node is None else node.id, {})[partition] = wanted
            by_node.pop(-1, None)
            for node_id, asked in by_node.items():
                try:
                    connection = await self.to(node_id)
                except ConnectionFailed as error:
                    failure = error
                    continue
                try:
                    found |= await ask(connection, asked)
                except (ConnectionFailed, RequestTimedOut) as error:
                    if not is_repeatable:
                        raise
                    failure = error
            left = {partition: wanted for partition, wanted in left.items() if partition not in found}
            if not left:
                break
            failures += 1
            wait_s = backoff.wait_s(failures)
            if self._loop.time() + wait_s > deadline:
                words = f"no leader of {topic!r} partition {min(left)} answered within {self.timeout:g} s"
                raise failure or RequestTimedOut(words)
            await asyncio.sleep(wait_s)
            await self.metadata.refresh([topic])
            await self.metadata.topic(topic)  # raises when it is gone
        return found

    async def offsets(self, topic: str, times: Mapping[int, int], isolation_level: int = 0) -> dict[int, OffsetAt]:
        """ListOffsets: for each partition the first offset of a time, or what one of the special times means."""

        async def ask(connection: Connection, asked: dict[int, int]) -> dict[int, OffsetAt]:
            wanted = [AskedOffset(partition, -1, time) for partition, time in asked.items()]
            request = ListOffsetsRequest([(topic, wanted)], -1, isolation_level, self.broker_timeout_ms)
            answer = await connection.ask(LIST_OFFSETS, request, self.timeout)
            found: dict[int, OffsetAt] = {}
            for name, partitions in answer.topics:
                for one in partitions if name == topic else ():
                    if not one.error:
                        found[one.partition] = OffsetAt(one.offset, one.timestamp, one.leader_epoch)
                    elif not _is_passing(one):
                        raise error_of(one.error, f"offsets of {topic!r} partition {one.partition}")
            return found

        return await self.leaders(topic, times, ask)

    async def to(self, node_id: int) -> Connection:
        node = self.metadata.nodes.get(node_id)
        if node is None:
            await self.metadata.cluster_now()
            node = self.metadata.nodes.get(node_id)
        if node is None:
            known = ", ".join(str(key) for key in sorted(self.metadata.nodes)) or "none"
            raise ConnectionFailed(f"there is no node {node_id} in the cluster; its nodes are: {known}")
        return await self.connections.to(node)

    async def _again(self, ask: Callable[[], Awaitable[A]]) -> A:
        deadline, failures = self._loop.time() + self.timeout, 0
        while True:
            try:
                return await ask()
            except ConnectionFailed:
                failures += 1
                wait_s = backoff.wait_s(failures)
                if self._loop.time() + wait_s > deadline:
                    raise
            await asyncio.sleep(wait_s)


def _is_passing(found: FoundOffset) -> bool:
    return found.error in MISDIRECTED or found.error in RETRIABLE


def checked_partition(count: int, topic: str, partition: int) -> None:
    if not 0 <= partition < count:
        raise UnknownPartition(f"topic {topic!r} has partitions 0 to {count - 1}, not {partition}")
