"""Publishing over HTTP: one record and many, and every way to be told no."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from headrace.records.record import Record
from tests.doors_http.running import Running, running, until


async def records(web: Running, topic: str, partition: int = 0) -> list[Record]:
    """As the broker has them."""
    at = web.node.broker.topic(topic)
    assert at is not None
    await at.partitions[partition].opened()
    page = await web.node.broker.reading.page(at.partitions[partition], 0, max_records=1000)
    return page.records


async def test_a_record_is_answered_with_its_offset_and_who_is_in_sync(web: Running) -> None:
    await web.create("t", partitions=1)
    for offset in range(3):
        answer = await web.web.post("/topics/t/publish", json={"value": {"n": offset}})
        assert (answer.status_code, answer.json()) == (200, {"topic": "t", "offset": offset, "isr": [0]})


async def test_key_value_and_headers_are_kept(web: Running) -> None:
    await web.create("t", partitions=1)
    body = {"key": "ключ", "value": ["é", None, 1.5], "headers": {"a": "text", "b": 7}}
    await web.web.post("/topics/t/publish", json=body)
    (record,) = await records(web, "t")
    assert record.key == "ключ".encode()
    assert record.value == '["é",null,1.5]'.encode()
    assert dict(record.headers) == {"a": b"text", "b": b"7", "headrace-json": b'["b"]'}
    assert record.timestamp_ms > 0


async def test_a_body_without_a_content_type_is_json(web: Running) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.post("/topics/t/publish", content=b'{"value": 1}')
    assert answer.status_code == 200


async def test_a_topic_that_there_is_not_is_not_made(web: Running) -> None:
    answer = await web.web.post("/topics/nowhere/publish", json={"value": 1})
    assert (answer.status_code, answer.json()) == (404, {"detail": "Topic not found"})
    assert web.node.broker.topic("nowhere") is None


async def test_the_topic_may_have_any_name(web: Running) -> None:
    await web.create("a/b c/ü?#%", partitions=1)
    answer = await web.web.post("/topics/a%2Fb%20c%2F%C3%BC%3F%23%25/publish", json={"value": 1})
    assert answer.json() == {"topic": "a/b c/ü?#%", "offset": 0, "isr": [0]}


async def test_a_missing_value_is_told_in_fastapis_shape(web: Running) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.post("/topics/t/publish", json={"key": "k"})
    problem = {"type": "missing", "loc": ["body", "value"], "msg": "Field required", "input": {"key": "k"}}
    assert (answer.status_code, answer.json()) == (422, {"detail": [problem]})


async def test_json_that_is_none_is_told_with_its_place(web: Running) -> None:
    await web.create("t", partitions=1)
    headers = {"content-type": "application/json"}
    answer = await web.web.post("/topics/t/publish", content=b'{"value": }', headers=headers)
    assert answer.status_code == 422
    (problem,) = answer.json()["detail"]
    assert (problem["type"], problem["loc"]) == ("json_invalid", ["body", 10])


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"[]", 422),
        (b'{"value": 1, "key": 5}', 422),
        (b'{"value": 1, "headers": []}', 422),
        (b'{"value": NaN}', 400),
        (b'{"key": NaN, "value": 1}', 422),
        (b'{"key": "\\ud800", "value": 1}', 400),
        (b'{"headers": {"\\ud800": "x"}, "value": 1}', 400),
        (b'{"value": "\\ud800"}', 400),
        (b'{"value": \xff}', 400),
        (b'{"value": ' + b"[" * 100_000, 400),
        (b'{"key": ' + b"[" * 900 + b"]" * 900 + b', "value": 1}', 422),
        (b'{"key": ' + b"1" * 5000 + b', "value": 1}', 400),
    ],
)
async def test_every_odd_body_gets_an_answer_and_stores_nothing(web: Running, body: bytes, status: int) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.post("/topics/t/publish", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == status, answer.text
    assert list(answer.json()) == ["detail"]
    assert await records(web, "t") == []


async def test_a_record_over_the_topics_limit_is_refused_and_one_of_the_limit_is_taken(web: Running) -> None:
    await web.create("t", partitions=1, configs={"max.message.bytes": "1000"})
    fits = await web.web.post("/topics/t/publish", json={"value": "x" * 998})
    assert fits.status_code == 200
    answer = await web.web.post("/topics/t/publish", json={"value": "x" * 999})
    assert answer.status_code == 413
    assert "max.message.bytes=1000" in answer.json()["detail"]


async def test_a_full_disk_is_told_and_nothing_is_kept(web: Running) -> None:
    await web.create("t", partitions=1)
    assert (await web.web.post("/topics/t/publish", json={"value": 1})).status_code == 200
    web.disk.is_full = True
    answer = await web.web.post("/topics/t/publish", json={"value": 2})
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
    web.disk.is_full = False
    assert (await web.web.post("/topics/t/publish", json={"value": 3})).json()["offset"] == 1


async def test_too_few_in_sync_is_told_in_the_protocols_words(web: Running) -> None:
    await web.create("t", partitions=1, configs={"min.insync.replicas": "2"})
    answer = await web.web.post("/topics/t/publish", json={"value": 1})
    assert (answer.status_code, answer.json()) == (503, {"detail": "ISR replication failed"})


@pytest.mark.parametrize("acks", ["0", "1", "all", "-1"])
async def test_the_level_is_named_when_it_was_asked_for(web: Running, acks: str) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.post(f"/topics/t/publish?acks={acks}", json={"value": 1})
    assert answer.json() == {"topic": "t", "offset": 0, "isr": [0], "acks": acks}


@pytest.mark.parametrize(("acks", "status"), [("2", 503), ("some", 422), ("", 422)])
async def test_a_level_that_cannot_be_had_is_refused(web: Running, acks: str, status: int) -> None:
    await web.create("t", partitions=1)
    answer = await web.web.post(f"/topics/t/publish?acks={acks}", json={"value": 1})
    assert answer.status_code == status


async def test_on_several_partitions_the_key_decides_and_the_answer_tells(web: Running) -> None:
    await web.create("t", partitions=3)
    places = {}
    for key in "abcabc":
        answer = (await web.web.post("/topics/t/publish", json={"key": key, "value": 1})).json()
        assert places.setdefault(key, answer["partition"]) == answer["partition"]
    answer = await web.web.post("/topics/t/publish?partition=2", json={"key": "a", "value": 1})
    assert answer.json()["partition"] == 2
    assert (await web.web.post("/topics/t/publish?partition=3", json={"value": 1})).status_code == 404
    assert (await web.web.post("/topics/t/publish?partition=-1", json={"value": 1})).status_code == 422


async def test_a_repeated_id_is_stored_once(web: Running) -> None:
    await web.create("t", partitions=1, configs={"headrace.dedup.window.ms": "60000"})
    body = {"value": 1, "headers": {"id": "m1"}}
    assert (await web.web.post("/topics/t/publish", json=body)).json() == {"topic": "t", "offset": 0, "isr": [0]}
    again = (await web.web.post("/topics/t/publish", json=body)).json()
    assert again == {"topic": "t", "offset": 0, "isr": [0], "duplicate": True}
    assert len(await records(web, "t")) == 1


async def test_publishers_at_the_same_time_each_get_their_own_offset(web: Running) -> None:
    await web.create("t", partitions=1)
    answers = await asyncio.gather(*(web.web.post("/topics/t/publish", json={"value": n}) for n in range(100)))
    offsets = {answer.json()["offset"]: n for n, answer in enumerate(answers)}
    assert [json.loads(record.value or b"") for record in await records(web, "t")] == [offsets[n] for n in range(100)]


# Many


async def test_many_records_have_a_result_each_in_their_order(web: Running) -> None:
    await web.create("t", partitions=1, configs={"max.message.bytes": "1000"})
    many: list[dict[str, Any]] = [
        {"key": "a", "value": {"n": 1}, "headers": {"h": "x"}},
        {"value": "x" * 1000},
        {"value_base64": "AP8="},
        {"value_base64": "?"},
        {"key": "gone"},
        {"value": None, "timestamp_ms": 1_700_000_000_000},
        {"value": 1, "partition": 7},
    ]
    answer = (await web.web.post("/topics/t/records", json={"records": many})).json()
    assert (answer["topic"], answer["published"], answer["failed"]) == ("t", 4, 3)
    assert [result.get("offset", result.get("status")) for result in answer["results"]] == [0, 413, 1, 400, 2, 3, 404]
    found = await records(web, "t")
    assert [record.value for record in found] == [b'{"n":1}', b"\x00\xff", None, b"null"]
    assert found[3].timestamp_ms == 1_700_000_000_000


async def test_many_records_in_lines(web: Running) -> None:
    await web.create("t", partitions=1)
    headers = {"content-type": "application/x-ndjson"}
    lines = b'{"value": 1}\n\n{"value": 2, "key": "k"}\r\n{"value": 3}'
    answer = await web.web.post("/topics/t/records?acks=1", content=lines, headers=headers)
    assert answer.json()["published"] == 3
    assert answer.json()["acks"] == "1"
    wrong = await web.web.post("/topics/t/records", content=b'{"value": 1}\n{"value"}', headers=headers)
    assert wrong.status_code == 422
    assert wrong.json()["detail"][0]["loc"] == ["body", 1]
    assert [record.value for record in await records(web, "t")] == [b"1", b"2", b"3"]


async def test_ids_of_many_records_are_looked_at_within_the_request_too(web: Running) -> None:
    await web.create("t", partitions=1, configs={"headrace.dedup.window.ms": "60000"})
    many = [{"value": 1, "id": "a"}, {"value": 2, "id": "b"}, {"value": 3, "id": "a"}]
    results = (await web.web.post("/topics/t/records", json={"records": many})).json()["results"]
    assert results[2] == {"partition": 0, "offset": 0, "duplicate": True}
    assert [record.value for record in await records(web, "t")] == [b"1", b"2"]


async def test_no_records_are_no_error_and_too_many_are(web: Running) -> None:
    await web.create("t", partitions=1)
    empty = await web.web.post("/topics/t/records", json={"records": []})
    assert empty.json() == {"topic": "t", "published": 0, "failed": 0, "results": []}
    many = await web.web.post("/topics/t/records", json={"records": [{"value": 1}] * 10_001})
    assert (many.status_code, many.json()["detail"]) == (400, "a request has at most 10000 records")
    assert await records(web, "t") == []


async def test_a_body_over_the_limit_is_refused_and_others_are_not_disturbed(tmp_path: Path) -> None:
    async with running(tmp_path, body_bytes=1000, bodies_bytes=1500) as web:
        await web.create("t", partitions=1)
        large = await web.web.post("/topics/t/publish", json={"value": "x" * 1000})
        assert large.status_code == 413
        assert (await web.web.post("/topics/t/publish", json={"value": "x" * 900})).status_code == 200
    assert not web.faults


@pytest.mark.parametrize("route", ["publish", "records"])
@pytest.mark.parametrize("kind", ["application/json", "application/x-ndjson"])
async def test_a_client_that_leaves_within_its_body_publishes_nothing(web: Running, route: str, kind: str) -> None:
    await web.create("t", partitions=1)
    await web.web.get("/healthz")
    _, writer = await web.socket()
    head = f"POST /topics/t/{route} HTTP/1.1\r\nhost: x\r\ncontent-type: {kind}\r\ncontent-length: 100\r\n\r\n"
    writer.write(head.encode() + b'{"value": 1}\n')
    await asyncio.sleep(0.1)
    writer.transport.abort()
    exchanges = web.node.http.exchanges
    assert exchanges is not None
    await until(lambda: not exchanges.state.tasks)
    assert exchanges.services.bodies.used == 0
    assert await records(web, "t") == []


def bodies(web: Running) -> int:
    exchanges = web.node.http.exchanges
    return -1 if exchanges is None else exchanges.services.bodies.used


async def test_bodies_share_their_memory_and_give_it_back(tmp_path: Path) -> None:
    async with running(tmp_path, body_bytes=1000, bodies_bytes=1500) as web:
        await web.create("t", partitions=1)
        head = b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\n"
        reader, writer = await web.socket()
        writer.write(head + b"x" * 900)  # and the rest does not come
        await until(lambda: bodies(web) == 900)
        refused = await web.web.post("/topics/t/publish", json={"value": "x" * 700})
        assert refused.status_code == 503
        writer.close()
        await until(lambda: bodies(web) == 0)
        assert (await web.web.post("/topics/t/publish", json={"value": "x" * 700})).status_code == 200
        del reader
    assert not web.faults
