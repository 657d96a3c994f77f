"""Administration of groups, on ours and on Apache Kafka: members of another client, positions moved and deleted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client.group_values import Committed
from headrace.client.memberships import given_partitions, wanted_topics
from headrace.client.values import TopicPartition
from tests.client.members import joined

START_MS = int(time.time() * 1000) - 3_600_000  # of today: older ones may go by retention at any moment


@contextlib.contextmanager
def connected(address: str) -> Iterator[headrace.Client]:
    with headrace.connect(address) as client:
        yield client


async def test_a_group_is_listed_and_described_with_its_members_and_what_each_was_given(
    address: str, topic: str
) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=3)
        with joined(address, topic, topic, client_id="reader", count=2):
            (group,) = await client.admin.describe_groups([topic])
            listing = {one.name: one for one in await client.admin.list_groups()}[topic]
        assert (group.name, group.state, group.kind, group.protocol_type) == (topic, "Stable", "classic", "consumer")
        assert group.assignor == "range"
        assert [(one.client_id, one.topics) for one in group.members] == [("reader", (topic,))] * 2
        given = [where for one in group.members for where in one.partitions]
        assert sorted(given) == [(topic, 0), (topic, 1), (topic, 2)]
        assert all("127.0.0.1" in one.host for one in group.members)
        assert (listing.state, listing.protocol_type, listing.kind) == ("Stable", "consumer", "classic")
        (left,) = await client.admin.describe_groups([topic])
        assert (left.state, left.members) == ("Empty", ())


async def test_positions_are_read_moved_and_forgotten(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        admin = client.admin
        await admin.create_topic(topic, partitions=2)
        assert await admin.group_offsets(topic) == {}
        await admin.alter_group_offsets(topic, {(topic, 0): 7, (topic, 1): Committed(9, -1, "by hand")})
        found = await admin.group_offsets(topic)
        assert found == {TopicPartition(topic, 0): Committed(7), TopicPartition(topic, 1): Committed(9, -1, "by hand")}
        await admin.alter_group_offsets(topic, {(topic, 0): 1})
        assert (await admin.group_offsets(topic))[TopicPartition(topic, 0)].offset == 1
        await admin.delete_group_offsets(topic, [(topic, 1)])
        assert list(await admin.group_offsets(topic)) == [(topic, 0)]
        await admin.delete_group(topic)
        assert await admin.group_offsets(topic) == {}


async def test_what_another_client_committed_is_where_the_group_stands(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer() as producer:
            for number in range(5):
                await producer.send(topic, str(number))
        with joined(address, topic, topic, take=3):
            pass
        assert (await client.admin.group_offsets(topic))[TopicPartition(topic, 0)].offset == 3


async def test_a_group_with_members_is_neither_moved_nor_deleted(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        with joined(address, topic, topic):
            with pytest.raises(errors.GroupNotEmpty):
                await client.admin.alter_group_offsets(topic, {(topic, 0): 0})
            with pytest.raises(errors.GroupNotEmpty):
                await client.admin.delete_group(topic)
            with pytest.raises(errors.GroupSubscribed):
                await client.admin.delete_group_offsets(topic, [(topic, 0)])


async def test_a_group_that_there_is_not_has_its_own_error(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        with pytest.raises(errors.GroupNotFound):
            await client.admin.describe_groups([topic])
        with pytest.raises(errors.GroupNotFound):
            await client.admin.delete_group(topic)
        with pytest.raises(errors.GroupNotFound):
            await client.admin.delete_group_offsets(topic, [(topic, 0)])


async def test_a_position_in_a_topic_that_there_is_not_is_refused(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        with pytest.raises(errors.UnknownTopic):
            await client.admin.alter_group_offsets(topic, {("no-such-topic", 0): 0})


async def test_a_group_of_the_newer_protocol_is_described_too(kafka_address: str, topic: str) -> None:
    async with headrace.aio.connect(kafka_address) as client:
        await client.admin.create_topic(topic, partitions=2)
        with joined(kafka_address, topic, topic, protocol="consumer"):
            (group,) = await client.admin.describe_groups([topic])
        assert (group.kind, group.state) == ("consumer", "Stable")
        (member,) = group.members
        assert member.partitions == ((topic, 0), (topic, 1))


async def test_the_time_of_the_record_at_an_offset_is_found_in_the_middle_of_a_batch(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2, config={"retention.ms": "-1"})
        async with client.producer(linger=0.1) as producer:
            for number in range(100):
                await producer.put(topic, b"x" * 100, partition=0, timestamp_ms=START_MS + number)
        wanted = {(topic, 0): 42, (topic, 1): 0}
        assert await client.admin.record_times(wanted) == {(topic, 0): START_MS + 42}
        assert await client.admin.record_times({(topic, 0): 100}) == {}
        await client.admin.delete_records(topic, {0: 60})
        assert await client.admin.record_times({(topic, 0): 5}) == {(topic, 0): START_MS + 60}


def test_the_sync_face_does_the_same(address: str, topic: str) -> None:
    with connected(address) as client:
        admin = client.admin
        admin.create_topic(topic, partitions=1)
        admin.alter_group_offsets(topic, {(topic, 0): 0})
        assert admin.group_offsets(topic) == {TopicPartition(topic, 0): Committed(0)}
        assert topic in [one.name for one in admin.list_groups()]
        assert admin.describe_groups([topic])[0].members == ()
        assert admin.record_times({(topic, 0): 0}) == {}
        admin.delete_group_offsets(topic, [(topic, 0)])
        with contextlib.suppress(errors.GroupNotFound):  # without positions and members a group may be gone by itself
            admin.delete_group(topic)
        assert topic not in [one.name for one in admin.list_groups()]


@pytest.mark.parametrize(
    "strange", [b"", b"\0", b"\0\0\0\0\0\1", b"\0\0\x7f\xff\xff\xff\0\1a", b"\0\0\0\0\0\1\0\1\xff"]
)
def test_bytes_that_are_no_consumers_say_nothing(strange: bytes) -> None:
    assert wanted_topics(strange) == () and given_partitions(strange) == ()


def test_a_lost_coordinator_is_waited_for_no_longer_than_the_time_limit(address: str, topic: str) -> None:
    with headrace.connect(address, timeout=2.0) as client:
        began = time.monotonic()
        with pytest.raises(errors.HeadraceError):
            client.admin.describe_groups([""])  # no group can have that name
        assert time.monotonic() - began < 5.0
