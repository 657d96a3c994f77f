"""One message and its answer at a time, a thousand a second, over a plain socket: how soon is it done?

Beside NATS core, whose messages have no acknowledgement, done is when the message has come back to its publisher, who
subscribed to it; at our Kafka door, when a record is acknowledged (acks=1: it is in the file).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable

from bench import raw

INTERVAL_S = 0.001
WARM = 500
VALUE = b"x" * 100
PING = b"PING\r\n"


def _turns(ask: Callable[[], None], seconds: float) -> list[float]:
    """Sorted; on schedule even after a turn that took long, which is counted in full."""
    for _ in range(WARM):
        ask()
    found = []
    began = time.perf_counter()
    for number in range(int(seconds / INTERVAL_S)):
        due = began + number * INTERVAL_S
        while (now := time.perf_counter()) < due:
            time.sleep(due - now)
        ask()
        found.append(time.perf_counter() - due)
    return sorted(found)


def produced(address: str, topic: str, seconds: float) -> list[float]:
    if not raw.first_ack(address, topic):
        raise ConnectionError("the broker does not keep a record")
    request = raw.produce_request(topic, 0, raw.batch(1, VALUE))
    with raw.connect(address) as connection:

        def ask() -> None:
            connection.sendall(request)
            if raw.produce_error(raw.receive_answer(connection)):
                raise ConnectionError("the broker refused a record")

        return _turns(ask, seconds)


def published(address: str, seconds: float) -> list[float]:
    """Of NATS."""
    message = b"PUB t %d\r\n%b\r\n" % (len(VALUE), VALUE)
    delivery = b"MSG t 1 %d\r\n%b\r\n" % (len(VALUE), VALUE)
    with raw.connect(address) as connection:
        _greet(connection)

        def ask() -> None:
            connection.sendall(message)
            while (head := raw.receive_exactly(connection, len(PING))) == PING:  # it looks whether we are there
                connection.sendall(b"PONG\r\n")
            if head + raw.receive_exactly(connection, len(delivery) - len(head)) != delivery:
                raise ConnectionError("something else came than what was published")

        return _turns(ask, seconds)


def _greet(connection: socket.socket) -> None:
    greeting = b""
    while not greeting.endswith(b"\r\n"):
        greeting += connection.recv(raw.RECEIVE_BYTES)
    connection.sendall(b'CONNECT {"verbose": false, "pedantic": false}\r\nSUB t 1\r\nPING\r\n')
    answer = b""
    while not answer.endswith(b"PONG\r\n"):
        answer += connection.recv(raw.RECEIVE_BYTES)
