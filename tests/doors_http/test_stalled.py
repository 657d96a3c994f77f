"""One among a hundred that never reads: the others get all in order and soon, publishers are not slowed, what is held
for it is bounded, and it misses nothing when it reads again or comes back.

The crowd is looked at from outside, as a process of its own; what the door holds for the stalled one, and how it lets
it go, from inside.
"""

from __future__ import annotations

import asyncio
import json
import socket
import time
from pathlib import Path
from typing import Any

from headrace.doors.http.limits import HttpLimits
from headrace.testing.served import ServedBroker
from tests.doors_http.events import Door, Stream
from tests.doors_http.running import running, until
from tests.support import MIB, Peak

CROWD = 100
SIZE = 4000  # of a value
OLD = 2400  # records that are there before: some 10 MB, more than the kernel takes for one that does not read
END = OLD + 300
CROWD_LIMIT_S = 60.0  # for what takes a few seconds: a hundred clients share one thread of the test
LONG_S = 600.0  # the stalled one stays, however busy the machine is, until the test lets the door look
HELD_UP_S = 10.0  # who waited for the stalled one would wait for a minute, the door's limit
SMALL_BYTES = 4096  # the kernel's buffer of one that is to stall at once, and what it reads ahead
ORDINARY_BYTES = 64 << 10
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class At:
    """A door at an address; with `receive_bytes` the kernel's buffer of its clients is small."""

    def __init__(self, address: str, receive_bytes: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self._address, self._receive_bytes = (host, int(port)), receive_bytes

    async def socket(self) -> Connection:
        plain = socket.socket()
        if self._receive_bytes is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_bytes)
        plain.setblocking(False)
        await asyncio.get_running_loop().sock_connect(plain, self._address)
        return await asyncio.open_connection(sock=plain, limit=self._receive_bytes or ORDINARY_BYTES)


async def ask(connection: Connection, method: str, path: str, body: bytes = b"") -> Any:
    reader, writer = connection
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return await answer(reader)


async def answer(reader: asyncio.StreamReader) -> Any:
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), CROWD_LIMIT_S)).lower()
    at = head.index(b"content-length: ") + 16
    assert head.split()[1] == b"200", head
    return json.loads(await reader.readexactly(int(head[at : head.index(b"\r", at)])))


def value(number: int) -> bytes:
    return b'{"value":"%08d%s"}' % (number, b"." * (SIZE - 8))


async def publish_old(door: Door) -> None:
    publisher = await door.socket()
    for first in range(0, OLD, 200):
        many = b",".join(value(number) for number in range(first, first + 200))
        assert (await ask(publisher, "POST", "/topics/t/records", b'{"records":[%s]}' % many))["failed"] == 0
    publisher[1].close()


async def worst_publish_s(door: Door) -> float:
    """One after the other; the longest that one took."""
    publisher, worst = await door.socket(), 0.0
    for number in range(OLD, END):
        began = time.monotonic()
        assert (await ask(publisher, "POST", "/topics/t/publish", value(number)))["offset"] == number
        worst = max(worst, time.monotonic() - began)
    publisher[1].close()
    return worst


async def all_in_order(stream: Stream, first: int, end: int = END) -> None:
    for number in range(first, end):
        record = (await stream.event())["data"]
        assert (record["offset"], record["value"][:8]) == (number, f"{number:08}")


async def test_a_stalled_stream_among_a_hundred_delays_nobody_and_reads_on_where_it_was(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        door = At(broker.http)
        manager = await door.socket()
        await ask(manager, "POST", "/admin/topics?name=t")
        await publish_old(door)
        stalled = await Stream(At(broker.http, SMALL_BYTES), "/topics/t/stream?from=0").__aenter__()
        streams = [await Stream(door, "/topics/t/stream").__aenter__() for _ in range(CROWD - 1)]
        with Peak(broker.pid) as peak:
            reading = asyncio.gather(*(all_in_order(stream, OLD) for stream in streams))
            worst_s = await worst_publish_s(door)
            published = time.monotonic()
            await asyncio.wait_for(reading, CROWD_LIMIT_S)
            behind_s = time.monotonic() - published
        assert worst_s < HELD_UP_S
        assert behind_s < HELD_UP_S, "they were as quick as the publisher"
        assert peak.grown_bytes < 64 * MIB, "the bound of all answers"
        await asyncio.wait_for(all_in_order(stalled, 0), CROWD_LIMIT_S)  # what it did not take waited in the log
        await ask(manager, "POST", "/topics/t/publish", value(END))
        for stream in (stalled, *streams):
            await all_in_order(stream, END, END + 1)
            stream.writer.close()
        manager[1].close()
    assert "node.fault" not in broker.log()


async def test_a_stalled_stream_among_a_hundred_is_closed_in_time_and_comes_back_for_the_rest(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=LONG_S) as web:
        await web.create("t", partitions=1)
        await publish_old(web)
        stalled = await Stream(At(str(web.at), SMALL_BYTES), "/topics/t/stream?from=0").__aenter__()
        streams = [await Stream(web, "/topics/t/stream").__aenter__() for _ in range(CROWD - 1)]
        reading = asyncio.gather(*(all_in_order(stream, OLD) for stream in streams))
        await worst_publish_s(web)
        await asyncio.wait_for(reading, CROWD_LIMIT_S)
        door = web.node.http
        assert door.exchanges is not None
        answers = door.exchanges.services.answers
        assert 0 < answers.used <= 64 << 10, "one piece, of the one that stalled"
        assert len(door.waiting) == CROWD
        door.limits = HttpLimits(turn_s=0.5)
        await until(lambda: len(door.waiting) == CROWD - 1)
        door.limits = HttpLimits(turn_s=LONG_S)
        assert door.metrics.timed_out >= 1
        await until(lambda: answers.used == 0)
        got = await whole_events(stalled)
        assert got == list(range(len(got)))
        assert len(got) < OLD
        async with Stream(web, "/topics/t/stream", last_id=str(got[-1])) as again:
            await all_in_order(again, got[-1] + 1)
        publisher = await web.socket()
        await ask(publisher, "POST", "/topics/t/publish", value(END))
        for stream in streams:
            await all_in_order(stream, END, END + 1)
            stream.writer.close()
        publisher[1].close()
    assert not web.faults


async def test_a_poll_among_a_hundred_whose_answer_nobody_takes_delays_nobody_and_is_asked_again(
    tmp_path: Path,
) -> None:
    async with running(tmp_path, turn_s=LONG_S) as web:
        await web.create("t", partitions=1)
        await publish_old(web)
        stalled = await At(str(web.at), SMALL_BYTES).socket()
        stalled[1].write(b"".join(POLL % (at, 1000) for at in range(0, OLD, 200)))  # a megabyte each, one by one
        pollers = [await web.socket() for _ in range(CROWD - 1)]
        polling = asyncio.gather(*(polls_all(poller, OLD, END) for poller in pollers))
        worst_s = await worst_publish_s(web)
        await asyncio.wait_for(polling, CROWD_LIMIT_S)
        assert worst_s < HELD_UP_S
        door = web.node.http
        assert door.exchanges is not None
        answers = door.exchanges.services.answers
        assert 0 < answers.used < 4 * door.limits.page_bytes, "its answer alone, whose records may be read already"
        before = len(door)
        door.limits = HttpLimits(turn_s=0.5)
        await until(lambda: answers.used == 0)
        door.limits = HttpLimits(turn_s=LONG_S)
        assert len(door) < before
        again = await web.socket()
        await polls_all(again, 0, END)
        for _, writer in (stalled, again, *pollers):
            writer.close()
    assert not web.faults


POLL = b"GET /poll?topic=t&from_offset=%d&max_records=%d&timeout_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n"


async def polls_all(connection: Connection, at: int, end: int) -> None:
    reader, writer = connection
    while at < end:
        writer.write(POLL % (at, 100))
        found = await answer(reader)
        assert [record["offset"] for record in found["records"]] == list(range(at, found["next_offset"]))
        at = found["next_offset"]


async def whole_events(stream: Stream) -> list[int]:
    """What had come when the connection was cut."""
    got: list[int] = []
    try:
        while True:
            got.append((await stream.event())["data"]["offset"])
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):  # in a piece, or where the next was to begin
        return got
