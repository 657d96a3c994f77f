"""Loads for the HTTP door: raw sockets and requests made beforehand, so that what is measured is the server.

- `publish_rate`: requests of one record, over some connections, each with a few under way.
- `deliver_rate`: one client polls them all, a thousand at a time.
- `latency`: one request at a time at a given rate; seconds from its sending to its answer.
"""

from __future__ import annotations

import socket
import threading
import time

CONNECTIONS = 4
UNDER_WAY = 16  # requests of a connection that are sent before answers are read
BATCH = 1000  # records of a request where the publisher is not what is measured
OK = b"HTTP/1.1 200"


class _Link:
    def __init__(self, address: str) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""

    def ask(self, data: bytes, answers: int = 1) -> bytes:
        """The body of the last answer."""
        self.socket.sendall(data)
        body = b""
        for _ in range(answers):
            body = self._answer()
        return body

    def _answer(self) -> bytes:
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            self._buffer += self.socket.recv(1 << 20)
        head = self._buffer[:end].lower()
        if not head.upper().startswith(OK):
            raise AssertionError(self._buffer[:1000])
        at = head.index(b"content-length: ") + 16
        size = end + 4 + int(head[at:].split(b"\r", 1)[0])
        while len(self._buffer) < size:
            self._buffer += self.socket.recv(1 << 20)
        body, self._buffer = self._buffer[end + 4 : size], self._buffer[size:]
        return body


def _post(path: str, body: bytes = b"") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def _new_topic(address: str) -> str:
    topic = f"http-{time.monotonic_ns()}"
    _Link(address).ask(_post(f"/admin/topics?name={topic}"))
    return topic


def _record(value_bytes: int) -> bytes:
    return b'{"value":"%b"}' % (b"x" * (value_bytes - 2))


def _publish(address: str, request: bytes, count: int) -> None:
    link = _Link(address)
    while count:
        together = min(UNDER_WAY, count)
        link.ask(request * together, together)
        count -= together
    link.socket.close()


def publish_rate(address: str, messages: int, value_bytes: int) -> float:
    """Seconds until all are acknowledged."""
    request = _post(f"/topics/{_new_topic(address)}/publish", _record(value_bytes))
    share, rest = divmod(messages, CONNECTIONS)
    counts = [share + (place < rest) for place in range(CONNECTIONS)]
    threads = [threading.Thread(target=_publish, args=(address, request, count)) for count in counts]
    began = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return time.perf_counter() - began


def deliver_rate(address: str, messages: int, value_bytes: int) -> float:
    """Seconds until one client has polled them all, while they are published."""
    topic = _new_topic(address)
    whole, rest = divmod(messages, BATCH)

    def publish() -> None:
        link = _Link(address)
        for count in (*[BATCH] * whole, rest):
            body = b'{"records":[%b]}' % b",".join([_record(value_bytes)] * count)
            link.ask(_post(f"/topics/{topic}/records", body))
        link.socket.close()

    began = time.perf_counter()
    publisher = threading.Thread(target=publish)
    publisher.start()
    link, at = _Link(address), 0
    while at < messages:
        path = f"/poll?topic={topic}&from_offset={at}&max_records=1000"
        body = link.ask(f"GET {path} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        place = body.rindex(b'"next_offset":') + 14
        at = int(body[place:].split(b",", 1)[0])
    took = time.perf_counter() - began
    publisher.join()
    link.socket.close()
    return took


def latency(address: str, seconds: float, per_second: int) -> list[float]:
    request = _post(f"/topics/{_new_topic(address)}/publish", _record(100))
    link, found = _Link(address), list[float]()
    link.ask(request)
    began = time.perf_counter()
    for number in range(int(seconds * per_second)):
        due = began + number / per_second
        while (now := time.perf_counter()) < due:
            time.sleep(due - now)
        link.ask(request)
        found.append(time.perf_counter() - max(due, now))
    link.socket.close()
    return found
