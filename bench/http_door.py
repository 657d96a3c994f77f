"""The HTTP door's rate: `python -m bench.http_door`. A node of its own process, plain sockets as its clients.

What a client sends is made beforehand and what comes back is hardly looked at, so that the load costs little beside
the door. Besides rates it gives the server's CPU time for each request, which a busy machine does not change.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from headrace.testing.served import ServedBroker

VALUE = {"user": "user-7", "total": 12.5, "items": [1, 2, 3], "note": "x" * 40}


class Row(NamedTuple):
    name: str
    requests_per_s: float
    records_per_s: float
    server_us: float  # of CPU time for a request
    p50_ms: float
    p99_ms: float


def request(method: str, path: str, body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nhost: x\r\n"
    if body:
        head += f"content-type: application/json\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


async def ask(address: str, data: bytes, until: float, times: list[float]) -> None:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port), limit=1 << 24)
    while (began := time.perf_counter()) < until or not times:
        writer.write(data)
        head = await reader.readuntil(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1.1 200"):
            raise AssertionError(head)
        lower = head.lower()
        at = lower.index(b"content-length: ") + 16
        await reader.readexactly(int(lower[at : lower.index(b"\r", at)]))
        times.append(time.perf_counter() - began)
    writer.close()


async def measure(broker: ServedBroker, name: str, data: bytes, records: int, connections: int, seconds: float) -> Row:
    times: list[float] = []
    process = psutil.Process(broker.pid)
    before, began = process.cpu_times(), time.perf_counter()
    await asyncio.gather(*(ask(broker.http, data, began + seconds, times) for _ in range(connections)))
    took, after = time.perf_counter() - began, process.cpu_times()
    cpu = after.user + after.system - before.user - before.system
    times.sort()
    return Row(
        name,
        len(times) / took,
        len(times) * records / took,
        cpu / len(times) * 1e6,
        times[len(times) // 2] * 1e3,
        times[int(len(times) * 0.99)] * 1e3,
    )


async def rows(broker: ServedBroker, connections: int, seconds: float) -> list[Row]:
    one = json.dumps({"key": "k", "value": VALUE}).encode()
    many = json.dumps({"records": [{"key": f"k{n}", "value": VALUE} for n in range(100)]}).encode()
    for topic in ("ones", "many"):
        await ask(broker.http, request("POST", f"/admin/topics?name={topic}"), 0.0, [])
    load = [
        ("health", request("GET", "/healthz"), 0),
        ("publish", request("POST", "/topics/ones/publish", one), 1),
        ("publish, acks=1", request("POST", "/topics/ones/publish?acks=1", one), 1),
        ("publish 100", request("POST", "/topics/many/records", many), 100),
        ("poll 1", request("GET", "/poll?topic=ones&from_offset=0&max_records=1"), 1),
        ("poll 100", request("GET", "/poll?topic=many&from_offset=0&max_records=100"), 100),
        ("records 1000", request("GET", "/topics/many/records?from=0&limit=1000"), 1000),
        ("commit", request("POST", "/commit", b'{"topic":"ones","offset":1,"consumer_id":"c"}'), 0),
    ]
    return [await measure(broker, name, data, records, connections, seconds) for name, data, records in load]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--connections", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=2.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ServedBroker(Path(folder)) as broker:
        found = asyncio.run(rows(broker, given.connections, given.seconds))
    print(f"{'':18}{'requests/s':>12}{'records/s':>12}{'server µs':>11}{'p50 ms':>9}{'p99 ms':>9}")
    for row in found:
        print(
            f"{row.name:18}{row.requests_per_s:12,.0f}{row.records_per_s:12,.0f}{row.server_us:11,.0f}"
            f"{row.p50_ms:9.2f}{row.p99_ms:9.2f}"
        )


if __name__ == "__main__":
    main()
