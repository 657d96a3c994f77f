"""Many clients at once: connections, long polls, and the slow among them; a real process, looked at from outside."""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from headrace.client.blocking import connect
from headrace.testing.served import ServedBroker
from tests.support import Peak, cpu_s

LIMIT_S = 60.0
CROWD = 2000
STREAMS = 100
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture(autouse=True)
def files() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, CROWD + 500)), hard))


@asynccontextmanager
async def crowd(broker: ServedBroker, count: int) -> AsyncIterator[list[Connection]]:
    host, _, port = broker.http.rpartition(":")
    found: list[Connection] = []
    try:
        for _ in range(0, count, 100):
            found += await asyncio.gather(*(asyncio.open_connection(host, int(port)) for _ in range(100)))
        yield found
    finally:
        for _, writer in found:
            writer.close()


async def ask(connection: Connection, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
    reader, writer = connection
    writer.write(f"{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body)
    return await answer(reader)


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)).lower()
    at = head.index(b"content-length: ") + 16
    return int(head.split()[1]), await reader.readexactly(int(head[at : head.index(b"\r", at)]))


def memory(broker: ServedBroker) -> int:
    return int(psutil.Process(broker.pid).memory_info().rss)


async def test_two_thousand_connections_are_served_and_then_gone(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with crowd(broker, 100) as few:
            assert (await ask(few[0], "POST", "/admin/topics?name=t"))[0] == 200
        before = memory(broker)
        async with crowd(broker, CROWD) as many:
            for first in range(0, CROWD, 200):
                asked = (ask(one, "POST", "/topics/t/publish", b'{"value":1}') for one in many[first : first + 200])
                assert {status for status, _ in await asyncio.gather(*asked)} == {200}
            grown = memory(broker) - before
            assert grown / CROWD < 60 << 10, f"{grown / CROWD:.0f} bytes for a connection"
            _, body = await ask(many[0], "GET", "/poll?topic=t&max_records=1000&from_offset=1500")
            assert len(json.loads(body)["records"]) == 500
        process = psutil.Process(broker.pid)
        for _ in range(100):
            if process.num_fds() < 200:
                break
            await asyncio.sleep(0.1)
        assert process.num_fds() < 200


async def test_two_thousand_long_polls_wait_without_work_and_all_get_the_record(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with crowd(broker, CROWD) as many:
            assert (await ask(many[0], "POST", "/admin/topics?name=t"))[0] == 200
            before = memory(broker)
            for _, writer in many[1:]:
                writer.write(b"GET /poll?topic=t&timeout_ms=60000 HTTP/1.1\r\nhost: x\r\n\r\n")
            await asyncio.sleep(3)
            process = psutil.Process(broker.pid)
            cpu = process.cpu_times()
            await asyncio.sleep(2)
            used = process.cpu_times().user + process.cpu_times().system - cpu.user - cpu.system
            assert used < 0.5, "who waits costs nothing"
            assert (memory(broker) - before) / CROWD < 60 << 10
            assert (await ask(many[0], "POST", "/topics/t/publish", b'{"value":"at last"}'))[0] == 200
            answers = await asyncio.gather(*(answer(reader) for reader, _ in many[1:]))
            assert {status for status, _ in answers} == {200}
            assert all(b'"at last"' in body for _, body in answers)


async def test_garbage_half_requests_and_silence_disturb_nobody(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        async with crowd(broker, 300) as many:
            assert (await ask(many[0], "POST", "/admin/topics?name=t"))[0] == 200
            for place, (_, writer) in enumerate(many[1:]):
                match place % 4:
                    case 0:
                        writer.write(b"\x16\x03\x01" + bytes(range(256)) * 20)
                    case 1:
                        writer.write(b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\ncontent-length: 100000\r\n\r\nxx")
                    case 2:
                        writer.write(b"GET /poll?topic=t HTTP/1.1\r\nhost")
                    case _:
                        writer.write(b"POST /topics/t/publish HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n")
            times = []
            for n in range(50):
                began = time.monotonic()
                status, body = await ask(many[0], "POST", "/topics/t/publish", b'{"value":%d}' % n)
                times.append(time.monotonic() - began)
                assert (status, json.loads(body)["offset"]) == (200, n)
            assert sorted(times)[25] < 1.0
    assert "node.fault" not in broker.log()


def test_a_hundred_streams_that_nobody_reads_hold_little(tmp_path: Path) -> None:
    """Of large batches, which are unpacked whole for each page: a few at a time, not one for each stream."""
    with ServedBroker(tmp_path) as broker, contextlib.ExitStack() as stack:
        with connect(broker.address) as client, client.producer(batch_bytes=1 << 20, linger=0.05) as producer:
            for _ in range(20_000):
                producer.put("t", b"x" * 1000)
        host, _, port = broker.http.rpartition(":")

        def stream() -> None:
            stalled = stack.enter_context(socket.socket())
            stalled.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            stalled.connect((host, int(port)))
            stalled.sendall(b"GET /topics/t/stream?from=0 HTTP/1.1\r\nhost: x\r\n\r\n")
            assert stalled.recv(10)

        stream()
        with Peak(broker.pid) as peak:
            for _ in range(STREAMS):
                stream()
            cpu, quiet = cpu_s(broker.pid), 0
            while quiet < 5:  # all of them have as much as the kernel takes
                time.sleep(0.1)
                now = cpu_s(broker.pid)
                quiet, cpu = (quiet + 1 if now - cpu < 0.02 else 0), now
        assert peak.grown_bytes < STREAMS * 500_000
