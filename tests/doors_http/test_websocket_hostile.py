"""WebSockets whose client is slow, silent, many or not well: bounded, closed with the right code, and nobody else
notices."""

from __future__ import annotations

import asyncio
import json
import resource
import struct
import time
from pathlib import Path

import pytest
from wsproto.events import BytesMessage, TextMessage

from headrace.doors.http.limits import HttpLimits
from headrace.doors.http.websocket.websocket import SLICE_BYTES
from headrace.testing.served import ServedBroker
from tests.doors_http.running import Running, running, until
from tests.doors_http.test_stalled import CROWD_LIMIT_S, HELD_UP_S, LONG_S, At, ask
from tests.doors_http.test_websocket_framing import PING, TEXT, frame
from tests.doors_http.websockets import Closed, Socket
from tests.support import MIB, Peak, open_sockets

CROWD = 500
SMALL_BYTES = 4096


@pytest.fixture
async def topic(web: Running) -> Running:
    await web.create("t", partitions=1)
    return web


async def publish(web: Running, count: int, size: int) -> None:
    many = [{"value": "x" * size}] * count
    assert (await web.web.post("/topics/t/records", json={"records": many})).json()["failed"] == 0


def small(web: Running) -> At:
    return At(str(web.at), SMALL_BYTES)


# Frames


async def test_bytes_are_closed_with_1003(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.send(BytesMessage(b"\x00"))
        assert (await ws.closed()).code == 1003
        assert await ws.is_at_end()


async def test_a_frame_that_is_too_large_is_closed_with_1009_before_it_came(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.writer.write(b"\x81\xff" + struct.pack(">Q", 1 << 40) + b"\0\0\0\0")
        for _ in range(20):  # and goes on to come
            ws.writer.write(b"x" * 100_000)
        assert (await ws.closed()).code == 1009
    assert topic.node.http.exchanges is not None
    bodies = topic.node.http.exchanges.services.bodies
    await until(lambda: bodies.used == 0)


async def test_a_text_in_fragments_with_a_ping_between_is_one_record(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        text = json.dumps({"value": "x" * 5000, "ref": 1})
        for start in range(0, len(text), 100):
            ws.send(TextMessage(text[start : start + 100], message_finished=start + 100 >= len(text)))
            ws.writer.write(frame(PING, b"p"))
        assert (await ws.answer())["ack"]["ref"] == 1
        assert ws.pongs > 10


@pytest.mark.parametrize("garbage", [b"\x00" * 50, b"GET / HTTP/1.1\r\n\r\n", bytes(range(256)) * 100])
async def test_garbage_is_closed_and_others_go_on(topic: Running, garbage: bytes) -> None:
    async with Socket(topic, "/topics/t/ws") as other, Socket(topic, "/topics/t/ws") as ws:
        ws.writer.write(garbage)
        assert (await ws.closed()).code == 1002
        assert (await other.asked({"value": 1}))["ack"]["offset"] == 0


# Silence


async def test_an_idle_client_is_pinged_and_one_that_does_not_answer_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.doors.http.following.QUIET_S", 0.1)
    async with running(tmp_path, turn_s=LONG_S) as web:
        await web.create("t", partitions=1)
        alive = await Socket(web, "/topics/t/ws").__aenter__()
        connections = web.node.http._connections
        others = set(connections)
        dead = await Socket(web, "/topics/t/ws", answers=False).__aenter__()
        (its,) = connections.keys() - others
        look = its.is_overdue
        monkeypatch.setattr(its, "is_overdue", lambda now, _: look(now, 0.5))  # the alive one stays, however busy it is
        listening = web.begin(alive.document())
        with pytest.raises((ConnectionError, Closed)):
            await dead.document()
        assert dead.pings == 1
        await until(lambda: alive.pings > 5)
        assert not listening.done()
        await web.web.post("/topics/t/publish", json={"value": 1})
        assert (await listening)["offset"] == 0
        assert web.node.http.metrics.timed_out == 1
        for one in (alive, dead):
            one.writer.close()
    assert not web.faults


async def test_a_text_that_does_not_come_to_its_end_is_waited_for_so_long(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=1.0) as web:
        await web.create("t", partitions=1)
        async with Socket(web, "/topics/t/ws") as ws:
            ended = asyncio.create_task(ws.is_at_end())
            whole = frame(TEXT, b" " * 120)
            for byte in whole[:-1]:
                ws.writer.write(bytes([byte]))
                await asyncio.sleep(0.05)
                if ended.done():
                    break
            assert ended.done()
            await ended
        assert web.node.http.exchanges is not None
        bodies = web.node.http.exchanges.services.bodies
        await until(lambda: bodies.used == 0)
    assert not web.faults


async def test_who_was_closed_and_does_not_go_is_cut_off(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=1.0) as web:
        await web.create("t", partitions=1)
        async with Socket(web, "/topics/t/ws", answers=False) as ws:
            ws.send(BytesMessage(b"x"))
            assert (await ws.closed()).code == 1003
            await until(lambda: len(web.node.http) == 0 or web.node.http.metrics.timed_out > 0)
    assert not web.faults


# Slowness


async def test_a_slow_reader_holds_little_reads_on_where_it_was_or_comes_back(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        for _ in range(12):
            await publish(web, 200, 4000)
        async with Socket(small(web), "/topics/t/ws?from=0") as slow, Socket(small(web), "/topics/t/ws?from=0") as cut:
            door = web.node.http
            assert door.exchanges is not None
            answers = door.exchanges.services.answers
            await until(lambda: answers.used > 0)
            assert answers.used <= 2 * (64 << 10)
            assert max(one._transport.get_write_buffer_size() for one in door._connections) < 256 << 10
            assert await slow.offsets(2400) == list(range(2400))
            first = await cut.offsets(10)
            door.limits = HttpLimits(turn_s=0.5)
            await until(lambda: answers.used == 0)
            door.limits = HttpLimits()
        async with Socket(web, f"/topics/t/ws?after={first[-1]}") as again:
            assert await again.offsets(2390) == list(range(10, 2400))
    assert not web.faults


async def test_who_finds_no_memory_for_its_records_is_told_to_come_again(tmp_path: Path) -> None:
    async with running(tmp_path, answers_bytes=1 << 20) as web:
        await web.create("t", partitions=1)
        for _ in range(12):
            await publish(web, 1, 900_000)
        async with Socket(small(web), "/topics/t/ws?from=0") as slow:
            door = web.node.http
            assert door.exchanges is not None
            answers = door.exchanges.services.answers
            await until(lambda: answers.used > 800_000)
            async with Socket(web, "/topics/t/ws?from=0") as other:
                assert (await other.closed()).code == 1013
            assert await slow.offsets(12) == list(range(12))
    assert not web.faults


async def test_who_sends_and_never_reads_is_not_read_from_either(tmp_path: Path) -> None:
    """Pings and records to publish, whose answers nobody takes."""
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        for said in (frame(PING, b"x" * 100), frame(TEXT, b'{"value":1}')):
            async with Socket(small(web), "/topics/t/ws") as ws:
                flood = said * 1000
                sent = 0
                for _ in range(2000):
                    ws.writer.write(flood)
                    try:
                        await asyncio.wait_for(ws.writer.drain(), 1.0)
                    except TimeoutError:
                        break
                    sent += len(flood)
                else:
                    raise AssertionError(f"{sent} bytes were taken from who takes nothing")
                sizes = [one._transport.get_write_buffer_size() for one in web.node.http._connections]
                assert max(sizes) < MIB
                ws.writer.transport.abort()
        assert web.node.http.exchanges is not None
        bodies = web.node.http.exchanges.services.bodies
        await until(lambda: bodies.used == 0)
    assert not web.faults


async def test_half_texts_of_many_hold_no_more_than_bodies_may(tmp_path: Path) -> None:
    limit = 2 * MIB
    async with running(tmp_path, bodies_bytes=limit) as web:
        await web.create("t", partitions=1)
        sockets = [await Socket(web, "/topics/t/ws").__aenter__() for _ in range(6)]
        assert web.node.http.exchanges is not None
        bodies = web.node.http.exchanges.services.bodies
        for place, ws in enumerate(sockets):
            ws.writer.write(frame(TEXT, b" " * 900_000)[:-10])
            if place < 2:
                await until(lambda: bodies.used > 899_000 * (place + 1))  # noqa: B023
            else:
                assert (await ws.closed()).code == 1013
            assert bodies.used <= limit
        sockets[0].writer.write(frame(TEXT, b" " * 900_000)[-10:])
        assert "error" in await sockets[0].document()
        for ws in sockets:
            ws.writer.close()
        await until(lambda: bodies.used == 0)
    assert not web.faults


@pytest.mark.parametrize("room", [0, 1000, 3000])
async def test_texts_that_find_no_memory_are_closed_with_1013_and_not_published(tmp_path: Path, room: int) -> None:
    """Whole ones, in one slice of what came: they are refused together, before one of them is published."""
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        async with Socket(web, "/topics/t/ws") as other, Socket(web, "/topics/t/ws") as ws:
            assert (await other.asked({"value": "first"}))["ack"]["offset"] == 0
            assert web.node.http.exchanges is not None
            bodies = web.node.http.exchanges.services.bodies
            others = bodies.limit - bodies.used - room
            bodies.take(others)
            ws.writer.write(frame(TEXT, b'{"value":"%s"}' % (b"x" * 1500)) * 2)
            closed = await ws.closed()
            assert (closed.code, "try again" in closed.reason) == (1013, True)
            assert bodies.used == others
            bodies.give_back(others)
            assert (await other.asked({"value": "second"}))["ack"]["offset"] == 1
        await until(lambda: bodies.used == 0)
    assert not web.faults


async def test_what_is_under_way_when_there_is_no_memory_for_more_is_given_back_once_it_is_published(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(tmp_path, bodies_bytes=4000) as web:
        await web.create("t", partitions=1)
        held = []
        publishing = web.node.broker.publishing
        honest = publishing.publish
        monkeypatch.setattr(publishing, "publish", lambda *given, **more: held.append((given, more)))
        async with Socket(web, "/topics/t/ws") as ws:
            assert web.node.http.exchanges is not None
            bodies = web.node.http.exchanges.services.bodies
            text = frame(TEXT, b'{"value":"%s"}' % (b"x" * 2500))
            ws.writer.write(text)
            await until(lambda: len(held) == 1)
            ws.writer.write(text)
            assert (await ws.closed()).code == 1013
            assert 2500 < bodies.used < len(text)
            for given, more in held:
                honest(*given, **more)
            await until(lambda: bodies.used == 0)
    assert not web.faults


async def test_records_that_cannot_be_published_now_are_taken_up_to_a_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.doors.http.websocket.websocket.MAX_OWED", 10)
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        held = []
        publishing = web.node.broker.publishing
        honest = publishing.publish
        monkeypatch.setattr(publishing, "publish", lambda *given, **more: held.append((given, more)))
        async with Socket(web, "/topics/t/ws") as ws:
            for number in range(100):
                ws.say({"value": "x" * 1000, "ref": number})
            await until(lambda: len(held) >= 10)
            await asyncio.sleep(0.2)
            assert len(held) < 10 + SLICE_BYTES / 1000  # it was looked for after each slice of what came
            monkeypatch.setattr(publishing, "publish", honest)
            for given, more in held:
                honest(*given, **more)
            answers = [one["ack"]["ref"] for one in await ws.documents(200) if "ack" in one]
            assert answers == list(range(100))
    assert not web.faults


# Many


async def test_five_hundred_get_all_in_order_while_one_of_them_never_reads(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, CROWD + 500)), hard))
    with ServedBroker(tmp_path) as broker:
        door = At(broker.http)
        await ask(await door.socket(), "POST", "/admin/topics?name=t")
        async with Socket(door, "/topics/t/ws") as manager:
            old, count = 2000, 20
            for number in range(old):
                manager.say({"value": "x" * 4000, "ref": number})
                if number % 100 == 99:
                    await manager.documents(200)
            with Peak(broker.pid) as peak:
                many = [await Socket(door, "/topics/t/ws").__aenter__() for _ in range(CROWD)]
                stalled = await Socket(At(broker.http, SMALL_BYTES), "/topics/t/ws?from=0").__aenter__()
                reading = asyncio.gather(*(ws.offsets(count) for ws in many))
                worst_s = 0.0
                for number in range(count):
                    began = time.monotonic()
                    assert (await manager.asked({"value": number}))["ack"]["offset"] == old + number
                    worst_s = max(worst_s, time.monotonic() - began)
                found = await asyncio.wait_for(reading, CROWD_LIMIT_S)
            assert all(offsets == list(range(old, old + count)) for offsets in found)
            assert worst_s < HELD_UP_S
            assert peak.grown_bytes < CROWD * 60_000 + 32 * MIB
            assert await stalled.offsets(old + count) == list(range(old + count))
            for ws in (stalled, *many):
                ws.writer.close()
        await until(lambda: open_sockets(broker.pid) < 50)
    assert "node.fault" not in broker.log()
