"""What a fetch session owes its client over the wire: every partition its turn, and one question at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from headrace.broker.broker import NewTopic
from headrace.records.record import Record
from headrace.wire.kafka import fetch_client, header
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from tests.doors.asking import Asker, another, asking

VERSION = 12  # the newest that names topics by name


@pytest.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", partitions=3)])
        yield asker


async def fetch(asker: Asker, session: tuple[int, int], offsets: dict[int, int], **options: int) -> FetchResponse:
    """`offsets` of the partitions that the session is to begin with, or whose offset has moved."""
    wants = [FetchPartition(index, -1, offset, -1, -1, 1 << 20) for index, offset in offsets.items()]
    topics = [FetchTopic("t", None, wants)] if wants else []
    request = FetchRequest(topics=topics, session_id=session[0], session_epoch=session[1], **options)
    raw = await asker.answer(fetch_client.encode_request(VERSION, 5, "x", request))
    _, at = header.read_response_header(raw, 0, len(raw), header.FETCH, VERSION)
    return fetch_client.decode_response(raw, at, len(raw), VERSION)


def served(response: FetchResponse) -> list[int]:
    """The partitions of which it has records."""
    assert response.error == 0
    return [fetched.partition for topic in response.topics for fetched in topic.partitions if fetched.size]


def record() -> Record:
    return Record(None, b"x" * 1000, (), int(time.time() * 1000))


async def test_when_an_answer_has_room_for_one_partition_each_of_a_session_gets_its_turn(asker: Asker) -> None:
    rounds = 4
    for partition in range(3):
        for _ in range(rounds):
            await asker.produce("t", partition, [record()])
    answer = await fetch(asker, (0, 0), dict.fromkeys(range(3), 0), max_bytes=1500, min_bytes=1)
    offsets, turns = dict.fromkeys(range(3), 0), served(answer)
    for epoch in range(1, 3 * rounds):
        offsets[turns[-1]] += 1
        moved = {turns[-1]: offsets[turns[-1]]}
        answer = await fetch(asker, (answer.session_id, epoch), moved, max_bytes=1500, min_bytes=1)
        turns += served(answer)
    assert turns == [0, 1, 2] * rounds


async def test_who_names_no_offsets_is_given_each_partition_in_turn_too(asker: Asker) -> None:
    for partition in range(3):
        await asker.produce("t", partition, [record()])
    answer = await fetch(asker, (0, 0), dict.fromkeys(range(3), 0), max_bytes=1500, min_bytes=1)
    turns = served(answer)
    for epoch in range(1, 6):
        turns += served(await fetch(asker, (answer.session_id, epoch), {}, max_bytes=1500, min_bytes=1))
    assert turns == [0, 1, 2] * 2


async def test_while_a_fetch_of_a_session_waits_another_is_refused_and_takes_nothing_from_it(asker: Asker) -> None:
    first = await fetch(asker, (0, 0), {0: 0})
    waiting = asyncio.ensure_future(fetch(asker, (first.session_id, 1), {}, max_wait_ms=20_000, min_bytes=1))
    deadline = time.monotonic() + 10
    while not asker.node.kafka.polls:
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)
    async with another(asker) as other:
        begin = time.monotonic()
        refused = await fetch(other, (first.session_id, 2), {1: 0}, max_wait_ms=10_000, min_bytes=1)
        assert (refused.error, refused.topics) == (Code.INVALID_FETCH_SESSION_EPOCH, [])
        assert time.monotonic() - begin < 5
        assert not waiting.done()
        await other.produce("t", 0, [record()])
        assert served(await asyncio.wait_for(waiting, 10)) == [0]
        assert served(await fetch(other, (first.session_id, 2), {0: 0})) == [0]
