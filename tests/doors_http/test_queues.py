"""Queues over HTTP, for who administers them: made by the broker, looked at and changed from here."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from headrace.broker.queues.queue import Queue
from headrace.broker.queues.settings import QueueSettings
from tests.doors_http.running import Running, until

ONE = "/queues/lines/jobs%2Fa/g%2F1"


class Taker:
    def __init__(self) -> None:
        self.got: list[tuple[int, int]] = []

    def take(self, deliveries: Sequence[object]) -> bool:
        self.got += [(one.partition, one.record.offset) for one in deliveries]  # type: ignore[attr-defined]
        return True


async def opened(web: Running) -> Queue:
    await web.create("jobs/a", partitions=1)
    settings = QueueSettings(start="start")
    return await web.node.broker.queues.open("lines", "jobs/a", "g/1", settings)


async def test_none_are_none(web: Running) -> None:
    assert (await web.web.get("/queues")).json() == {"queues": []}
    answer = await web.web.get("/queues/lines/t/g")
    assert answer.status_code == 404
    assert list(answer.json()) == ["detail"]


async def test_a_queue_is_listed_described_and_deleted_by_names_with_slashes(web: Running) -> None:
    queue = await opened(web)
    taker = Taker()
    member = queue.join("one", taker, max_records=10, max_bytes=1 << 20)
    (listed,) = (await web.web.get("/queues")).json()["queues"]
    assert (listed["door"], listed["topic"], listed["group"]) == ("lines", "jobs/a", "g/1")
    told = (await web.web.get(ONE)).json()
    assert [one["name"] for one in told["members"]] == ["one"]
    assert (await web.web.delete(ONE)).status_code == 409
    member.leave()
    assert (await web.web.delete(ONE)).json() == {"status": "ok"}
    assert (await web.web.get(ONE)).status_code == 404


async def test_what_was_given_up_is_shown_and_delivered_again(web: Running) -> None:
    queue = await opened(web)
    taker = Taker()
    member = queue.join("one", taker, max_records=10, max_bytes=1 << 20)
    await web.web.post("/topics/jobs%2Fa/publish", json={"key": "k", "value": "work", "headers": {"h": "x"}})
    await until(lambda: taker.got == [(0, 0)])
    member.reject([(0, 0)], "no such customer")
    dead: list[dict[str, object]] = []
    for _ in range(1000):
        dead = (await web.web.get(f"{ONE}/dead")).json()["dead"]
        if dead:
            break
        await asyncio.sleep(0.01)
    (one,) = dead
    letter = one["letter"]
    assert isinstance(letter, dict)
    assert (one["key"], one["value"]) == ("k", "work")
    assert (letter["partition"], letter["offset"], letter["reason"]) == (0, 0, "no such customer")
    again = await web.web.post(f"{ONE}/redeliver", json={"places": [[0, 0]]})
    assert again.json() == {"records": 1, "gone": 0, "unsettled": 0}
    await until(lambda: taker.got == [(0, 0), (0, 0)])
    none = await web.web.post(f"{ONE}/redeliver", json={"places": []})
    assert none.json() == {"records": 0, "gone": 0, "unsettled": 0}
    assert (await web.web.post(f"{ONE}/redeliver", json={"places": [["x", 0]]})).status_code == 422
    assert (await web.web.get(f"{ONE}/dead?limit=0")).status_code == 422
    member.leave()
