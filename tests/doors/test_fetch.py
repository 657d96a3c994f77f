"""Fetch on a node of its own: what one answer holds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
import pytest

from headrace.broker.broker import NewTopic
from headrace.doors.kafka.api.fetch import BY_ID_FROM
from headrace.log.files import OsFiles
from headrace.log.log import Log
from headrace.ports import Buffer
from headrace.records.codec import Producer, decode, encode
from headrace.records.record import Record
from headrace.wire.kafka import fetch, fetch_client, header
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
)
from tests.doors.asking import Asker, asking, create
from tests.log.keyed import end_transaction, put, transactional

VERSIONS = [fetch.OLDEST, 7, 11, 12]


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", partitions=3)])
        yield asker


async def ask(asker: Asker, version: int, asked: list[FetchPartition], **options: Any) -> list[FetchedPartition]:
    request = FetchRequest(topics=[FetchTopic("t", None, asked)], **options)
    raw = await asker.answer(fetch_client.encode_request(version, 5, "x", request))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
    response = fetch_client.decode_response(raw, at, len(raw), version)
    assert response.error == 0
    return list(response.topics[0].partitions)


def want(partition: int = 0, offset: int = 0, max_bytes: int = 1 << 20) -> FetchPartition:
    return FetchPartition(partition, -1, offset, -1, -1, max_bytes)


def values(fetched: FetchedPartition) -> list[bytes | None]:
    return [record.value for piece in fetched.pieces or () for record in decode(piece)]


def record(value: bytes) -> Record:
    return Record(None, value, (), int(time.time() * 1000))


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_limit_below_the_first_batch_still_gives_that_batch_at_once(asker: Asker, version: int) -> None:
    for value in (b"one", b"two"):
        await asker.produce("t", 0, [record(value)])
    for max_bytes in (0, 1, 60):
        begin = time.monotonic()
        for options in ({"max_bytes": max_bytes}, {}):
            (one,) = await ask(asker, version, [want(max_bytes=max_bytes)], max_wait_ms=5000, min_bytes=1, **options)
            assert values(one) == [b"one"]
        assert time.monotonic() - begin < 4


@pytest.mark.parametrize("version", VERSIONS)
async def test_only_the_first_partition_with_records_may_pass_the_limit(asker: Asker, version: int) -> None:
    for partition in range(3):
        await asker.produce("t", partition, [record(b"%d" % partition)])
    answers = await ask(asker, version, [want(index) for index in range(3)], max_bytes=1, min_bytes=1)
    assert [values(one) for one in answers] == [[b"0"], [], []]
    assert [(one.error, one.high_watermark) for one in answers] == [(0, 1)] * 3


async def test_a_wrong_offset_is_told_also_where_the_answer_is_full_already(asker: Asker) -> None:
    await asker.produce("t", 0, [record(b"x")])
    answers = await ask(asker, 11, [want(0), want(1, offset=9)], max_bytes=1)
    assert [one.error for one in answers] == [0, Code.OFFSET_OUT_OF_RANGE]


async def test_a_poll_waits_for_enough_and_no_longer(asker: Asker) -> None:
    waiting = asyncio.create_task(ask(asker, 11, [want(0), want(1)], max_wait_ms=20_000, min_bytes=1))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    topic = asker.node.broker.topic("t")
    assert topic is not None
    partition = await topic.partitions[1].opened()
    partition.append(encode([record(b"news")]), int(time.time() * 1000))
    asker.node.broker.flush()
    answers = await asyncio.wait_for(waiting, 15)
    assert [values(one) for one in answers] == [[], [b"news"]]


async def test_a_poll_without_news_ends_with_its_time(asker: Asker) -> None:
    begin = time.monotonic()
    (one,) = await ask(asker, 11, [want(0)], max_wait_ms=300, min_bytes=1)
    assert values(one) == []
    assert 0.25 < time.monotonic() - begin < 5


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("min_bytes", "of_all", "of_one"),
    [(2000, 1500, 1 << 20), (1500, 2000, 1 << 20), (2000, 1 << 20, 1500), (1500, 1 << 20, 2000), (1 << 30, 0, 0)],
)
async def test_a_poll_does_not_wait_for_more_than_its_answer_may_hold(
    asker: Asker, version: int, min_bytes: int, of_all: int, of_one: int
) -> None:
    for _ in range(5):
        await asker.produce("t", 0, [record(b"x" * 1000)])
    begin = time.monotonic()
    (one,) = await ask(
        asker, version, [want(max_bytes=of_one)], max_wait_ms=5000, min_bytes=min_bytes, max_bytes=of_all
    )
    assert values(one) == [b"x" * 1000]
    assert time.monotonic() - begin < 4


async def test_a_poll_for_more_than_any_answer_may_hold_is_answered_with_the_most_there_can_be(asker: Asker) -> None:
    asker.node.kafka.limits = msgspec.structs.replace(asker.node.kafka.limits, fetch_max_bytes=2500)
    for _ in range(5):
        await asker.produce("t", 0, [record(b"x" * 1000)])
    begin = time.monotonic()
    (one,) = await ask(asker, 11, [want()], max_wait_ms=5000, min_bytes=1 << 30)
    assert values(one) == [b"x" * 1000] * 2
    assert time.monotonic() - begin < 4


async def test_an_answer_that_is_full_to_the_byte_waits_for_no_more(asker: Asker) -> None:
    await asker.produce("t", 0, [record(b"x" * 1000)])
    (one,) = await ask(asker, 11, [want()])
    begin = time.monotonic()
    (again,) = await ask(asker, 11, [want()], max_wait_ms=5000, min_bytes=1 << 30, max_bytes=one.size)
    assert values(again) == values(one) == [b"x" * 1000]
    assert time.monotonic() - begin < 4


async def test_a_poll_for_nothing_at_all_still_waits_for_the_first_batch(asker: Asker) -> None:
    begin = time.monotonic()
    (one,) = await ask(asker, 11, [want(max_bytes=0)], max_wait_ms=300, min_bytes=1, max_bytes=0)
    assert values(one) == []
    assert 0.25 < time.monotonic() - begin < 5


async def in_session(asker: Asker, version: int, topics: list[FetchTopic], **options: Any) -> FetchResponse:
    request = FetchRequest(topics=topics, max_wait_ms=5000, min_bytes=1, **options)
    raw = await asker.answer(fetch_client.encode_request(version, 5, "x", request))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, version)
    return fetch_client.decode_response(raw, at, len(raw), version)


def named(asker: Asker, version: int) -> tuple[str | None, UUID | None]:
    topic = asker.node.broker.topic("t")
    assert topic is not None
    return (None, topic.id) if version >= BY_ID_FROM else ("t", None)


@pytest.mark.parametrize("version", [7, 12, 13, fetch.NEWEST])
async def test_a_fetch_that_names_nothing_ends_its_session_at_once(asker: Asker, version: int) -> None:
    """As a Java consumer does when it is closed."""
    await asker.produce("t", 0, [record(b"x")])
    begin = time.monotonic()
    first = await in_session(asker, version, [FetchTopic(*named(asker, version), [want()])], session_epoch=0)
    assert first.session_id
    last = await in_session(asker, version, [], session_id=first.session_id, session_epoch=-1)
    assert (last.error, last.session_id, last.topics) == (0, 0, [])
    assert time.monotonic() - begin < 4
    assert len(asker.node.kafka.sessions) == 0


@pytest.mark.parametrize("version", [7, 12, 13, fetch.NEWEST])
async def test_a_session_of_which_all_is_forgotten_is_over_at_once(asker: Asker, version: int) -> None:
    await asker.produce("t", 0, [record(b"x")])
    who = named(asker, version)
    begin = time.monotonic()
    first = await in_session(asker, version, [FetchTopic(*who, [want()])], session_epoch=0)
    last = await in_session(
        asker, version, [], session_id=first.session_id, session_epoch=1, forgotten=[ForgottenTopic(*who, [0])]
    )
    assert (last.error, last.session_id, last.topics) == (0, 0, [])
    assert time.monotonic() - begin < 4
    assert len(asker.node.kafka.sessions) == 0


class NothingInMemory(OsFiles):
    """Every read of a file would have to wait for the disk."""

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        return None


async def test_a_poll_does_not_wait_for_more_than_its_answer_may_hold_of_what_lies_on_the_disk(tmp_path: Path) -> None:
    async with asking(tmp_path, NothingInMemory()) as asker:
        await asker.node.broker.create_topics([NewTopic("t")])
        for _ in range(5):
            await asker.produce("t", 0, [record(b"x" * 1000)])
        begin = time.monotonic()
        (one,) = await ask(asker, 11, [want(max_bytes=1500)], max_wait_ms=5000, min_bytes=2000)
        assert values(one) == [b"x" * 1000]
        assert time.monotonic() - begin < 4


async def test_a_poll_before_a_gap_that_ends_at_an_open_transaction_waits_as_at_the_end(asker: Asker) -> None:
    configs = {"cleanup.policy": "compact", "delete.retention.ms": "0", "min.cleanable.dirty.ratio": "0.01"}
    topic = await create(asker, "gap", configs=configs)
    log = (await topic.partitions[0].opened()).log
    assert isinstance(log, Log)
    open_one = Producer(8, 0, 0)
    for pair in ((b"a", b"a"), (b"k", b"v"), (b"k", None)):
        put(log, pair, now_ms=now_ms())
    log.start_segment(log.written_offset, now_ms())
    transactional(log, open_one, (b"k", b"w"), now_ms=now_ms())
    synced = asyncio.get_running_loop().create_future()
    log.when_synced(log.written_offset, synced.set_result)
    assert await synced is None
    deadline = time.monotonic() + 30
    while log.segments[0].revision < 2:  # one round for the value, one for its tombstone
        assert time.monotonic() < deadline
        log.services.compactor.look(log, now_ms())
        await asyncio.sleep(0.05)

    async def poll(wait_ms: int) -> tuple[FetchedPartition, float]:
        request = FetchRequest(
            topics=[FetchTopic("gap", None, [want(offset=1)])], max_wait_ms=wait_ms, min_bytes=1, isolation_level=1
        )
        began = time.monotonic()
        raw = await asker.answer(fetch_client.encode_request(11, 5, "x", request))
        _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, 11)
        return fetch_client.decode_response(raw, at, len(raw), 11).topics[0].partitions[0], time.monotonic() - began

    found, took_s = await poll(300)
    assert (found.error, found.size) == (0, 0) and took_s >= 0.3
    waiting = asyncio.ensure_future(poll(60_000))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    end_transaction(log, open_one, commit=True, now_ms=now_ms())
    topic.partitions[0].wake()
    found, took_s = await waiting
    assert values(found)[:1] == [b"w"] and took_s < 50


def now_ms() -> int:
    return int(time.time() * 1000)
