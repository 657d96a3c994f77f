"""The binary door when the disk or the clock is in trouble, on the broker that is made for tests."""

from __future__ import annotations

from headrace.testing import Broker
from tests.doors_binary.raw import HEARTBEAT, Raw


async def connect(broker: Broker) -> Raw:
    host, _, port = broker.address("binary").rpartition(":")
    return await Raw.connect(host, int(port))


async def test_a_full_disk_is_said_and_publishing_goes_on_when_there_is_room() -> None:
    with Broker("disk") as broker:
        client, subscriber = await connect(broker), await connect(broker)
        await client.create("t")
        await subscriber.subscribe("t", offset="0", replay="true")
        assert (await client.publish("t", b"a")).properties["offset"] == "0"
        broker.fill_disk()
        refused = await client.publish("t", b"b")
        assert refused.said[0] == ("status", "error") and "space" in refused.said[1][1]
        broker.free_disk()
        assert (await client.publish("t", b"c")).properties["offset"] == "1"
        assert [(await subscriber.take()).body for _ in range(2)] == [b"a", b"c"]
        for one in (client, subscriber):
            one.close()


async def test_nothing_is_acknowledged_whose_sync_failed() -> None:
    with Broker("disk") as broker:
        client = await connect(broker)
        await client.create("t")
        await client.publish("t", b"a")
        broker.fail_sync()
        refused = await client.publish("t", b"b")
        assert refused.properties["status"] == "error"
        client.close()


async def test_heartbeats_and_idle_time_follow_a_clock_that_is_moved() -> None:
    with Broker() as broker:
        client = await connect(broker)
        await client.create("t")
        for _ in range(3):
            broker.clock.advance("31 s")
            beat = await client.take()
            assert (beat.type, beat.sequence, beat.said) == (HEARTBEAT, 0, [])
        assert (await client.publish("t", b"x")).properties["status"] == "success"
        client.close()


async def test_after_power_loss_what_was_acknowledged_is_there() -> None:
    with Broker("disk") as broker:
        client = await connect(broker)
        await client.create("t")
        for number in range(20):
            await client.publish("t", b"%d" % number)
        broker.crash(power_loss=True)
        broker.start()
        client.close()
        reader = await connect(broker)
        await reader.subscribe("t", offset="0", replay="true")
        assert [(await reader.take()).body for _ in range(20)] == [b"%d" % number for number in range(20)]
        reader.close()
