"""Ranges of records over HTTP: by offset and by time, in pages and in lines."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from tests.doors_http.running import Running, running, until

BASE_MS = 1_700_000_000_000
LINES = {"accept": "application/x-ndjson"}


async def filled(web: Running, count: int, partitions: int = 1, size: int = 0) -> None:
    """Record n of each partition is of BASE_MS + n seconds."""
    await web.create("t", partitions=partitions)
    for partition in range(partitions):
        for first in range(0, count, 5000):
            many = [
                {"value": [n, "x" * size], "partition": partition, "timestamp_ms": BASE_MS + n * 1000}
                for n in range(first, min(count, first + 5000))
            ]
            answer = await web.web.post("/topics/t/records", json={"records": many})
            assert answer.json()["failed"] == 0, answer.text[:500]


async def read(web: Running, **parameters: Any) -> list[tuple[int, int]]:
    """All pages of a range: partition and offset of each record."""
    found: list[tuple[int, int]] = []
    page = None
    while True:
        answer = await web.web.get("/topics/t/records", params={**parameters, **({"page": page} if page else {})})
        assert answer.status_code == 200, answer.text
        told = answer.json()
        assert told["topic"] == "t"
        found += [(record["partition"], record["offset"]) for record in told["records"]]
        page = told["next_page"]
        if page is None:
            return found


def of_one(start: int, end: int) -> list[tuple[int, int]]:
    return [(0, offset) for offset in range(start, end)]


@pytest.mark.parametrize(
    ("bounds", "start", "end"),
    [
        ({}, 0, 50),
        ({"from": 10}, 10, 50),
        ({"to": 10}, 0, 10),
        ({"from": 10, "to": 20}, 10, 20),
        ({"from": 49}, 49, 50),
        ({"from": 50}, 0, 0),
        ({"from": 1 << 62}, 0, 0),
        ({"from": 20, "to": 10}, 0, 0),
        ({"since": BASE_MS + 10_000}, 10, 50),
        ({"since": BASE_MS + 9_001}, 10, 50),
        ({"since": "2023-11-14T22:13:30Z"}, 10, 50),
        ({"since": "2023-11-14T22:13:30"}, 10, 50),
        ({"until": BASE_MS + 10_000}, 0, 10),
        ({"since": 0, "until": "2030-01-01"}, 0, 50),
        ({"since": "2030-01-01"}, 0, 0),
        ({"from": 5, "until": BASE_MS + 10_000}, 5, 10),
    ],
)
@pytest.mark.parametrize("limit", [None, 7])
async def test_a_range_is_what_lies_in_it(
    web: Running, bounds: dict[str, Any], start: int, end: int, limit: int | None
) -> None:
    await filled(web, 50)
    assert await read(web, **bounds, **({"limit": limit} if limit else {})) == of_one(start, end)


async def test_pages_are_cut_at_their_bytes_and_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, page_bytes=20_000) as web:
        await filled(web, 500, size=200)
        first = (await web.web.get("/topics/t/records")).json()
        assert 50 < len(first["records"]) < 400
        assert await read(web) == of_one(0, 500)
    assert not web.faults


async def test_all_partitions_come_one_after_the_other(web: Running) -> None:
    await filled(web, 20, partitions=3)
    everything = [(partition, offset) for partition in range(3) for offset in range(20)]
    assert await read(web) == everything
    assert await read(web, limit=7) == everything
    assert await read(web, partition=1) == everything[20:40]
    late = [(partition, offset) for partition in range(3) for offset in range(15, 20)]
    assert await read(web, since=BASE_MS + 15_000, limit=4) == late
    answer = await web.web.get("/topics/t/records", params={"from": 3})
    assert answer.status_code == 400
    assert "partition is required with offsets" in answer.json()["detail"]


async def test_lines_bring_all_of_the_range_at_once(web: Running) -> None:
    await filled(web, 12_000, partitions=2)
    answer = await web.web.get("/topics/t/records", headers=LINES)
    assert answer.headers["content-type"].startswith("application/x-ndjson")
    found = [json.loads(line) for line in answer.text.splitlines()]
    assert [(one["partition"], one["offset"]) for one in found] == [(p, n) for p in range(2) for n in range(12_000)]
    few = await web.web.get("/topics/t/records", params={"partition": 1, "from": 5, "limit": 3}, headers=LINES)
    assert [json.loads(line)["offset"] for line in few.text.splitlines()] == [5, 6, 7]


async def test_lines_that_nobody_takes_hold_little_and_end_with_the_client(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await filled(web, 20_000, size=400)
        reader, writer = await web.socket()
        writer.write(b"GET /topics/t/records HTTP/1.1\r\nhost: x\r\naccept: application/x-ndjson\r\n\r\n")
        await reader.readuntil(b"\r\n\r\n")
        await asyncio.sleep(0.5)
        await until(lambda: any(one._transport.get_write_buffer_size() for one in web.node.http._connections))
        (connection,) = [one for one in web.node.http._connections if one._transport.get_write_buffer_size()]
        assert connection._transport.get_write_buffer_size() < 4 << 20
        assert (await web.web.get("/topics/t/records", params={"limit": 5})).status_code == 200
        writer.transport.abort()
        exchanges = web.node.http.exchanges
        assert exchanges is not None
        for _ in range(500):
            if not exchanges.state.tasks:
                break
            await asyncio.sleep(0.01)
        assert not exchanges.state.tasks
        assert exchanges.services.answers.used == 0
    assert not web.faults


async def test_the_newest_so_many(web: Running) -> None:
    await filled(web, 20, partitions=3)
    assert await read(web, last=4, partition=1) == [(1, offset) for offset in range(16, 20)]
    merged = await read(web, last=6)
    assert sorted(merged) == [(partition, offset) for partition in range(3) for offset in (18, 19)]
    assert [offset for _, offset in merged] == [18, 18, 18, 19, 19, 19]
    assert len(await read(web, last=10_000)) == 60


async def test_the_newest_are_cut_at_their_oldest_and_are_one_at_least(
    web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.doors.http.routes.records.MAX_NEWEST_BYTES", 2000)
    await filled(web, 20, size=400)
    assert await read(web, last=20) == of_one(16, 20)
    monkeypatch.setattr("headrace.doors.http.routes.records.MAX_NEWEST_BYTES", 100)
    assert await read(web, last=20) == of_one(19, 20)


@pytest.mark.parametrize(
    ("parameters", "status"),
    [
        ({"from": -1}, 422),
        ({"limit": 0}, 422),
        ({"from": "x"}, 422),
        ({"partition": 1}, 404),
        ({"since": "yesterday"}, 400),
        ({"since": "9" * 30}, 400),
        ({"until": "0001-01-01"}, 200),
        ({"until": "9999-12-31T23:59:59-12:00"}, 200),
        ({"page": "x"}, 400),
        ({"page": "0-" + "9" * 30}, 400),
        ({"page": "7-0"}, 200),
    ],
)
async def test_odd_parameters(web: Running, parameters: dict[str, Any], status: int) -> None:
    await filled(web, 3)
    answer = await web.web.get("/topics/t/records", params=parameters)
    assert answer.status_code == status, answer.text


async def test_a_topic_that_there_is_not(web: Running) -> None:
    answer = await web.web.get("/topics/nowhere/records")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Topic not found"})


async def test_records_of_other_doors_are_shown(web: Running) -> None:
    await web.create("t", partitions=1)
    await web.produce("t", [b"text", b'{"a": 1}', b"\xff"])
    answer = (await web.web.get("/topics/t/records")).json()
    assert [record["value"] for record in answer["records"]] == ["text", {"a": 1}, {"base64": "/w=="}]
    assert all(record["key"] is None for record in answer["records"])
