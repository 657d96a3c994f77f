"""What the client knows of the cluster, and which of two stories it believes."""

from __future__ import annotations

from uuid import UUID

import headrace.aio
from headrace.client.values import Node, Partition, Topic
from headrace.wire.kafka.leaders import Endpoint, Leader
from headrace.wire.kafka.metadata import PartitionState, TopicState

ID = UUID(int=7)


def state(leader: int, epoch: int, topic_id: UUID = ID) -> TopicState:
    return TopicState("t", topic_id, [PartitionState(0, leader, epoch, [1, 2], [1, 2])])


async def test_a_node_that_lags_behind_does_not_bring_back_an_old_leader(headrace_address: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        metadata = client._open().metadata
        metadata.nodes = {1: Node(1, "a", 1), 2: Node(2, "b", 2)}
        metadata._keep(state(2, 5))
        metadata._keep(state(1, 4))
        assert metadata.leader("t", 0) == Node(2, "b", 2)
        metadata._keep(state(1, 6))
        assert metadata.leader("t", 0) == Node(1, "a", 1)
        metadata._keep(state(2, 0, UUID(int=8)))  # another topic of that name begins anew
        assert metadata.leader("t", 0) == Node(2, "b", 2)
        assert metadata.leader("t", 1) is None and metadata.leader("u", 0) is None


async def test_a_refusal_that_names_the_new_leader_is_believed(headrace_address: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        metadata = client._open().metadata
        metadata.nodes = {1: Node(1, "a", 1)}
        metadata._keep(state(1, 4))
        assert not metadata.learn("t", 0, Leader(1, 4), [])
        assert not metadata.learn("t", 0, Leader(3, 5), [])  # nobody says where that is
        assert not metadata.learn("t", 0, None, [])
        assert metadata.learn("t", 0, Leader(3, 5), [Endpoint(3, "c", 3, None)])
        assert metadata.leader("t", 0) == Node(3, "c", 3)
        assert metadata.known("t") == Topic("t", ID, False, (Partition(0, 3, 5, (1, 2), (1, 2)),))
