"""Subscribing, polling, committing over HTTP: every row of the protocol's table."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.lease_table import Place
from tests.doors_http.running import LIMIT_S, Running, running, until


@pytest.fixture
async def topic(web: Running) -> Running:
    """With five records."""
    await web.create("t", partitions=1)
    await publish(web, "t", 5)
    return web


async def publish(web: Running, topic: str, count: int, partition: int = 0) -> None:
    many = [{"key": f"k{n}", "value": n, "partition": partition} for n in range(count)]
    answer = await web.web.post(f"/topics/{topic}/records", json={"records": many})
    assert answer.json()["failed"] == 0


async def poll(web: Running, topic: str = "t", **more: Any) -> dict[str, Any]:
    answer = await web.web.get("/poll", params={"topic": topic, "timeout_ms": 0, **more})
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def commit(web: Running, offset: int, **more: Any) -> Any:
    return await web.web.post("/commit", json={"topic": "t", "offset": offset, **more})


def offsets(polled: dict[str, Any]) -> list[int]:
    return [record["offset"] for record in polled["records"]]


async def test_a_poll_begins_at_the_first_record_and_does_not_commit(topic: Running) -> None:
    for _ in range(2):
        polled = await poll(topic)
        records = polled.pop("records")
        assert polled == {"topic": "t", "next_offset": 5, "committed": -1, "replica_id": 0}
        assert [record["value"] for record in records] == [0, 1, 2, 3, 4]
        first = records[0]
        assert first.pop("ts_ms") > 0
        assert first == {"offset": 0, "key": "k0", "value": 0, "headers": {}}


async def test_a_poll_goes_on_from_where_it_is_told_and_takes_so_many(topic: Running) -> None:
    polled = await poll(topic, from_offset=2, max_records=2)
    assert (offsets(polled), polled["next_offset"]) == ([2, 3], 4)
    assert offsets(await poll(topic, from_offset=-7)) == [0, 1, 2, 3, 4]
    nothing = await poll(topic, from_offset=5)
    assert (nothing["records"], nothing["next_offset"]) == ([], 5)
    later = await poll(topic, from_offset=700)
    assert (later["records"], later["next_offset"]) == ([], 700)


async def test_any_preferred_replica_is_as_good(topic: Running) -> None:
    for replica in (0, 7):
        assert len((await poll(topic, prefer_replica=replica))["records"]) == 5


async def test_a_committed_position_is_where_the_next_poll_begins(topic: Running) -> None:
    answer = await commit(topic, 2, consumer_id="c")
    assert answer.json() == {"topic": "t", "committed": 2, "replica_id": 0}
    polled = await poll(topic, consumer_id="c")
    assert (offsets(polled), polled["committed"]) == ([3, 4], 2)


async def test_a_position_may_go_back_even_to_before_the_first(topic: Running) -> None:
    for offset in (4, 1, -1):
        assert (await commit(topic, offset)).status_code == 200
        assert (await poll(topic))["committed"] == offset


async def test_group_beats_consumer_and_whoever_says_nothing_is_anybody(topic: Running) -> None:
    await commit(topic, 1, consumer_id="c")
    await commit(topic, 2, consumer_id="c", group_id="g")
    await commit(topic, 3)
    assert (await poll(topic, consumer_id="c"))["committed"] == 1
    assert (await poll(topic, consumer_id="c", group_id="g"))["committed"] == 2
    assert (await poll(topic))["committed"] == 3
    assert (await poll(topic, consumer_id="_anon"))["committed"] == 3
    assert (await poll(topic, consumer_id="other"))["committed"] == -1


async def test_subscribing_tells_where_it_would_begin(topic: Running) -> None:
    answer = await topic.web.post("/subscribe", json={"topic": "t"})
    assert answer.json() == {"topic": "t", "start_offset": 0, "committed": -1, "replica_id": 0}
    await commit(topic, 2, group_id="g", consumer_id="c")
    body = {"topic": "t", "group_id": "g", "consumer_id": "c"}
    answer = await topic.web.post("/subscribe", json=body)
    assert answer.json() == {"topic": "t", "start_offset": 3, "committed": 2, "replica_id": 0}
    for asked, start in ((1, 1), (0, 0), (-5, 0)):
        answer = await topic.web.post("/subscribe", json={**body, "from_offset": asked})
        assert answer.json()["start_offset"] == start


@pytest.mark.parametrize("route", ["subscribe", "poll", "commit"])
async def test_a_topic_that_there_is_not(web: Running, route: str) -> None:
    answer = await asked(web, route, topic="nowhere")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Topic not found"})


@pytest.mark.parametrize("route", ["subscribe", "poll", "commit"])
async def test_a_group_needs_to_know_who_asks(topic: Running, route: str) -> None:
    answer = await asked(topic, route, group_id="g")
    assert (answer.status_code, answer.json()) == (400, {"detail": "group_id requires consumer_id"})


@pytest.mark.parametrize("route", ["subscribe", "poll", "commit"])
async def test_a_group_has_one_consumer_at_a_time(topic: Running, route: str) -> None:
    assert (await asked(topic, route, group_id="g", consumer_id="one")).status_code == 200
    for other in ("subscribe", "poll", "commit"):
        answer = await asked(topic, other, group_id="g", consumer_id="two")
        assert (answer.status_code, answer.json()) == (409, {"detail": "Group already has an active consumer"})
    assert (await asked(topic, route, group_id="other", consumer_id="two")).status_code == 200
    assert (await asked(topic, route, group_id="g", consumer_id="one")).status_code == 200
    told = (await topic.web.get("/metrics")).json()["leases"]
    assert set(told) == {"t|g", "t|other"}
    assert 0 < told["t|g"] - time.time() <= 10.5


async def asked(web: Running, route: str, topic: str = "t", **who: str) -> Any:
    match route:
        case "subscribe":
            return await web.web.post("/subscribe", json={"topic": topic, **who})
        case "poll":
            return await web.web.get("/poll", params={"topic": topic, "timeout_ms": 0, **who})
        case _:
            return await web.web.post("/commit", json={"topic": topic, "offset": 0, **who})


@pytest.mark.parametrize("offset", [-2, 1 << 63, -(1 << 70)])
async def test_an_offset_that_cannot_be(topic: Running, offset: int) -> None:
    answer = await commit(topic, offset)
    assert (answer.status_code, answer.json()) == (400, {"detail": "invalid offset"})


@pytest.mark.parametrize(
    ("parameters", "where"),
    [
        ({}, ["query", "topic"]),
        ({"topic": "t", "max_records": "0"}, ["query", "max_records"]),
        ({"topic": "t", "max_records": "1001"}, ["query", "max_records"]),
        ({"topic": "t", "timeout_ms": "-1"}, ["query", "timeout_ms"]),
        ({"topic": "t", "timeout_ms": "60001"}, ["query", "timeout_ms"]),
        ({"topic": "t", "from_offset": "x"}, ["query", "from_offset"]),
        ({"topic": "t", "from_offset": ""}, ["query", "from_offset"]),
        ({"topic": "t", "prefer_replica": "none"}, ["query", "prefer_replica"]),
    ],
)
async def test_parameters_out_of_range(topic: Running, parameters: dict[str, str], where: list[str]) -> None:
    answer = await topic.web.get("/poll", params=parameters)
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert problem["loc"] == where
    assert {"type", "loc", "msg", "input"} <= set(problem)


# Waiting


async def test_a_poll_waits_for_the_next_record(topic: Running) -> None:
    waiting = asyncio.create_task(poll(topic, from_offset=5, timeout_ms=20_000))
    await until(lambda: len(topic.node.http.waiting) == 1)
    began = time.monotonic()
    await publish(topic, "t", 1)
    assert offsets(await waiting) == [5]
    assert time.monotonic() - began < LIMIT_S / 4
    assert len(topic.node.http.waiting) == 0


async def test_a_poll_ends_with_its_time(topic: Running) -> None:
    began = time.monotonic()
    polled = await poll(topic, from_offset=5, timeout_ms=300)
    assert polled["records"] == []
    assert 0.28 < time.monotonic() - began < LIMIT_S / 4


async def test_a_poll_ends_when_its_client_leaves(topic: Running) -> None:
    _, writer = await topic.socket()
    writer.write(b"GET /poll?topic=t&from_offset=5&timeout_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n")
    await until(lambda: len(topic.node.http.waiting) == 1)
    writer.transport.abort()
    await until(lambda: len(topic.node.http.waiting) == 0)
    assert topic.node.http.exchanges is not None
    await until(lambda: not topic.node.http.exchanges.state.tasks)  # type: ignore[union-attr]


async def test_a_client_that_leaves_with_more_requests_in_line_leaves_nothing_behind(topic: Running) -> None:
    _, writer = await topic.socket()
    writer.write(b"GET /poll?topic=t&from_offset=5&timeout_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n" * 5)
    await until(lambda: len(topic.node.http.waiting) == 1)
    writer.transport.abort()
    await until(lambda: len(topic.node.http.waiting) == 0)
    await until(lambda: not topic.node.http.exchanges.state.tasks)  # type: ignore[union-attr]


async def test_a_poll_of_a_topic_that_is_deleted_meanwhile_is_told(topic: Running) -> None:
    waiting = asyncio.create_task(topic.web.get("/poll", params={"topic": "t", "from_offset": 5}))
    await until(lambda: len(topic.node.http.waiting) == 1)
    await topic.web.delete("/admin/topics/t")
    assert (await waiting).status_code == 404


async def test_a_stop_answers_polls_that_wait(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        waiting = web.begin(poll(web, timeout_ms=60_000))
        await until(lambda: len(web.node.http.waiting) == 1)
    assert (await waiting)["records"] == []
    assert not web.faults


async def test_a_poll_that_waits_keeps_its_groups_lease(topic: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.doors.http.polling.RENEW_S", 0.05)
    leases = topic.node.broker.leases

    def until_s() -> float:
        return dict(leases._table.held(0.0))[Place("t", "g")].until

    who = {"group_id": "g", "consumer_id": "one"}
    waiting = asyncio.create_task(poll(topic, from_offset=5, timeout_ms=60_000, **who))
    await until(lambda: len(topic.node.http.waiting) == 1)
    first = until_s()
    await until(lambda: until_s() > first + 0.3)
    assert (await asked(topic, "poll", group_id="g", consumer_id="two")).status_code == 409
    await publish(topic, "t", 1)
    await waiting
    last = until_s()
    await asyncio.sleep(0.3)
    assert until_s() == last  # who does not poll any more does not keep it


# What the log does meanwhile


async def test_next_offset_steps_over_what_is_no_record(topic: Running) -> None:
    """Retention has taken the first records: the poll begins with the first that is left."""
    partition = topic.node.broker.topic("t").partitions[0]  # type: ignore[union-attr]
    await topic.node.broker.delete_records(partition, 3)
    polled = await poll(topic)
    assert (offsets(polled), polled["next_offset"]) == ([3, 4], 5)
    answer = await topic.web.post("/subscribe", json={"topic": "t"})
    assert answer.json()["start_offset"] == 3


async def test_a_memory_topic_is_polled_from_what_its_ring_holds(web: Running) -> None:
    await web.create("t", partitions=1, configs={"headrace.storage": "memory"})
    first = (await web.web.post("/topics/t/publish", json={"value": "a"})).json()["offset"]
    assert first > 0
    polled = await poll(web)
    assert (offsets(polled), polled["next_offset"]) == ([first], first + 1)
    await commit(web, first)
    assert (await poll(web))["records"] == []


# Several partitions


async def test_on_several_partitions_one_is_named(web: Running) -> None:
    await web.create("t", partitions=3)
    await publish(web, "t", 2, partition=1)
    words = "partition is required: topic 't' has 3 partitions"
    for route in ("subscribe", "poll", "commit"):
        answer = await asked(web, route, consumer_id="c")
        assert (answer.status_code, answer.json()) == (400, {"detail": words})
    polled = await poll(web, partition=1)
    assert [record["partition"] for record in polled["records"]] == [1, 1]
    assert polled["partition"] == 1
    await commit(web, 0, partition=1)
    assert (await poll(web, partition=1))["committed"] == 0
    assert (await poll(web, partition=2))["committed"] == -1
    answer = await web.web.get("/poll", params={"topic": "t", "partition": 3})
    assert (answer.status_code, answer.json()["detail"]) == (404, "no partition 3: topic 't' has 3")


async def test_a_group_takes_the_partitions_in_turn_and_commits_without_naming_them(web: Running) -> None:
    await web.create("t", partitions=3)
    for partition in range(3):
        await publish(web, "t", 4, partition)
    who = {"group_id": "g", "consumer_id": "c"}
    seen: list[tuple[int, int]] = []
    while True:
        polled = await poll(web, max_records=2, **who)
        if not polled["records"]:
            break
        seen += [(record["partition"], record["offset"]) for record in polled["records"]]
        answer = await commit(web, polled["next_offset"] - 1, **who)
        assert answer.json()["partition"] == polled["partition"]
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(4)]
    assert {partition for partition, _ in seen[:6]} == {0, 1, 2}


async def test_a_groups_poll_waits_for_any_partition(web: Running) -> None:
    await web.create("t", partitions=3)
    who = {"group_id": "g", "consumer_id": "c"}
    waiting = asyncio.create_task(poll(web, timeout_ms=20_000, **who))
    await until(lambda: len(web.node.http.waiting) == 1)
    await publish(web, "t", 1, partition=2)
    assert (await waiting)["partition"] == 2
