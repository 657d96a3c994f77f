"""Each request of a transaction, in every version, over a socket."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.wire.kafka import api_versions, header, messages
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker, another
from tests.transactions.client import PRODUCE_BY_ADD, PRODUCE_BY_CHECK, Producer, end_offset, fetch_once, read


@pytest.mark.parametrize("version", range(6))
async def test_a_transaction_of_an_older_client_commits(asker: Asker, version: int) -> None:
    producer = Producer(asker)
    assert await producer.init(version) == 0
    add = min(version, 3)
    assert await producer.add(("t", 0), ("t", 1), version=add) == [0, 0]
    for partition in (0, 1):
        assert (await producer.produce("t", partition, version=PRODUCE_BY_CHECK)).error == 0
    assert await read(asker, "t") == []
    assert await producer.end(version=min(version, 4)) == 0
    await _until_read(asker, "t", [b"v"])
    await _until_read(asker, "t", [b"v"], 1)


async def _until_read(asker: Asker, topic: str, values: list[bytes], partition: int = 0) -> None:
    for _ in range(500):
        if await read(asker, topic, partition) == values:
            return
    assert await read(asker, topic, partition) == values


@pytest.mark.parametrize("version", [4, 5, 11, 12, 13, 18])
async def test_an_aborted_transaction_is_named_to_those_who_read_committed(asker: Asker, version: int) -> None:
    producer = Producer(asker)
    await producer.init()
    await producer.produce("t", value=b"a")
    assert await producer.end(commit=False) == 0
    await producer.produce("t", value=b"b")
    assert await producer.end() == 0
    await _until_read(asker, "t", [b"b"])
    assert await read(asker, "t", committed=False) == [b"a", b"b"]
    if version < 13:
        fetched = await fetch_once(asker, "t", 0, committed=True, offset=0, version=version)
        assert list(fetched.aborted) == [(producer.producer_id, 0)]
        assert not (await fetch_once(asker, "t", 0, committed=True, offset=2, version=version)).aborted
        assert not (await fetch_once(asker, "t", 0, committed=False, offset=0, version=version)).aborted


@pytest.mark.parametrize("version", range(2, 12))
async def test_the_end_that_committed_readers_are_told_is_the_last_stable_offset(asker: Asker, version: int) -> None:
    producer = Producer(asker)
    await producer.init()
    await producer.produce("t")
    assert await end_offset(asker, "t", committed=True, version=version) == 0
    assert await end_offset(asker, "t", committed=False, version=version) == 1
    fetched = await fetch_once(asker, "t", 0, committed=True, offset=0)
    assert (fetched.high_watermark, fetched.last_stable_offset, fetched.size) == (1, 0, 0)
    assert await producer.end() == 0
    await producer.init()
    assert await end_offset(asker, "t", committed=True, version=version) == 2


async def test_each_end_of_a_newer_client_gives_it_a_higher_epoch(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    for epoch in range(3):
        assert producer.epoch == epoch
        assert (await producer.produce("t", version=PRODUCE_BY_ADD)).error == 0
        assert await producer.end(commit=bool(epoch % 2)) == 0
    late = await producer.produce("t", epoch=0, sequence=1)
    assert late.error == Code.INVALID_PRODUCER_EPOCH, "a batch that was under way for long enters no later transaction"


async def test_a_batch_for_a_partition_that_was_not_added_is_refused(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    refused = await producer.produce("t", version=PRODUCE_BY_CHECK)
    assert refused.error == Code.INVALID_TXN_STATE
    assert (await producer.produce("t", version=11)).error == Code.TRANSACTION_ABORTABLE
    assert await producer.add(("t", 0)) == [0]
    assert (await producer.produce("t", 1, version=PRODUCE_BY_CHECK)).error == Code.INVALID_TXN_STATE
    assert (await producer.produce("t", 0, version=PRODUCE_BY_CHECK)).error == 0
    assert await end_offset(asker, "t", 1, committed=False) == 0, "nothing of it was kept"


async def test_a_transactional_batch_needs_a_transactional_id(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    assert (await producer.produce("t", transactional_id=None)).error == Code.INVALID_TXN_STATE
    assert (await producer.produce("t", transactional_id="other")).error == Code.INVALID_PRODUCER_ID_MAPPING


async def test_a_first_batch_that_is_not_the_first_is_refused(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    assert (await producer.produce("t", sequence=1)).error == Code.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (await producer.produce("t", sequence=0)).error == 0


async def test_a_fenced_producer_is_told_in_the_words_of_its_version(asker: Asker) -> None:
    old, new = Producer(asker), Producer(asker)
    await old.init()
    await new.init()
    for version, code in ((1, Code.INVALID_PRODUCER_EPOCH), (2, Code.PRODUCER_FENCED)):
        assert await old.add(("t", 0), version=version) == [code]
        assert await old.end(version=version) == code
    assert await old.init(3, again=True) == Code.INVALID_PRODUCER_EPOCH
    assert await old.init(4, again=True) == Code.PRODUCER_FENCED
    assert (await old.produce("t")).error == Code.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("version", [4, 5])
async def test_brokers_ask_for_several_and_may_only_ask(asker: Asker, version: int) -> None:
    producer = Producer(asker)
    await producer.init()
    missing = Code.TRANSACTION_ABORTABLE if version >= 5 else Code.INVALID_TXN_STATE
    assert await producer.add(("t", 0), version=version, verify_only=True) == [missing]
    assert await producer.add(("t", 0), version=version) == [0]
    assert await producer.add(("t", 0), ("t", 1), version=version, verify_only=True) == [0, missing]


async def test_of_partitions_to_be_added_all_are_or_none(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    codes = await producer.add(("t", 0), ("nowhere", 0), ("t", 7))
    assert codes == [
        Code.OPERATION_NOT_ATTEMPTED,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_OR_PARTITION,
    ]
    assert (await producer.produce("t", version=PRODUCE_BY_CHECK)).error == Code.INVALID_TXN_STATE


@pytest.mark.parametrize("version", [1, 2])
async def test_an_operator_can_end_what_hangs(asker: Asker, version: int) -> None:
    producer = Producer(asker)
    await producer.init()
    await producer.produce("t")
    marker: dict[str, Any] = {
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transaction_result": False,
        "topics": [{"name": "t", "partition_indexes": [0, 9]}],
        "coordinator_epoch": 5,
    }
    if version >= 2:
        marker["transaction_version"] = 0
    answer = await asker.ask_by_schema(header.WRITE_TXN_MARKERS, version, {"markers": [marker]})
    (topic,) = answer.markers[0].topics
    assert [int(one.error_code) for one in topic.partitions] == [0, Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert await end_offset(asker, "t", committed=True) == 2
    stale = marker | {"coordinator_epoch": 4}
    answer = await asker.ask_by_schema(header.WRITE_TXN_MARKERS, version, {"markers": [stale]})
    assert int(answer.markers[0].topics[0].partitions[0].error_code) == Code.TRANSACTION_COORDINATOR_FENCED
    if version >= 2:
        await producer.produce("t")
        same = marker | {"transaction_version": 2}
        answer = await asker.ask_by_schema(header.WRITE_TXN_MARKERS, version, {"markers": [same]})
        assert int(answer.markers[0].topics[0].partitions[0].error_code) == Code.INVALID_PRODUCER_EPOCH


async def test_producers_and_transactions_are_described(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    await producer.produce("t", 1)
    answer = await asker.ask_by_schema(61, 0, {"topics": [{"name": "t", "partition_indexes": [1]}]})
    (active,) = answer.topics[0].partitions[0].active_producers
    assert (active.producer_id, active.current_txn_start_offset) == (producer.producer_id, 0)
    answer = await asker.ask_by_schema(65, 0, {"transactional_ids": ["x", "nobody"]})
    known, unknown = answer.transaction_states
    assert int(unknown.error_code) == Code.TRANSACTIONAL_ID_NOT_FOUND
    assert (known.transaction_state, known.producer_id, known.producer_epoch) == ("Ongoing", producer.producer_id, 0)
    assert [(topic.topic, tuple(topic.partitions)) for topic in known.topics] == [("t", (1,))]
    assert known.transaction_start_time > messages.time_of(0)


@pytest.mark.parametrize("version", range(3))
async def test_transactions_are_listed_by_what_is_asked_for(asker: Asker, version: int) -> None:
    one, two = Producer(asker, "one"), Producer(asker, "two")
    await one.init()
    await two.init()
    await two.produce("t")

    async def listed(**filters: Any) -> set[str]:
        fields: dict[str, Any] = {"state_filters": [], "producer_id_filters": []}
        if version >= 1:
            fields["duration_filter"] = -1
        if version >= 2:
            fields["transactional_id_pattern"] = None
        answer = await asker.ask_by_schema(66, version, fields | filters)
        assert not answer.error_code
        return {state.transactional_id for state in answer.transaction_states}

    assert await listed() == {"one", "two"}
    assert await listed(state_filters=["Ongoing"]) == {"two"}
    assert await listed(producer_id_filters=[one.producer_id]) == {"one"}
    if version >= 1:
        assert await listed(duration_filter=1 << 40) == set()
    if version >= 2:
        assert await listed(transactional_id_pattern="o.*") == {"one"}


@pytest.mark.parametrize("pattern", ["(a+)+b", "[", "a*" * 9, "x" * 300])
async def test_a_pattern_that_would_take_long_is_refused(asker: Asker, pattern: str) -> None:
    fields = {"state_filters": ["Odd"], "producer_id_filters": [], "duration_filter": -1}
    answer = await asker.ask_by_schema(66, 2, fields | {"transactional_id_pattern": pattern})
    assert int(answer.error_code) == Code.INVALID_REGULAR_EXPRESSION
    assert list(answer.unknown_state_filters) == ["Odd"]


@pytest.mark.parametrize("version", range(5))
async def test_the_version_of_transactions_is_told_as_a_feature(asker: Asker, version: int) -> None:
    request = api_versions.ApiVersionsRequest("test", "1")
    raw = await asker.answer(api_versions.encode_request(version, 3, None, request))
    answer = messages.decode_response(18, version, raw, 4, len(raw))
    told = [
        (one.name, one.min_version_level, one.max_version_level) for one in getattr(answer, "finalized_features", ())
    ]
    assert told == ([("transaction.version", 2, 2)] if version >= 4 else [])
    if version >= 4:
        assert answer.finalized_features_epoch == 0
        assert [one.max_version for one in answer.supported_features] == [2]


async def test_a_transaction_that_another_connection_began_can_be_ended(asker: Asker) -> None:
    producer = Producer(asker)
    await producer.init()
    await producer.produce("t")
    async with another(asker) as second:
        other = Producer(second)
        other.go_on(producer.producer_id, producer.epoch)
        assert await other.end() == 0
    await _until_read(asker, "t", [b"v"])
