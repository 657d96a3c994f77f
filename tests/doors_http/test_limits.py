"""What a stranger can take of the HTTP door: so much, and no more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from headrace.doors.http.guard import App, Guard, Message, Receive, Send
from headrace.doors.http.memory import Memory
from headrace.doors.http.metrics import HttpMetrics
from tests.doors_http.running import LIMIT_S, Running, running, until

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


async def answer(reader: asyncio.StreamReader) -> tuple[int, dict[str, object]]:
    """Status and JSON of one answer."""
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
    lines = head.decode().lower().split("\r\n")
    (size,) = (int(line.split(":")[1]) for line in lines if line.startswith("content-length"))
    return int(lines[0].split()[1]), json.loads(await reader.readexactly(size))


async def is_closed(reader: asyncio.StreamReader) -> bool:
    try:
        return await asyncio.wait_for(reader.read(1), LIMIT_S) == b""
    except ConnectionError:
        return True


async def test_connections_over_the_limit_are_told_and_closed_and_others_go_on(tmp_path: Path) -> None:
    async with running(tmp_path, max_connections=2) as web:
        held = [await web.socket() for _ in range(2)]
        for reader, writer in held:
            writer.write(REQUEST)
            assert (await answer(reader))[0] == 200
        reader, writer = await web.socket()
        status, told = await answer(reader)
        assert status == 503
        assert "too many connections" in str(told["detail"])
        assert await is_closed(reader)
        held[0][1].write(REQUEST)
        assert (await answer(held[0][0]))[0] == 200
        writer.close()
        held[1][1].close()
        await asyncio.sleep(0.05)
        assert (await web.web.get("/healthz")).status_code == 200
        assert web.node.http.metrics.refused == 1
        held[0][1].close()
    assert not web.faults


@pytest.mark.parametrize("kind", ["a long line", "a long header", "many headers"])
async def test_headers_that_do_not_come_to_an_end_are_refused(web: Running, kind: str) -> None:
    reader, writer = await web.socket()
    long = b"x" * (20 << 10)
    match kind:
        case "a long line":
            writer.write(b"GET /" + long)
        case "a long header":
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + long)
        case _:
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n" + b"a: b\r\n" * 4000)
    assert (await answer(reader))[0] == 400
    assert await is_closed(reader)
    writer.close()


@pytest.mark.parametrize(
    "garbage", [b"\x00\x01\x02\x03\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"]
)
async def test_what_is_not_http_is_told_so_in_json_and_closed(web: Running, garbage: bytes) -> None:
    reader, writer = await web.socket()
    writer.write(garbage)
    status, told = await answer(reader)
    assert (status, list(told)) == (400, ["detail"])
    assert await is_closed(reader)
    writer.close()
    assert (await web.web.get("/healthz")).status_code == 200


async def test_a_body_that_claims_too_much_is_refused_before_it_comes(tmp_path: Path) -> None:
    async with running(tmp_path, body_bytes=1000) as web:
        reader, writer = await web.socket()
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: x\r\ncontent-length: 1001\r\n\r\n")
        status, told = await answer(reader)
        assert (status, told["detail"]) == (413, "a request's body has at most 1000 bytes")
        assert await is_closed(reader)
        writer.close()
    assert not web.faults


async def test_a_client_that_does_not_go_on_is_closed(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=0.5) as web:
        await web.web.get("/healthz")  # the application is loaded
        half, silent = await web.socket(), await web.socket()
        half[1].write(REQUEST[:-5])
        began = time.monotonic()
        for reader, writer in (half, silent):
            assert await is_closed(reader)
            writer.close()
        assert time.monotonic() - began < LIMIT_S / 2
        assert web.node.http.metrics.timed_out >= 2
    assert not web.faults


async def test_a_client_that_sends_a_byte_now_and_then_is_closed_too(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=1.0) as web:
        await web.web.get("/healthz")
        reader, writer = await web.socket()
        closed = asyncio.create_task(is_closed(reader))
        for byte in REQUEST[:-4]:
            writer.write(bytes([byte]))
            await asyncio.sleep(0.1)
            if closed.done():
                break
        assert closed.done()
        assert await closed
        writer.close()
    assert not web.faults


async def test_a_client_that_asks_again_and_again_stays(tmp_path: Path) -> None:
    async with running(tmp_path, turn_s=3.0) as web:
        reader, writer = await web.socket()
        for _ in range(16):
            writer.write(REQUEST)
            assert (await answer(reader))[0] == 200
            await asyncio.sleep(0.25)
        assert web.node.http.metrics.timed_out == 0
        writer.close()
    assert not web.faults


CHUNKED = b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


async def test_trailers_and_extensions_of_chunks_are_passed_over(web: Running) -> None:
    await web.web.post("/admin/topics", params={"name": "t"})
    reader, writer = await web.socket()
    for offset in range(2):
        writer.write(CHUNKED + b'b;a="b"\r\n{"value": 1\r\n1\r\n}\r\n0\r\nvalue: 2\r\nid: 7\r\n\r\n')
        status, told = await answer(reader)
        assert (status, told["offset"]) == (200, offset)
    writer.close()


@pytest.mark.parametrize("kind", ["many trailers", "a long trailer", "a long extension", "a long size"])
async def test_what_comes_in_place_of_a_body_without_end_is_not_gathered(web: Running, kind: str) -> None:
    await web.web.post("/admin/topics", params={"name": "t"})
    reader, writer = await web.socket()
    begin, more = {
        "many trailers": (b"0\r\n", b"a: b\r\n" * 1000),
        "a long trailer": (b"0\r\nlong: ", b"x" * 6000),
        "a long extension": (b"1;long=", b"x" * 6000),
        "a long size": (b"", b"0" * 6000),
    }[kind]
    writer.write(CHUNKED + begin)
    with contextlib.suppress(ConnectionError):
        for _ in range(2000):  # twelve megabytes, of which it takes some kilobytes
            writer.write(more)
            await writer.drain()
            await asyncio.sleep(0)
            if reader.at_eof() or reader.exception():
                break
        else:
            raise AssertionError("it took all of it")
    writer.close()
    assert (await web.web.get("/healthz")).status_code == 200


async def test_requests_in_one_piece_are_all_answered_in_order(web: Running) -> None:
    reader, writer = await web.socket()
    writer.write(b"GET /nowhere HTTP/1.1\r\nhost: x\r\n\r\n" + REQUEST * 3)
    assert [(await answer(reader))[0] for _ in range(4)] == [404, 200, 200, 200]
    writer.close()


async def test_requests_byte_by_byte_are_answered_like_whole_ones(web: Running) -> None:
    reader, writer = await web.socket()
    for byte in REQUEST:
        writer.write(bytes([byte]))
        await asyncio.sleep(0)
    assert (await answer(reader))[0] == 200
    writer.close()


async def test_a_client_that_leaves_while_it_is_answered_leaves_nothing_behind(web: Running) -> None:
    await web.web.get("/healthz")
    for _ in range(20):
        _, writer = await web.socket()
        writer.write(b"GET /metrics/prometheus HTTP/1.1\r\nhost: x\r\n\r\n")
        await writer.drain()
        writer.transport.abort()
    await until(lambda: len(web.node.http) <= 1)  # httpx keeps its own
    assert (await web.web.get("/healthz")).status_code == 200


# The guard itself


async def guarded(app: App, body: list[bytes]) -> tuple[list[Message], list[BaseException], HttpMetrics]:
    sent: list[Message] = []
    reported: list[BaseException] = []
    pieces = [
        {"type": "http.request", "body": piece, "more_body": place + 1 < len(body)} for place, piece in enumerate(body)
    ]

    async def receive() -> Message:
        return pieces.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    metrics = HttpMetrics()
    guard = Guard(app, 10, Memory(1000), metrics, time.monotonic, reported.append)
    await guard({"type": "http", "method": "POST", "headers": []}, receive, send)
    return sent, reported, metrics


def reads_all(then: Callable[[Send], Awaitable[None]]) -> App:
    async def app(scope: Message, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        await then(send)

    return app


async def fine(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


async def breaks(send: Send) -> None:
    raise RuntimeError("a fault of ours")


async def test_a_body_that_grows_too_large_on_its_way_is_refused() -> None:
    sent, reported, metrics = await guarded(reads_all(fine), [b"12345", b"67890", b"1"])
    assert sent[0]["status"] == 413
    assert not reported
    assert metrics.requests == {("POST", "unknown", 413): 1}
    sent, _, _ = await guarded(reads_all(fine), [b"12345", b"67890"])
    assert sent[0]["status"] == 200


async def test_a_fault_of_ours_is_reported_and_answered_with_json() -> None:
    sent, reported, metrics = await guarded(reads_all(breaks), [b""])
    assert [str(error) for error in reported] == ["a fault of ours"]
    assert sent[0]["status"] == 500
    assert "the log of the node has it" in json.loads(sent[1]["body"])["detail"]
    assert metrics.requests == {("POST", "unknown", 500): 1}
