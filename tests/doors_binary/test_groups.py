"""Queue groups through the binary door: an extension, which clients that do not ask for it never see."""

from __future__ import annotations

import asyncio

from headrace.broker.broker import NewTopic
from tests.doors_binary.raw import ACK, DATA, PUBLISH, UNSUBSCRIBE, Got, Raw, frame
from tests.doors_binary.running import Running


async def joined(binary: Running, client_id: str, **properties: str) -> Raw:
    client = await binary.client()
    reply = await client.subscribe("t", client_id, group="g", **properties)
    assert reply.properties["status"] == "success", reply
    return client


async def settle(client: Raw, data: Got, **properties: str) -> None:
    named = {"topic": "t", "partition": data.properties["partition"], "group": "g", **properties}
    await client.send(frame(ACK, data.sequence, named))


async def publish(client: Raw, count: int, **properties: str) -> None:
    await client.send(b"".join(frame(PUBLISH, n, {"topic": "t", **properties}, b"%d" % n) for n in range(count)))
    for _ in range(count):
        assert (await client.take()).properties["status"] == "success"


async def made(binary: Running, partitions: int = 1, **configs: str | None) -> Raw:
    await binary.node.broker.create_topics([NewTopic("t", partitions, configs=configs)])
    return await binary.client()


async def test_each_message_goes_to_one_member_in_turn_and_to_every_plain_subscriber(binary: Running) -> None:
    publisher = await made(binary)
    members = [await joined(binary, f"m{n}") for n in range(3)]
    plain = await binary.client()
    await plain.subscribe("t", "plain")
    await publish(publisher, 9)
    got = [[(await member.take()).body for _ in range(3)] for member in members]
    assert sorted(body for bodies in got for body in bodies) == [b"%d" % n for n in range(9)]
    assert got[0] == [b"0", b"3", b"6"]
    assert [(await plain.take()).body for _ in range(9)] == [b"%d" % n for n in range(9)]
    assert await members[0].is_quiet()


async def test_a_members_message_says_where_it_is_from_and_which_attempt_it_is(binary: Running) -> None:
    publisher = await made(binary, 2)
    member = await joined(binary, "m", auto_ack="false")
    await publisher.publish("t", b"x", partition="1", color="red")
    data = await member.take()
    assert (data.type, data.sequence, data.body) == (DATA, 0, b"x")
    said = data.properties
    assert (said["partition"], said["group"], said["attempt"], said["color"]) == ("1", "g", "1", "red")


async def test_the_reply_to_a_member_names_the_group(binary: Running) -> None:
    await made(binary)
    client = await binary.client()
    reply = await client.subscribe("t", "m", group="g")
    assert reply.said == [
        ("status", "success"),
        ("topic", "t"),
        ("partition", "0"),
        ("client_id", "m"),
        ("group", "g"),
    ]
    again = await client.subscribe("t", "m", group="g")
    assert again.properties["error"] == "Client m already subscribed to t[0]"
    left = await client.ask(UNSUBSCRIBE, {"topic": "t", "client_id": "m", "group": "g"})
    assert left.properties["status"] == "success"
    left = await client.ask(UNSUBSCRIBE, {"topic": "t", "client_id": "m", "group": "g"})
    assert left.properties["error"] == "Client m not subscribed to t[0]"


async def test_what_a_member_did_not_acknowledge_goes_to_another_when_it_leaves(binary: Running) -> None:
    publisher = await made(binary)
    one = await joined(binary, "m1", auto_ack="false")
    await publish(publisher, 3)
    first, second, third = [await one.take() for _ in range(3)]
    await settle(one, first)
    await settle(one, third)
    await one.send(frame(3, 7, {}))
    assert (await one.take()).type == 3  # the acknowledgements before it are taken, and get no reply
    one.writer.transport.abort()
    other = await joined(binary, "m2", auto_ack="false")
    data = await other.take()
    assert (data.sequence, data.body) == (second.sequence, b"1")
    assert data.properties["attempt"] == "2"
    assert await other.is_quiet()


async def test_with_auto_ack_nothing_comes_twice(binary: Running) -> None:
    publisher = await made(binary)
    one = await joined(binary, "m1", auto_ack="true")
    await publish(publisher, 3)
    for _ in range(3):
        await one.take()
    one.writer.transport.abort()
    other = await joined(binary, "m2", auto_ack="true")
    assert await other.is_quiet()


async def test_a_released_message_comes_again_and_a_rejected_one_goes_to_the_dead_letters(binary: Running) -> None:
    publisher = await made(binary, **{"headrace.queue.backoff.ms": "0"})
    member = await joined(binary, "m", auto_ack="false")
    await publisher.publish("t", b"hard")
    await settle(member, await member.take(), settle="release")
    again = await member.take()
    assert (again.body, again.properties["attempt"]) == (b"hard", "2")
    dead = await binary.client()
    await binary.node.broker.create_topics([NewTopic("t.dead", 1)])
    await dead.subscribe("t.dead", "d", offset="0", replay="true")
    await settle(member, again, settle="reject", reason="too hard")
    data = await dead.take()
    assert data.body == b"hard"
    assert "too hard" in data.properties.values()
    assert await member.is_quiet()


async def test_an_acknowledgement_of_what_is_not_held_is_refused_and_names_the_group(binary: Running) -> None:
    await made(binary)
    member = await joined(binary, "m", auto_ack="false")
    await member.send(frame(ACK, 77, {"topic": "t", "partition": "0", "group": "g"}))
    reply = await member.take()
    assert (reply.type, reply.sequence) == (ACK, 77)
    assert reply.said == [
        ("status", "error"),
        ("error", "Message 77 of t[0] is not held in group g"),
        ("group", "g"),
    ]
    await member.send(frame(ACK, 77, {"topic": "t", "group": "other"}))
    assert (await member.take()).properties["status"] == "error"
    several = [frame(ACK, n, {"topic": "t", "partition": "0", "group": "g"}) for n in range(70, 73)]
    await member.send(b"".join(several))
    reply = await member.take()
    assert reply.sequence == 72
    assert reply.properties["error"] == "3 of 3 messages up to 72 of t[0] are not held in group g"
    await member.send(frame(ACK, 77, {"topic": "t", "group": "g", "settle": "maybe"}))
    assert "one of ack, release, reject, renew" in (await member.take()).properties["error"]


async def test_a_new_group_begins_with_what_comes_or_with_replay_at_the_start(binary: Running) -> None:
    publisher = await made(binary)
    await publish(publisher, 2)
    late = await joined(binary, "m")
    assert await late.is_quiet()
    reader = await binary.client()
    await reader.subscribe("t", "r", group="from-start", replay="true")
    assert [(await reader.take()).body for _ in range(2)] == [b"0", b"1"]


async def test_a_group_is_of_one_kind_while_it_has_members(binary: Running) -> None:
    await made(binary)
    await joined(binary, "m1", auto_ack="true")
    client = await binary.client()
    reply = await client.subscribe("t", "m2", group="g", auto_ack="false")
    assert reply.properties["status"] == "error"
    for wrong in ({"prefetch": "x"}, {"group": ""}):
        reply = await client.subscribe("t", "m3", **{"group": "h", **wrong})
        assert reply.properties["status"] == "error", wrong


async def test_a_member_that_takes_nothing_leaves_the_rest_to_the_others(binary: Running) -> None:
    publisher = await made(binary)
    stalled = await joined(binary, "m1", auto_ack="false", prefetch="3")
    quick = await joined(binary, "m2", auto_ack="false")
    await publish(publisher, 40)
    held = [await stalled.take() for _ in range(3)]
    for _ in range(37):
        await settle(quick, await quick.take())
    assert await stalled.is_quiet() and await quick.is_quiet()
    await settle(stalled, held[0])
    await publish(publisher, 2)
    async with asyncio.timeout(20):
        await asyncio.gather(stalled.take(), quick.take())
