"""Every request of the binary protocol and its reply: which properties, in which order, which words."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.doors_binary.raw import (
    ACK,
    AT_MS,
    CREATE_TOPIC,
    DATA,
    HEARTBEAT,
    PUBLISH,
    SUBSCRIBE,
    UNSUBSCRIBE,
    Got,
    as_on_paper,
    bare,
    block,
    frame,
    parse,
)
from tests.doors_binary.running import Running, running
from tests.wire_binary import vectors


def fails_with(reply: Got, text: str) -> None:
    assert reply.type == ACK
    assert reply.said == [("status", "error"), ("error", text)]


async def test_a_topic_is_created_and_the_reply_says_what_was_made(binary: Running) -> None:
    client = await binary.client()
    reply = await client.create("my_topic", 2, retention_hours="24")
    assert reply.type == ACK
    assert reply.said == [("status", "success"), ("topic", "my_topic"), ("partitions", "2")]
    assert abs(reply.at_ms - time.time() * 1000) < 60_000
    assert reply.properties["created_at"] == repr(reply.at_ms / 1000)
    topic = binary.node.broker.topic("my_topic")
    assert topic is not None and len(topic.partitions) == 2
    assert topic.image.config["retention.ms"] == str(24 * 3_600_000)


async def test_a_topic_that_says_nothing_has_one_partition_and_the_brokers_retention(binary: Running) -> None:
    client = await binary.client()
    reply = await client.ask(CREATE_TOPIC, {"topic": "plain"})
    assert reply.said == [("status", "success"), ("topic", "plain"), ("partitions", "1")]
    topic = binary.node.broker.topic("plain")
    assert topic is not None and "retention.ms" not in topic.image.config


async def test_a_topic_may_keep_its_messages_for_ever(binary: Running) -> None:
    client = await binary.client()
    assert (await client.create("kept", retention_hours="-1")).said[0] == ("status", "success")
    topic = binary.node.broker.topic("kept")
    assert topic is not None and topic.image.config["retention.ms"] == "-1"


@pytest.mark.parametrize("limit_ms", [0, 24 * 3_600_000])
async def test_no_hours_are_refused_rather_than_taken_for_the_default(tmp_path: Path, limit_ms: int) -> None:
    async with running(tmp_path, retention_ms=limit_ms) as binary:
        client = await binary.client()
        for hours in ("0", "-2"):
            reply = await client.create("t", retention_hours=hours)
            fails_with(reply, f"Invalid retention_hours {hours}: 1 or more, or -1 to keep messages for ever")
        assert binary.node.broker.topic("t") is None


async def test_what_is_wrong_with_a_new_topic_is_said_in_the_known_words(binary: Running) -> None:
    client = await binary.client()
    fails_with(await client.ask(CREATE_TOPIC, {}), "Missing 'topic' property")
    fails_with(await client.ask(CREATE_TOPIC, {"topic": ""}), "Missing 'topic' property")
    await client.create("there")
    fails_with(await client.create("there"), "Topic 'there' already exists")
    most = binary.node.settings.broker.max_partitions_per_topic
    fails_with(await client.create("t", most + 1), f"Partition count {most + 1} exceeds maximum {most}")
    for name in ("partitions", "retention_hours"):
        wrong = await client.ask(CREATE_TOPIC, {"topic": "t", name: "x"})
        fails_with(wrong, "invalid literal for int() with base 10: 'x'")
    for partitions in (0, -1, -7):
        reply = await client.create("t", partitions)
        assert reply.said[0] == ("status", "error") and "partition" in reply.said[1][1]
    assert binary.node.broker.topic("t") is None


async def test_a_published_message_gets_its_partition_and_offset(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 2)
    for offset in range(3):
        reply = await client.publish("t", b"x", partition="1")
        assert reply.said == [("status", "success"), ("topic", "t"), ("partition", "1"), ("offset", str(offset))]
    reply = await client.publish("t", b"", partition="0")
    assert reply.said == [("status", "success"), ("topic", "t"), ("partition", "0"), ("offset", "0")]


async def test_what_is_wrong_with_a_message_is_said_in_the_known_words(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 2)
    fails_with(await client.ask(PUBLISH, {"client_id": "p"}, b"x"), "Missing 'topic' property")
    fails_with(await client.publish("none", b"x"), "Topic 'none' does not exist")
    assert binary.node.broker.topic("none") is None
    fails_with(await client.publish("t", b"x", partition="9"), "Invalid partition 9")
    fails_with(await client.publish("t", b"x", partition="-1"), "Invalid partition -1")
    fails_with(await client.publish("t", b"x", partition="x"), "invalid literal for int() with base 10: 'x'")
    assert (await client.publish("t", b"x")).properties["offset"] == "0"


async def test_a_message_that_is_too_large_is_refused_with_the_size_of_its_whole_frame(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    most = 1048588
    sent = frame(PUBLISH, 1, {"topic": "t", "client_id": "p1"}, bytes(most))
    reply = await client.publish("t", bytes(most))
    fails_with(reply, f"Message size {len(sent)} exceeds maximum {most}")
    fits = await client.publish("t", bytes((1 << 20) - 100))
    assert fits.properties["status"] == "success"


async def test_a_subscription_is_confirmed_and_ended(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 2)
    said = [("status", "success"), ("topic", "t"), ("partition", "1"), ("client_id", "c1")]
    reply = await client.subscribe("t", partition="1", offset="0", auto_ack="true")
    assert (reply.type, reply.said) == (ACK, said)
    reply = await client.ask(UNSUBSCRIBE, {"topic": "t", "client_id": "c1", "partition": "1"})
    assert (reply.type, reply.said) == (ACK, said)
    await client.publish("t", b"x", partition="1")
    assert await client.is_quiet()


async def test_what_is_wrong_with_a_subscription_is_said_in_the_known_words(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 2)
    for type_ in (SUBSCRIBE, UNSUBSCRIBE):
        for properties in ({}, {"topic": "t"}, {"client_id": "c"}):
            fails_with(await client.ask(type_, properties), "Missing 'topic' or 'client_id' property")
        wrong = await client.ask(type_, {"topic": "t", "client_id": "c", "partition": "x"})
        fails_with(wrong, "invalid literal for int() with base 10: 'x'")
        fails_with(await client.ask(type_, {"topic": "none", "client_id": "c"}), "Topic 'none' does not exist")
    fails_with(await client.subscribe("t", offset="x"), "invalid literal for int() with base 10: 'x'")
    fails_with(await client.subscribe("t", partition="2"), "Partition 2 does not exist for topic 't'")
    assert (await client.subscribe("t", "C")).properties["status"] == "success"
    fails_with(await client.subscribe("t", "C"), "Client C already subscribed to t[0]")
    gone = await client.ask(UNSUBSCRIBE, {"topic": "t", "client_id": "C", "partition": "1"})
    fails_with(gone, "Client C not subscribed to t[1]")


async def test_a_client_id_is_taken_on_every_connection_and_free_when_its_own_is_gone(binary: Running) -> None:
    one, other = await binary.client(), await binary.client()
    await one.create("t")
    await one.subscribe("t", "C")
    fails_with(await other.subscribe("t", "C"), "Client C already subscribed to t[0]")
    one.close()
    for _ in range(200):
        reply = await other.subscribe("t", "C")
        if reply.properties["status"] == "success":
            return
    raise AssertionError(reply)


async def test_a_heartbeat_is_answered_with_a_heartbeat(binary: Running) -> None:
    client = await binary.client()
    reply = await client.ask(HEARTBEAT, {})
    assert (reply.type, reply.said) == (HEARTBEAT, [])


async def test_data_and_acks_of_a_client_are_unknown_types_with_the_words_the_other_way_around(
    binary: Running,
) -> None:
    client = await binary.client()
    for type_ in (DATA, ACK):
        reply = await client.ask(type_, {"topic": "t"})
        assert reply.type == ACK
        assert reply.said == [("error", "Unknown message type"), ("status", "error")]


async def test_captured_requests_get_the_captured_replies_but_for_the_time(binary: Running) -> None:
    client = await binary.client()
    subscriber = await binary.client()

    def same(got: Got, vector: bytes) -> None:
        meant = parse(vector)
        assert (got.type, got.sequence, got.said, got.body) == (meant.type, meant.sequence, meant.said, meant.body)

    await client.send(vectors.CREATE_TOPIC)
    same(await client.take(), vectors.CREATE_TOPIC_REPLY)
    await subscriber.send(vectors.SUBSCRIBE)
    await subscriber.take()
    await client.send(vectors.PUBLISH)
    data = await subscriber.take()
    # All of it but the time of its arrival: the publisher's properties come through as they were.
    assert data.raw[:16] + data.raw[24:] == vectors.DATA[:16] + vectors.DATA[24:]
    assert abs(data.at_ms - time.time() * 1000) < 60_000
    same(await client.take(), vectors.PUBLISH_REPLY)
    await client.send(frame(PUBLISH, 4, {"topic": "none", "client_id": "p1"}, b"x"))
    same(await client.take(), vectors.ERROR_REPLY)


async def test_the_layout_of_the_paper_is_understood_on_input(binary: Running) -> None:
    client = await binary.client()
    await client.send(as_on_paper(vectors.CREATE_TOPIC))
    assert (await client.take()).properties["status"] == "success"
    await client.send(as_on_paper(vectors.PUBLISH) + vectors.PUBLISH)
    assert [(await client.take()).properties["offset"] for _ in range(2)] == ["0", "1"]


async def test_a_message_without_created_at_is_forwarded_with_the_time_of_its_head(binary: Running) -> None:
    client, subscriber = await binary.client(), await binary.client()
    await client.create("t")
    await subscriber.subscribe("t")
    await client.send(bare(PUBLISH, 9, block([("topic", "t"), ("a", "b=c")]), b"x"))
    data = await subscriber.take()
    assert data.pairs == [("topic", "t"), ("a", "b=c"), ("created_at", repr(AT_MS / 1000)), ("version", "1.0")]
