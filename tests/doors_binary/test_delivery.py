"""Messages on their way to subscribers of the binary door."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import NewTopic
from headrace.broker.publishing import Published
from headrace.errors import HeadraceError
from headrace.records.partitioning import murmur2
from headrace.records.record import Record
from tests.doors_binary.raw import ACK, DATA, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Raw, frame
from tests.doors_binary.running import Running, until


async def publish_elsewhere(binary: Running, topic: str, record: Record, partition: int | None = None) -> Published:
    """As another door does it."""
    came: asyncio.Future[Published | HeadraceError] = asyncio.get_running_loop().create_future()
    binary.node.broker.publishing.publish(topic, record, came.set_result, partition=partition)
    result = await came
    assert isinstance(result, Published), result
    return result


async def test_a_subscriber_gets_what_was_published_with_all_properties_in_their_order(binary: Running) -> None:
    publisher, subscriber = await binary.client(), await binary.client()
    await publisher.create("t")
    await subscriber.subscribe("t")
    for offset, body in enumerate((b"one", b"", b"\0\xff" * 50_000)):
        reply = await publisher.publish("t", body, color="red", key="k=1", partition="0", empty="")
        data = await subscriber.take()
        assert (data.type, data.sequence, data.body) == (DATA, offset, body)
        assert data.said == [
            ("topic", "t"),
            ("client_id", "p1"),
            ("color", "red"),
            ("key", "k=1"),
            ("partition", "0"),
            ("empty", ""),
        ]
        assert reply.properties["offset"] == str(offset)
        assert abs(data.at_ms - reply.at_ms) < 60_000


async def test_the_message_is_there_before_its_publisher_hears_of_it(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.subscribe("t")
    for acks in ("0", "1", "all"):
        await client.send(frame(PUBLISH, 1000, {"topic": "t", "acks": acks}, b"x"))
        assert [(await client.take()).type for _ in range(2)] == [DATA, ACK]


async def test_every_subscriber_of_the_partition_gets_every_message_and_nobody_else_does(binary: Running) -> None:
    publisher = await binary.client()
    await publisher.create("t", 2)
    subscribers = [await binary.client() for _ in range(3)]
    other = await binary.client()
    for number, subscriber in enumerate(subscribers):
        await subscriber.subscribe("t", f"c{number}", partition="1")
    await other.subscribe("t", "other", partition="0")
    for body in (b"a", b"b"):
        await publisher.publish("t", body, partition="1")
    for subscriber in subscribers:
        assert [(await subscriber.take()).body for _ in range(2)] == [b"a", b"b"]
    assert await other.is_quiet()


async def test_one_connection_may_subscribe_to_several_partitions_and_as_several_clients(binary: Running) -> None:
    client, publisher = await binary.client(), await binary.client()
    await client.create("t", 2)
    await client.subscribe("t", "a", partition="0")
    await client.subscribe("t", "a", partition="1")
    await client.subscribe("t", "b", partition="0")
    await publisher.publish("t", b"x", partition="0")
    await publisher.publish("t", b"y", partition="1")
    assert sorted([(await client.take()).body for _ in range(3)]) == [b"x", b"x", b"y"]


async def test_without_a_partition_the_key_decides_and_an_empty_one_means_the_first(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 7)
    for _ in range(3):
        assert (await client.publish("t", b"x")).properties["partition"] == "0"
        assert (await client.publish("t", b"x", key="")).properties["partition"] == "0"
    for key in ("a", "b", "user-17", "ä"):
        meant = (murmur2(key.encode()) & 0x7FFFFFFF) % 7
        assert {(await client.publish("t", b"x", key=key)).properties["partition"] for _ in range(3)} == {str(meant)}


async def test_a_subscription_is_live_only_whatever_offset_it_names(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.publish("t", b"before")
    await client.subscribe("t", offset="0")
    assert await client.is_quiet()
    await client.send(frame(PUBLISH, 99, {"topic": "t"}, b"after"))
    assert (await client.take()).body == b"after"


async def test_with_replay_it_begins_at_the_offset_without_a_gap_or_anything_twice(binary: Running) -> None:
    client, publisher = await binary.client(), await binary.client()
    await client.create("t")
    await publisher.send(b"".join(frame(PUBLISH, n, {"topic": "t"}, b"%d" % n) for n in range(500)))
    for _ in range(500):
        await publisher.take()
    reply = await client.subscribe("t", offset="100", replay="true")
    assert reply.said == [("status", "success"), ("topic", "t"), ("partition", "0"), ("client_id", "c1")]
    await publisher.send(b"".join(frame(PUBLISH, n, {"topic": "t"}, b"%d" % n) for n in range(500, 1500)))
    got = [await client.take() for _ in range(1400)]
    assert [(data.sequence, data.body) for data in got] == [(n, b"%d" % n) for n in range(100, 1500)]
    assert await client.is_quiet()


async def test_a_replay_from_an_offset_that_there_is_not_is_refused(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.publish("t", b"x")
    for offset in ("2", "-1"):
        reply = await client.subscribe("t", offset=offset, replay="true")
        assert reply.said == [("status", "error"), ("error", f"Offset {offset} is outside of t[0], which holds 0 to 1")]
    assert (await client.subscribe("t", offset="1", replay="true")).properties["status"] == "success"


async def test_what_retention_took_is_passed_over_by_a_replay(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    for body in (b"a", b"b", b"c"):
        await client.publish("t", body)
    topic = binary.node.broker.topic("t")
    assert topic is not None
    await binary.node.broker.delete_records(topic.partitions[0], 2)
    await client.subscribe("t", offset="0", replay="true")
    data = await client.take()
    assert (data.sequence, data.body) == (2, b"c")


async def test_what_a_slow_subscriber_loses_of_a_memory_topic_is_counted(binary: Running) -> None:
    publisher, slow = await binary.client(), await binary.client()
    configs = {"headrace.storage": "memory", "retention.bytes": "1000000"}
    [made] = await binary.node.broker.create_topics([NewTopic("soft", 1, configs=configs)])
    assert not isinstance(made, HeadraceError)
    await slow.subscribe("soft")
    replies = [await publisher.publish("soft", bytes(100_000)) for _ in range(300)]
    last = int(replies[-1].properties["offset"])
    got = [(await slow.take()).sequence]
    while got[-1] != last:
        got.append((await slow.take()).sequence)
    missing = len(replies) - len(got)
    assert missing > 0
    assert binary.door.metrics.lost == missing


async def test_the_messages_of_one_read_are_one_batch_and_their_replies_come_in_order(binary: Running) -> None:
    client, subscriber = await binary.client(), await binary.client()
    await client.create("t", 2)
    await subscriber.subscribe("t", partition="1")
    messages = [frame(PUBLISH, n, {"topic": "t", "partition": "1"}, b"%d" % n) for n in range(50)]
    messages[25] = frame(PUBLISH, 25, {"topic": "nowhere"}, b"refused")
    await client.send(b"".join(messages))
    replies = [await client.take() for _ in range(50)]
    assert [reply.sequence for reply in replies] == list(range(50))
    assert [reply.properties["status"] for reply in replies].count("error") == 1
    topic = binary.node.broker.topic("t")
    assert topic is not None and (log := topic.partitions[1].log) is not None
    assert (log.appended_batches, log.appended_records) == (1, 49)
    assert [(await subscriber.take()).sequence for _ in range(49)] == list(range(49))


async def test_requests_behind_a_new_topic_wait_for_it(binary: Running) -> None:
    client = await binary.client()
    made = {"topic": "t", "partitions": "1"}
    asked = [(4, made), (7, {"topic": "t"}), (5, {"topic": "t", "client_id": "c"}), (7, {"topic": "t"}), (3, {})]
    await client.send(b"".join(frame(type_, n, properties, b"") for n, (type_, properties) in enumerate(asked)))
    replies = [await client.take() for _ in range(6)]
    assert [(got.type, got.sequence) for got in replies] == [(2, 0), (2, 1), (2, 2), (1, 1), (2, 3), (3, 4)]
    assert replies[3].sequence == 1  # the offset of the second message: the first came before the subscription


async def test_after_an_unsubscribe_on_another_connection_nothing_comes(binary: Running) -> None:
    one, other = await binary.client(), await binary.client()
    await one.create("t")
    await one.subscribe("t", "C")
    reply = await other.ask(UNSUBSCRIBE, {"topic": "t", "client_id": "C"})
    assert reply.properties["status"] == "success"
    await other.publish("t", b"x")
    assert await one.is_quiet()


async def test_records_of_other_doors_have_their_place_and_their_text_headers_as_properties(binary: Running) -> None:
    client = await binary.client()
    await client.create("t", 2)
    await client.subscribe("t", partition="1")
    headers = (
        ("color", b"red"),
        ("photo", b"\xff\xd8"),
        ("nothing", None),
        ("zero", b"a\0b"),
        ("a=b", b"c"),
        ("topic", b"elsewhere"),
        ("partition", b"77"),
    )
    record = Record(b"key", b"\xff value", headers, 1755518400500)
    await publish_elsewhere(binary, "t", record, partition=1)
    data = await client.take()
    assert (data.sequence, data.at_ms, data.body) == (0, 1755518400500, b"\xff value")
    assert data.said == [("topic", "t"), ("partition", "1"), ("color", "red"), ("nothing", "")]
    assert data.properties["created_at"] == "1755518400.5"
    await publish_elsewhere(binary, "t", Record(b"gone", None), partition=1)
    assert (await client.take()).body == b""


async def test_messages_of_this_door_are_whole_records_for_the_others(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.publish("t", b"\xffbody", key="k", color="red")
    topic = binary.node.broker.topic("t")
    assert topic is not None
    [record] = (await binary.node.broker.reading.page(topic.partitions[0], 0, max_records=10)).records
    assert (record.key, record.value) == (b"k", b"\xffbody")
    assert [name for name, _ in record.headers] == ["topic", "client_id", "key", "color", "created_at", "version"]


async def test_a_level_is_named_in_the_reply_when_it_was_asked_for(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    for offset, acks in enumerate(("0", "1", "all")):
        reply = await client.publish("t", b"x", acks=acks)
        assert reply.said[-2:] == [("offset", str(offset)), ("acks", acks)]
    reply = await client.publish("t", b"x", acks="2")
    assert reply.said == [("status", "error"), ("error", "acks=2, and 1 replicas in sync")]
    reply = await client.publish("t", b"x", acks="some")
    assert reply.properties["status"] == "error" and "acks is 0, 1, all" in reply.properties["error"]


async def test_a_topic_that_is_made_again_is_still_subscribed_to(binary: Running) -> None:
    client, publisher = await binary.client(), await binary.client()
    await client.create("t")
    await client.subscribe("t")
    await binary.node.broker.delete_topics(["t"])
    assert (await publisher.publish("t", b"x")).properties["error"] == "Topic 't' does not exist"
    await binary.node.broker.create_topics([NewTopic("t", 1)])
    await publisher.publish("t", b"again")
    assert (await client.take()).body == b"again"


async def test_subscriptions_end_with_their_connection(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.subscribe("t")
    assert len(binary.door.subscribers) == 1
    client.writer.transport.abort()
    await until(lambda: not binary.door.subscribers)


async def test_a_connection_has_so_many_subscriptions_and_no_more(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    asked = (frame(SUBSCRIBE, n, {"topic": "t", "client_id": f"c{n}"}) for n in range(1001))
    await client.send(b"".join(asked))
    replies = [await client.take() for _ in range(1001)]
    assert replies[999].properties["status"] == "success"
    assert replies[1000].properties["error"] == "Too many subscriptions on one connection: the limit is 1000"


async def test_who_says_no_more_still_hears_his_answers(binary: Running) -> None:
    client = await binary.client()
    await client.send(frame(4, 1, {"topic": "t"}) + frame(PUBLISH, 2, {"topic": "t"}, b"x"))
    client.writer.write_eof()
    assert [(await client.take()).sequence for _ in range(2)] == [1, 2]
    assert await client.is_closed()
    assert isinstance(client, Raw)


async def test_one_message_that_is_refused_costs_none_of_those_that_came_with_it(binary: Running) -> None:
    client = await binary.client()
    await binary.node.broker.create_topics([NewTopic("small", 1, configs={"max.message.bytes": "2000"})])
    await binary.node.broker.create_topics([NewTopic("keyed", 1, configs={"cleanup.policy": "compact"})])
    bodies = [b"a", bytes(3000), b"b", bytes(1500), b"c"]
    await client.send(b"".join(frame(PUBLISH, n, {"topic": "small"}, body) for n, body in enumerate(bodies)))
    replies = [await client.take() for _ in bodies]
    assert [reply.sequence for reply in replies] == list(range(5))
    assert [reply.properties.get("offset") for reply in replies] == ["0", None, "1", "2", "3"]
    assert replies[1].properties["error"].endswith("exceeds maximum 2000")
    keys = [{"key": "a", "partition": "0"}, {"partition": "0"}, {"key": "b", "partition": "0"}]
    await client.send(b"".join(frame(PUBLISH, n, {"topic": "keyed", **key}) for n, key in enumerate(keys)))
    replies = [await client.take() for _ in keys]
    assert [reply.properties.get("offset") for reply in replies] == ["0", None, "1"]
    assert "has a key" in replies[1].properties["error"]


async def test_a_repeated_id_is_stored_once_and_told_as_a_duplicate(binary: Running) -> None:
    client, subscriber = await binary.client(), await binary.client()
    window = {"headrace.dedup.window.ms": "60000"}
    await binary.node.broker.create_topics([NewTopic("t", 1, configs=window)])
    await subscriber.subscribe("t")
    first = await client.publish("t", b"one", id="a")
    assert first.said[-1] == ("offset", "0")
    again = await client.publish("t", b"one again", id="a")
    assert again.said == [
        ("status", "success"),
        ("topic", "t"),
        ("partition", "0"),
        ("offset", "0"),
        ("duplicate", "true"),
    ]
    ids = ["b", "c", "b", "d", "a"]
    await client.send(b"".join(frame(PUBLISH, n, {"topic": "t", "id": own}, b"") for n, own in enumerate(ids)))
    replies = [await client.take() for _ in ids]
    assert [reply.properties["offset"] for reply in replies] == ["1", "2", "1", "3", "0"]
    assert [reply.properties.get("duplicate") for reply in replies] == [None, None, "true", None, "true"]
    assert [(await subscriber.take()).sequence for _ in range(4)] == [0, 1, 2, 3]
    assert await subscriber.is_quiet()
