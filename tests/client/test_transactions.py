"""Administration of transactions, on ours and on Apache Kafka: seen while open, and ended from outside."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka import TopicPartition as Place

import headrace
import headrace.aio
from headrace import errors
from headrace.client.values import TopicPartition
from tests.client.members import joined

TIMEOUT_MS = 45_000


@contextlib.contextmanager
def transaction(address: str, name: str, topic: str) -> Iterator[Producer]:
    """One that is open, with two records in partition 0."""
    settings = {"bootstrap.servers": address, "transactional.id": name, "transaction.timeout.ms": TIMEOUT_MS}
    producer = Producer(settings)
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in (b"one", b"two"):
        producer.produce(topic, value, partition=0)
    producer.flush(30)
    yield producer


async def test_an_open_transaction_is_listed_and_described(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        admin = client.admin
        await admin.create_topic(topic, partitions=2)
        with transaction(address, topic, topic) as producer:
            listing = {one.id: one for one in await admin.list_transactions()}[topic]
            (found,) = await admin.describe_transactions([topic])
            states = await admin.describe_producers(topic)
            assert [one.id for one in await admin.list_transactions(["Ongoing"], [listing.producer_id])] == [topic]
            assert topic not in [one.id for one in await admin.list_transactions(["CompleteAbort"])]
            assert topic not in [one.id for one in await admin.list_transactions(open_for_ms=3_600_000)]
            producer.commit_transaction(30)
        assert (listing.state, found.state) == ("Ongoing", "Ongoing")
        assert found.producer_id == listing.producer_id
        assert (found.timeout_ms, found.partitions) == (TIMEOUT_MS, ((topic, 0),))
        assert found.started_ms is not None
        (state,) = states[0]
        assert (state.producer_id, state.last_sequence, state.transaction_start) == (found.producer_id, 1, 0)
        assert states[1] == ()
        (ended,) = await admin.describe_transactions([topic])
        assert ended.state in ("PrepareCommit", "CompleteCommit")


async def test_aborting_ends_the_transaction_and_fences_its_producer(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        with transaction(address, topic, topic) as producer:
            was = await client.admin.abort_transaction(topic)
            assert (was.state, was.partitions) == ("Ongoing", ((topic, 0),))
            with pytest.raises(KafkaException):
                producer.commit_transaction(30)
        (found,) = await client.admin.describe_transactions([topic])
        assert found.producer_epoch > was.producer_epoch or found.producer_id != was.producer_id
        assert found.timeout_ms == TIMEOUT_MS
        ends = await client.admin.offsets(topic, "end", isolation="read_committed")
        assert ends[0].offset == 3  # two records and the marker: nobody has to wait for them any more
        async with client.consumer(topic, follow=False, isolation="read_committed") as consumer:
            assert [record.value async for record in consumer] == []
        with pytest.raises(errors.InvalidTransactionState, match="no open transaction"):
            await client.admin.abort_transaction(topic)


async def test_a_marker_ends_a_transaction_in_one_partition(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        with transaction(address, topic, topic) as producer:
            with pytest.raises(errors.InvalidTransactionState):
                await client.admin.abort_hanging(topic, 0, 1)
            before = await client.admin.offsets(topic, "end", isolation="read_committed")
            state = await client.admin.abort_hanging(topic, 0, 0)
            assert state.transaction_start == 0
            after = await client.admin.offsets(topic, "end", isolation="read_committed")
            assert (before[0].offset, after[0].offset) == (0, 3)
            producer.abort_transaction(30)


async def test_a_transactional_id_that_there_is_not_has_its_own_error(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        with pytest.raises(errors.UnknownTransactionalId):
            await client.admin.describe_transactions([topic])
        with pytest.raises(errors.UnknownTransactionalId):
            await client.admin.abort_transaction(topic)
        with pytest.raises(errors.UnknownTopic):
            await client.admin.describe_producers(topic)
        await client.admin.create_topic(topic)
        with pytest.raises(errors.UnknownTopic):
            await client.admin.describe_producers(topic, [5])


def test_the_sync_face_does_the_same(address: str, topic: str) -> None:
    with headrace.connect(address) as client:
        admin = client.admin
        admin.create_topic(topic)
        with transaction(address, topic, topic):
            assert admin.describe_transactions([topic])[0].state == "Ongoing"
            assert topic in [one.id for one in admin.list_transactions()]
            assert admin.describe_producers(topic)[0][0].transaction_start == 0
            assert admin.abort_transaction(topic).state == "Ongoing"
        producer_id, epoch = admin.fence_producer(topic)
        assert producer_id >= 0 and epoch > 0
        with pytest.raises(errors.InvalidTransactionState):
            admin.abort_hanging(topic, 0, 0)


async def test_positions_of_an_open_transaction_are_told_when_they_are_stable(address: str, topic: str) -> None:
    async with headrace.aio.connect(address, timeout=2.0) as client:
        await client.admin.create_topic(topic)
        await client.admin.alter_group_offsets(topic, {(topic, 0): 0})
        with transaction(address, topic, topic) as producer, joined(address, topic, topic) as members:
            position = [Place(topic, 0, 2)]
            producer.send_offsets_to_transaction(position, members[0].consumer_group_metadata(), 30)
            assert (await client.admin.group_offsets(topic))[TopicPartition(topic, 0)].offset == 0
            with pytest.raises(errors.UnstablePosition):
                await client.admin.group_offsets(topic, stable=True)
            (found,) = await client.admin.describe_transactions([topic])
            assert sorted(where.topic for where in found.partitions) == ["__consumer_offsets", topic]
            producer.commit_transaction(30)
            assert (await client.admin.group_offsets(topic, stable=True))[TopicPartition(topic, 0)].offset == 2
