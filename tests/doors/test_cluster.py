"""What a node tells of its cluster: DescribeCluster, DescribeQuorum, UpdateFeatures, UnregisterBroker."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker, create

SECOND = datetime.timedelta(seconds=1)
METADATA = "__cluster_metadata"


def wish(version: int, endpoint: int = 1, operations: bool = False) -> dict[str, Any]:
    fields: dict[str, Any] = {"include_cluster_authorized_operations": operations}
    if version >= 1:
        fields["endpoint_type"] = endpoint
    if version >= 2:
        fields["include_fenced_brokers"] = True
    return fields


@pytest.mark.parametrize("version", range(3))
async def test_the_cluster_is_described_with_the_address_at_which_it_was_reached(asker: Asker, version: int) -> None:
    answer = await asker.ask_by_schema(header.DESCRIBE_CLUSTER, version, wish(version))
    assert (answer.error_code, answer.cluster_id) == (Code.NONE, asker.node.broker.cluster_id)
    address = asker.node.addresses["kafka"]
    (node,) = answer.brokers
    assert (node.broker_id, node.host, node.port) == (0, address.host, address.port)
    assert (answer.controller_id, answer.cluster_authorized_operations) == (0, -(1 << 31))
    allowed = await asker.ask_by_schema(header.DESCRIBE_CLUSTER, version, wish(version, operations=True))
    assert allowed.cluster_authorized_operations > 0


@pytest.mark.parametrize(
    ("endpoint", "code"), [(2, Code.MISMATCHED_ENDPOINT_TYPE), (0, 115), (3, Code.UNSUPPORTED_ENDPOINT_TYPE)]
)
async def test_who_looks_for_controllers_is_told_that_this_is_none(asker: Asker, endpoint: int, code: int) -> None:
    answer = await asker.ask_by_schema(header.DESCRIBE_CLUSTER, 2, wish(2, endpoint))
    assert (answer.error_code, answer.brokers) == (code, ())


@pytest.mark.parametrize("version", range(3))
async def test_the_quorum_of_one_is_described_and_goes_on(asker: Asker, version: int) -> None:
    fields = {"topics": [{"topic_name": METADATA, "partitions": [{"partition_index": 0}]}]}

    async def state() -> Any:
        answer = await asker.ask_by_schema(header.DESCRIBE_QUORUM, version, fields)
        assert answer.error_code == Code.NONE
        if version >= 2:  # Kafka's tools take the names of listeners in capitals alone
            assert [(one.node_id, one.listeners[0].name) for one in answer.nodes] == [(0, "PLAINTEXT")]
        return answer.topics[0].partitions[0]

    before = await state()
    await create(asker, "t")
    after = await state()
    assert (before.error_code, before.leader_id) == (Code.NONE, 0)
    assert after.high_watermark == before.high_watermark + 1
    assert after.leader_epoch == before.leader_epoch > 0
    (voter,) = after.current_voters
    assert (voter.replica_id, voter.log_end_offset) == (0, after.high_watermark)
    if version >= 1:
        assert abs(voter.last_fetch_timestamp - asker.node.broker.clock.now_ms()) < 60_000


@pytest.mark.parametrize(("name", "index"), [("t", 0), (METADATA, 1), (METADATA, -1)])
async def test_nothing_else_has_a_quorum(asker: Asker, name: str, index: int) -> None:
    fields = {"topics": [{"topic_name": name, "partitions": [{"partition_index": index}]}]}
    answer = await asker.ask_by_schema(header.DESCRIBE_QUORUM, 2, fields)
    assert answer.topics[0].partitions[0].error_code == Code.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize("version", range(3))
async def test_no_feature_has_a_level_to_be_set(asker: Asker, version: int) -> None:
    how: dict[str, Any] = {"allow_downgrade": False} if version == 0 else {"upgrade_type": 1}
    fields: dict[str, Any] = {
        "timeout": SECOND,
        "feature_updates": [{"feature": "metadata.version", "max_version_level": 29} | how],
    }
    if version >= 1:
        fields["validate_only"] = False
    answer = await asker.ask_by_schema(header.UPDATE_FEATURES, version, fields)
    code = answer.error_code if version == 2 else answer.results[0].error_code
    assert code == Code.INVALID_UPDATE_VERSION
    fields["feature_updates"] = []
    assert (await asker.ask_by_schema(header.UPDATE_FEATURES, version, fields)).error_code == Code.NONE


@pytest.mark.parametrize(
    ("node_id", "code"),
    [(7, Code.BROKER_ID_NOT_REGISTERED), (-1, Code.BROKER_ID_NOT_REGISTERED), (0, Code.INVALID_REQUEST)],
)
async def test_a_node_that_is_not_there_cannot_be_forgotten_and_one_that_serves_is_not(
    asker: Asker, node_id: int, code: Code
) -> None:
    answer = await asker.ask_by_schema(header.UNREGISTER_BROKER, 0, {"broker_id": node_id})
    assert answer.error_code == code
