"""Administration, on Headrace and on Apache Kafka alike."""

from __future__ import annotations

import time

import pytest

import headrace.aio
from headrace import errors

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


async def test_the_cluster_tells_of_itself(address: str) -> None:
    async with headrace.aio.connect(address) as client:
        cluster = await client.admin.cluster()
        versions = await client.admin.api_versions()
        assert versions == await client.admin.api_versions(cluster.nodes[0].id)
        quorum = await client.admin.quorum()
    assert [node.address for node in cluster.nodes] == [address]
    assert cluster.cluster_id and cluster.controller_id == cluster.nodes[0].id
    assert versions[0].max >= 9 and versions[18].min == 0
    assert quorum.leader_id == quorum.voters[0].node_id == cluster.nodes[0].id


async def test_topics_are_made_shown_and_deleted(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        admin = client.admin
        await admin.create_topic(topic, partitions=3, validate_only=True)
        with pytest.raises(errors.UnknownTopic, match=topic):
            await admin.topic(topic)
        made = await admin.create_topic(topic, partitions=3, replication=1)
        assert [partition.index for partition in made.partitions] == [0, 1, 2]
        assert made.topic_id is not None and made.partitions[0].in_sync == made.partitions[0].replicas
        assert await admin.topic(topic) == made
        assert made in await admin.topics()
        with pytest.raises(errors.TopicExists, match=topic):
            await admin.create_topic(topic)
        await admin.delete_topic(topic)
        assert topic not in [found.name for found in await admin.topics()]
        with pytest.raises(errors.UnknownTopic):
            await admin.delete_topic(topic)
        again = await admin.create_topic(topic, partitions=1)
        assert again.topic_id != made.topic_id


async def test_what_no_topic_can_be_is_refused_with_its_own_error(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        with pytest.raises(errors.InvalidTopicName):
            await client.admin.create_topic("no spaces / here")
        with pytest.raises(errors.InvalidPartitions):
            await client.admin.create_topic(topic, partitions=0)
        with pytest.raises(errors.InvalidReplication):
            await client.admin.create_topic(topic, replication=3)
        with pytest.raises(errors.InvalidConfig):
            await client.admin.create_topic(topic, config={"retention.ms": "soon"})


async def test_partitions_are_added_and_used(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        await client.admin.add_partitions(topic, 3, validate_only=True)
        assert len((await client.admin.topic(topic)).partitions) == 1
        await client.admin.add_partitions(topic, 3)
        async with client.producer() as producer:
            assert (await producer.send(topic, b"x", partition=2)).offset == 0
        with pytest.raises(errors.InvalidPartitions):
            await client.admin.add_partitions(topic, 2)


async def test_settings_are_described_and_changed(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        admin = client.admin
        await admin.create_topic(topic, config={"retention.ms": "3600000"})
        found = {setting.name: setting for setting in await admin.config("topic", topic)}
        assert (found["retention.ms"].value, found["retention.ms"].source) == ("3600000", "topic")
        assert found["segment.bytes"].is_default and found["segment.bytes"].type == "int"
        assert found["retention.ms"].synonyms[0].value == "3600000"
        await admin.alter_config("topic", topic, set={"retention.ms": "7200000"}, validate_only=True)
        await admin.alter_config("topic", topic, set={"segment.bytes": "1048576"}, delete=["retention.ms"])
        found = {setting.name: setting for setting in await admin.config("topic", topic)}
        assert found["retention.ms"].is_default and found["segment.bytes"].value == "1048576"
        with pytest.raises(errors.InvalidConfig):
            await admin.alter_config("topic", topic, set={"retention.ms": "soon"})
        with pytest.raises(errors.UnknownTopic):
            await admin.config("topic", f"{topic}-not")
        node = (await admin.cluster()).nodes[0].id
        assert "log.retention.ms" in {setting.name for setting in await admin.config("broker", str(node))}
        with pytest.raises(ValueError, match="one of topic, broker, cluster"):
            await admin.config("table", "x")


async def test_offsets_are_found_at_both_ends_and_by_time(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2)
        begin_ms = time.time_ns() // 1_000_000
        async with client.producer() as producer:
            for number in range(10):
                await producer.send(topic, b"x", partition=0, timestamp_ms=begin_ms + number)
        admin = client.admin
        assert {key: at.offset for key, at in (await admin.offsets(topic, "start")).items()} == {0: 0, 1: 0}
        assert {key: at.offset for key, at in (await admin.offsets(topic, "end")).items()} == {0: 10, 1: 0}
        assert (await admin.offsets(topic, begin_ms + 5))[0][:2] == (5, begin_ms + 5)
        assert (await admin.offsets(topic, begin_ms + 50))[0].offset == -1
        assert (await admin.offsets(topic, "latest-time"))[0][:2] == (9, begin_ms + 9)
        assert await admin.delete_records(topic, {0: 4, 1: -1}) == {0: 4, 1: 0}
        assert (await admin.offsets(topic, "start"))[0].offset == 4
        assert await admin.delete_records(topic, {0: -1}) == {0: 10}
        with pytest.raises(errors.UnknownTopic, match="partitions 0 to 1"):
            await admin.delete_records(topic, {7: 1})


async def test_log_folders_show_how_large_partitions_are(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        async with client.producer() as producer:
            await producer.send(topic, bytes(100_000))
        found = await client.admin.log_dirs()
    sizes = [size for folder in found for size in folder.partitions if size.topic == topic]
    assert len(sizes) == 1 and sizes[0].size > 100_000
    assert found[0].error is None
