"""The binary door over kill -9 and restarts: offsets, replay and groups go on."""

from __future__ import annotations

from pathlib import Path

from headrace.testing.served import ServedBroker
from tests.doors_binary.raw import ACK, HEARTBEAT, PUBLISH, Raw, frame
from tests.support import serving

TOPIC = "t"


async def connect(broker: ServedBroker) -> Raw:
    host, _, port = broker.addresses["binary"].rpartition(":")
    return await Raw.connect(host, int(port))


async def publish(client: Raw, first: int, count: int) -> None:
    numbers = range(first, first + count)
    await client.send(b"".join(frame(PUBLISH, n, {"topic": TOPIC}, b"%d" % n) for n in numbers))
    for n in numbers:
        assert (await client.take()).properties["offset"] == str(n)


async def test_offsets_and_replay_go_on_after_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client = await connect(broker)
        await client.create(TOPIC)
        for life in range(3):
            await publish(client, life * 100, 100)
            client.close()
            broker.kill()
            broker.start()
            client = await connect(broker)
            assert (await client.create(TOPIC)).properties["error"] == f"Topic '{TOPIC}' already exists"
        reader = await connect(broker)
        await reader.subscribe(TOPIC, offset="0", replay="true")
        await publish(client, 300, 10)
        got = [await reader.take() for _ in range(310)]
        assert [(data.sequence, data.body) for data in got] == [(n, b"%d" % n) for n in range(310)]
        for one in (client, reader):
            one.close()


async def test_a_group_goes_on_after_kill_9_with_what_was_not_acknowledged(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client, member = await connect(broker), await connect(broker)
        await client.create(TOPIC)
        await member.subscribe(TOPIC, group="g", auto_ack="false")
        await publish(client, 0, 10)
        got = [await member.take() for _ in range(10)]
        for data in got[:6]:
            await member.send(frame(ACK, data.sequence, {"topic": TOPIC, "partition": "0", "group": "g"}))
        await member.send(frame(HEARTBEAT, 1, {}))
        assert (await member.take()).type == HEARTBEAT  # what was acknowledged before it is kept
        await publish(client, 10, 1)
        await member.take()
        broker.kill()
        broker.start()
        client.close()
        member.close()
        member = await connect(broker)
        await member.subscribe(TOPIC, group="g", auto_ack="false")
        again = [int((await member.take()).body) for _ in range(5)]
        assert again == [6, 7, 8, 9, 10]
        assert await member.is_quiet()
        member.close()


async def test_at_most_once_nothing_comes_twice_over_kill_9(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        client, member = await connect(broker), await connect(broker)
        await client.create(TOPIC)
        await member.subscribe(TOPIC, group="g", auto_ack="true")
        await publish(client, 0, 20)
        seen = [int((await member.take()).body) for _ in range(7)]
        broker.kill()
        broker.start()
        client.close()
        member.close()
        client, member = await connect(broker), await connect(broker)
        await member.subscribe(TOPIC, group="g", auto_ack="true")
        await publish(client, 20, 5)
        while not seen or seen[-1] != 24:
            seen.append(int((await member.take()).body))
        assert len(seen) == len(set(seen)), seen
        for one in (client, member):
            one.close()
