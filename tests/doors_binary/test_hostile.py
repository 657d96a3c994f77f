"""What strangers send to the binary door: bounded, answered or closed, and nobody else notices."""

from __future__ import annotations

import asyncio
import random
import struct
from pathlib import Path

import pytest

from tests.doors_binary.raw import DATA, HEARTBEAT, PUBLISH, Raw, bare, block, frame
from tests.doors_binary.running import Running, running, until


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        struct.pack(">IIQQII", 31, 7, 1, 0, 0, 0),
        struct.pack(">IIQQII", 0, 7, 1, 0, 0, 0),
        struct.pack(">IIQQII", 0xFFFFFFFF, 7, 1, 0, 0, 0),
        struct.pack(">IIQQII", 32, 0, 1, 0, 0, 0),
        struct.pack(">IIQQII", 32, 8, 1, 0, 0, 0),
        struct.pack(">IIQQII", 40, 7, 1, 0, 9, 0) + bytes(8),
        struct.pack(">IIQQII", 40, 7, 1, 0, 4, 5) + bytes(8),
        bare(PUBLISH, 1, b"topic=\xff\0"),
    ],
)
async def test_what_is_no_frame_closes_the_connection_without_a_reply(binary: Running, garbage: bytes) -> None:
    other = await binary.client()
    client = await binary.client()
    await client.send(frame(HEARTBEAT, 7, {}) + garbage)
    assert (await client.take()).sequence == 7  # what came before it is answered
    assert await client.reader.read() == b""
    [fields] = binary.told("door.closed")
    assert (fields["door"], fields["cause"]) == ("binary", "malformed")
    assert (await other.ask(HEARTBEAT, {})).type == HEARTBEAT


async def test_random_bytes_close_the_connection_and_the_door_goes_on(binary: Running) -> None:
    chance = random.Random(7)
    for _ in range(200):
        client = await binary.client()
        try:
            await client.send(chance.randbytes(chance.randrange(4, 3000)))
            client.writer.write_eof()
        except ConnectionError:
            pass
        assert await client.is_closed()
    await until(lambda: not len(binary.door))
    assert binary.door.unfinished_bytes == 0
    assert (await (await binary.client()).ask(HEARTBEAT, {})).type == HEARTBEAT


async def test_a_frame_split_anywhere_with_pauses_is_whole_in_the_end(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    data = frame(PUBLISH, 5, {"topic": "t"}, b"split") + frame(PUBLISH, 6, {"topic": "t"}, b"too")
    for at in range(len(data)):
        await client.send(data[at : at + 1])
        if at in (2, 10, 40, 90):
            await asyncio.sleep(1.1 if at == 40 else 0.05)
    assert [(await client.take()).properties["offset"] for _ in range(2)] == ["0", "1"]


async def test_a_frame_over_the_limit_is_not_even_read(tmp_path: Path) -> None:
    async with running(tmp_path, max_frame_bytes=1 << 20) as binary:
        client = await binary.client()
        await client.send(struct.pack(">IIQQII", (1 << 20) + 1, 7, 1, 0, 0, 1 << 20))
        assert await client.is_closed()


async def test_the_limits_of_the_protocols_own_configuration_bind(tmp_path: Path) -> None:
    async with running(tmp_path, max_partitions=16, max_message_bytes=1 << 20, retention_ms=86_400_000) as binary:
        client = await binary.client()
        reply = await client.create("t", 17)
        assert reply.said == [("status", "error"), ("error", "Partition count 17 exceeds maximum 16")]
        assert (await client.create("t", 16)).properties["status"] == "success"
        topic = binary.node.broker.topic("t")
        assert topic is not None and topic.image.config["retention.ms"] == "86400000"
        rest = len(frame(PUBLISH, 1, {"topic": "t", "client_id": "p1"}))
        fits = await client.publish("t", bytes((1 << 20) - rest))
        assert fits.properties["status"] == "success"
        over = await client.publish("t", bytes((1 << 20) - rest + 1))
        assert over.said[1] == ("error", "Message size 1048577 exceeds maximum 1048576")


async def test_one_connection_too_many_is_told_so_and_closed(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=3) as binary:
        clients = [await binary.client() for _ in range(3)]
        for client in clients:
            await client.ask(HEARTBEAT, {})
        extra = await binary.client()
        await extra.send(frame(HEARTBEAT, 1, {}))
        told = await extra.take()
        assert (told.sequence, told.said) == (
            0,
            [("status", "error"), ("error", "Connection refused: too many connections")],
        )
        assert await extra.is_closed()
        extra.close()
        assert binary.told("door.connections-full") == [{"door": "binary", "max_connections": 3}]
        clients.pop().close()
        await until(lambda: len(binary.door) == 2)
        assert (await (await binary.client()).ask(HEARTBEAT, {})).type == HEARTBEAT
        assert binary.door.metrics.refused == 1
        assert binary.door.metrics.closed["full"] == 1


async def test_a_message_that_does_not_go_on_gives_its_memory_back(tmp_path: Path) -> None:
    async with running(tmp_path, stall_ms=1500) as binary:
        client, whole = await binary.client(), await binary.client()
        await client.send(struct.pack(">IIQQII", 1 << 20, 7, 1, 0, 0, (1 << 20) - 32) + bytes(1000))
        await until(lambda: binary.door.unfinished_bytes == 1032)
        assert await client.is_closed()
        await until(lambda: binary.door.unfinished_bytes == 0)
        assert binary.told("door.closed")[0]["cause"] == "stalled"
        assert (await whole.ask(HEARTBEAT, {})).type == HEARTBEAT


async def test_memory_for_unfinished_messages_is_bounded_for_all_together(tmp_path: Path) -> None:
    async with running(tmp_path, frame_memory_bytes=3 << 20) as binary:
        head = struct.pack(">IIQQII", 2 << 20, 7, 1, 0, 0, (2 << 20) - 32)
        misers = []
        for _ in range(6):
            miser = await binary.client()
            misers.append(miser)
            await miser.send(head + bytes(1 << 20))
            await until(lambda: binary.door.unfinished_bytes > 0)
        await until(lambda: binary.door.metrics.closed.get("memory", 0) == 4)
        assert binary.door.unfinished_bytes <= 3 << 20
        assert await misers[0].is_closed()
        honest = await binary.client()
        await honest.create("t")
        assert (await honest.publish("t", bytes(1_000_000))).properties["status"] == "success"


async def test_an_idle_connection_is_closed_unless_heartbeats_keep_it(tmp_path: Path) -> None:
    async with running(tmp_path, idle_ms=1000, heartbeat_ms=0) as binary:
        client = await binary.client()
        assert await client.is_closed()
        client.close()
        await until(lambda: binary.door.metrics.closed == {"idle": 1})
    async with running(tmp_path / "2", idle_ms=2500, heartbeat_ms=1000) as binary:
        client = await binary.client()
        for _ in range(4):
            beat = await client.take()
            assert (beat.type, beat.sequence, beat.said, beat.body) == (HEARTBEAT, 0, [], b"")
        assert len(binary.door) == 1


async def test_a_client_that_takes_nothing_is_full_and_costs_nobody_else_anything(tmp_path: Path) -> None:
    async with running(tmp_path, unsent_bytes=256 << 10) as binary:
        publisher = await binary.client()
        await publisher.create("t")
        stalled = await binary.client()
        await stalled.subscribe("t", "stalled")
        quick = [await binary.client() for _ in range(100)]
        for number, client in enumerate(quick):
            await client.subscribe("t", f"c{number}")
        stalled.writer.transport.pause_reading()  # its socket fills up
        body, count = bytes(100_000), 60

        async def reads(client: Raw) -> list[int]:
            return [(await client.take()).sequence for _ in range(count)]

        readers = [asyncio.create_task(reads(client)) for client in quick]
        for _ in range(count):
            assert (await publisher.publish("t", body)).properties["status"] == "success"
        for reader in readers:
            assert await reader == list(range(count))
        slow = max(connection.unsent_bytes() for connection in binary.door.connections())
        assert slow < (256 << 10) + (1 << 20)  # the bound, and one run over it
        stalled.writer.transport.resume_reading()
        assert await reads(stalled) == list(range(count))  # from the log: nothing is lost


async def test_who_takes_nothing_for_long_is_gone(tmp_path: Path) -> None:
    async with running(tmp_path, unsent_bytes=64 << 10, take_ms=1500) as binary:
        publisher = await binary.client()
        await publisher.create("t")
        stalled = await binary.client()
        await stalled.subscribe("t", "stalled")
        stalled.writer.transport.pause_reading()
        for _ in range(100):
            await publisher.publish("t", bytes(100_000))
        await until(lambda: binary.door.metrics.closed.get("slow", 0) == 1 or len(binary.door) == 1)
        assert not binary.door.subscribers


async def test_a_publisher_that_takes_no_replies_is_not_read(tmp_path: Path) -> None:
    async with running(tmp_path, unsent_bytes=64 << 10) as binary:
        client = await binary.client()
        await client.create("t")
        client.writer.transport.pause_reading()
        requests = frame(HEARTBEAT, 1, {}) * 1000
        sent = 0
        while sent < 2000:
            client.writer.write(requests)
            try:
                async with asyncio.timeout(0.5):
                    await client.writer.drain()
            except TimeoutError:
                break
            sent += 1
        assert sent < 2000, "the door took it all"
        [connection] = binary.door.connections()
        assert connection.unsent_bytes() < 2 << 20
        client.writer.transport.abort()


async def test_two_thousand_connections_live_beside_each_other(binary: Running) -> None:
    clients = [await binary.client() for _ in range(2000)]
    await clients[0].create("t")
    for number, client in enumerate(clients):
        await client.send(frame(5, 1, {"topic": "t", "client_id": f"c{number}"}))
    for client in clients:
        assert (await client.take()).properties["status"] == "success"
    assert len(binary.door) == 2000
    await clients[7].send(frame(PUBLISH, 2, {"topic": "t"}, b"to all"))
    for client in clients:
        data = await client.take()
        assert (data.type, data.body) == (DATA, b"to all")
    assert (await clients[7].take()).sequence == 2
    assert binary.door.metrics.delivered == 2000


async def test_a_property_block_of_a_megabyte_of_nothing_is_only_slow(binary: Running) -> None:
    client = await binary.client()
    await client.create("t")
    await client.send(bare(PUBLISH, 1, b"\0" * 500_000 + block([("topic", "t")]) + b"=" * 400_000, b"x"))
    assert (await client.take()).properties["status"] == "success"
