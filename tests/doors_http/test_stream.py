"""Records as server-sent events: from where one says, on and on, with resumption, whoever is slow."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.doors.http.limits import HttpLimits
from headrace.records.ids import derived_id
from tests.doors_http.events import Stream
from tests.doors_http.running import LIMIT_S, Running, running, until


async def publish(web: Running, values: list[Any], partition: int = 0) -> None:
    many = [{"value": value, "partition": partition} for value in values]
    assert (await web.web.post("/topics/t/records", json={"records": many})).json()["failed"] == 0


async def test_records_come_as_they_are_published(web: Running) -> None:
    await web.create("t", partitions=1)
    await publish(web, ["before"])
    async with Stream(web, "/topics/t/stream") as stream:
        assert b"content-type: text/event-stream" in stream.head
        await until(lambda: len(web.node.http.waiting) == 1)
        await publish(web, [{"a": "line\nbreak"}])
        event = await stream.event()
        assert event["id"] == "1"
        assert event["data"].pop("ts_ms") > 0
        assert event["data"].pop("id") == derived_id("t", 0, 1)
        assert event["data"] == {"offset": 1, "key": None, "value": {"a": "line\nbreak"}, "headers": {}}
        await publish(web, [2, 3])
        assert await stream.offsets(2) == [2, 3]
    await until(lambda: len(web.node.http.waiting) == 0)


async def test_a_client_that_comes_back_goes_on_after_its_last_event(web: Running) -> None:
    await web.create("t", partitions=1)
    await publish(web, list(range(10)))
    async with Stream(web, "/topics/t/stream?from=0") as stream:
        assert await stream.offsets(4) == [0, 1, 2, 3]
    async with Stream(web, "/topics/t/stream", last_id="3") as stream:
        await publish(web, [10])
        assert await stream.offsets(7) == list(range(4, 11))


async def test_a_stream_begins_at_a_time(web: Running) -> None:
    await web.create("t", partitions=1)
    await publish(web, [0])
    async with Stream(web, "/topics/t/stream?since=0") as stream:
        assert await stream.offsets(1) == [0]
    async with Stream(web, "/topics/t/stream?since=2099-01-01") as stream:
        await until(lambda: len(web.node.http.waiting) == 1)
        await publish(web, [1])
        assert await stream.offsets(1) == [1]


async def test_a_stream_of_several_partitions_resumes_in_each(web: Running) -> None:
    await web.create("t", partitions=3)
    for partition in range(3):
        await publish(web, [0, 1], partition)
    seen: list[tuple[int, int]] = []
    async with Stream(web, "/topics/t/stream?from=0") as stream:
        for _ in range(3):
            event = await stream.event()
            seen.append((event["data"]["partition"], event["data"]["offset"]))
    async with Stream(web, "/topics/t/stream", last_id=event["id"]) as stream:
        for _ in range(3):
            event = await stream.event()
            seen.append((event["data"]["partition"], event["data"]["offset"]))
        await publish(web, [2], 1)
        assert (await stream.event())["data"]["partition"] == 1
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(2)]
    async with Stream(web, "/topics/t/stream?partition=1&from=1") as stream:
        assert await stream.offsets(2) == [1, 2]


async def test_what_retention_took_is_told(web: Running) -> None:
    await web.create("t", partitions=1)
    await publish(web, list(range(5)))
    await web.node.broker.delete_records(web.node.broker.topic("t").partitions[0], 3)  # type: ignore[union-attr]
    async with Stream(web, "/topics/t/stream?from=1") as stream:
        lost = await stream.event()
        assert (lost["event"], lost["data"]) == ("lost", {"partition": 0, "from": 1, "to": 3})
        assert await stream.offsets(2) == [3, 4]


async def test_a_quiet_stream_shows_that_it_lives(web: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.doors.http.following.QUIET_S", 0.1)
    await web.create("t", partitions=1)
    async with Stream(web, "/topics/t/stream") as stream:
        assert [await stream._block() for _ in range(3)] == [b"retry: 1000", b":", b":"]


@pytest.mark.parametrize(("path", "status"), [("/topics/no/stream", 404), ("/topics/t/stream?partition=1", 404)])
async def test_what_there_is_not(web: Running, path: str, status: int) -> None:
    await web.create("t", partitions=1)
    assert (await web.web.get(path)).status_code == status


@pytest.mark.parametrize("last_id", ["x", "1:x", "-2", "9" * 30, "1:2:3"])
async def test_an_id_of_no_event(web: Running, last_id: str) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.get("/topics/t/stream", headers={"last-event-id": last_id})
    assert answer.status_code == 400


async def test_a_stalled_reader_holds_little_and_holds_up_nobody(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        async with Stream(web, "/topics/t/stream") as stalled, Stream(web, "/topics/t/stream") as quick:
            await until(lambda: len(web.node.http.waiting) == 2)
            count = 0
            for _ in range(30):
                await publish(web, ["x" * 1000] * 500)
                count += 500
                await quick.offsets(500)
            buffers = [one._transport.get_write_buffer_size() for one in web.node.http._connections]
            assert max(buffers) < 2 << 20
            assert sum(buffers) > 0
            del stalled
            web.node.http.limits = HttpLimits(turn_s=0.5)
            door = web.node.http
            await until(lambda: not any(one._transport.get_write_buffer_size() for one in door._connections))
            assert door.metrics.timed_out  # who takes nothing is let go
            door.limits = HttpLimits()
            await asyncio.sleep(0.1)  # the publisher's idle connection may have gone too: it sees that now
            await publish(web, [1])
            assert await quick.offsets(1) == [count]
    assert not web.faults


async def test_stalled_streams_hold_bounded_memory_and_one_that_finds_none_resumes_later(tmp_path: Path) -> None:
    limit, values = 3 << 20, [str(n) * 900_000 for n in range(8)]
    async with running(tmp_path, answers_bytes=limit) as web:
        await web.create("t", partitions=1)
        for value in values * 3:  # more than the kernel's buffers take
            await publish(web, [value])
        links = []
        for _ in range(6):
            reader, writer = await web.socket()
            writer.write(b"GET /topics/t/stream?from=0 HTTP/1.1\r\nhost: x\r\n\r\n")
            links.append((reader, writer))
        door = web.node.http
        await until(lambda: len(door.waiting) == limit // 900_000)  # the others were cut
        assert door.exchanges is not None
        answers = door.exchanges.services.answers
        assert 0 < answers.used <= limit
        assert max(one._transport.get_write_buffer_size() for one in door._connections) < 256 << 10
        for _, writer in links:
            writer.close()
        await until(lambda: answers.used == 0)
        async with Stream(web, "/topics/t/stream", last_id="20") as stream:
            assert await stream.offsets(3) == [21, 22, 23]
        await until(lambda: answers.used == 0)
    assert not web.faults


async def test_a_stop_ends_streams(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        reader, writer = await web.socket()
        writer.write(b"GET /topics/t/stream HTTP/1.1\r\nhost: x\r\n\r\n")
        await until(lambda: len(web.node.http.waiting) == 1)
    assert (await asyncio.wait_for(reader.read(), LIMIT_S)).endswith(b"0\r\n\r\n")
    writer.close()
    assert not web.faults


async def test_a_topic_that_is_deleted_ends_its_streams(web: Running) -> None:
    await web.create("t", partitions=1)
    async with Stream(web, "/topics/t/stream") as stream:
        await until(lambda: len(web.node.http.waiting) == 1)
        await web.web.delete("/admin/topics/t")
        rest = await asyncio.wait_for(stream.reader.read(), LIMIT_S)
        assert not rest.endswith(b"0\r\n\r\n")  # the answer is not whole
