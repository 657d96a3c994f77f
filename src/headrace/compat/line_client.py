"""`LineClient`: the lines protocol for ordinary programs.

    with LineClient("127.0.0.1", 8888) as client:
        client.publish("chat", "Hello!")
        client.subscribe("chat", group="processors")
        for message in client:
            print(message.offset, message.text)

One connection, used by one thread. Messages that come while a reply is waited for are kept, and iterated later. The
text of a message is as it stands in its line: `headrace.wire.lines.messages.unescape` gives the value of a record that
another protocol brought, with line ends in it.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterable, Iterator
from itertools import islice
from types import TracebackType
from typing import NoReturn, Self

from headrace.compat import line_values as values
from headrace.compat.line_values import Inbox, Told
from headrace.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from headrace.wire.lines.messages import Message


class LineClient:
    def __init__(self, host: str = values.HOST, port: int = values.PORT, *, timeout: float = values.TIMEOUT_S) -> None:
        """Connects. `timeout`: for each reply, in seconds."""
        self.host, self.port, self.timeout = host, port, timeout
        self._inbox = Inbox()
        self._is_closed = False
        try:
            self._socket = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise ConnectionFailed(
                f"{host}:{port} cannot be reached: {error}; does a lines door listen there?"
            ) from error
        try:
            self._reply()
        except BaseException:
            self._socket.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            with contextlib.suppress(OSError):
                self._socket.sendall(b"QUIT\n")
            self._socket.close()

    # Requests

    def ping(self) -> None:
        self._ask(values.command("PING"))

    def publish(self, topic: str, message: str, message_id: str | None = None) -> bool:
        """When it is stored. False: the topic has stored a message of that id lately, and not this one."""
        reply, _ = self._ask(values.publish(topic, message, message_id))
        return values.is_stored(reply)

    def publish_all(self, topic: str, messages: Iterable[str]) -> int:
        """Many at once, without waiting for each; how many there were."""
        lines, count = (values.publish(topic, message, None) for message in messages), 0
        while chunk := list(islice(lines, values.PIPELINED)):
            self._send(b"".join(chunk))
            for reply, _ in [self._reply() for _ in chunk]:
                values.accepted(reply)
            count += len(chunk)
        return count

    def subscribe(self, topic: str, group: str | None = None, *, acknowledge: bool = False) -> str:
        """`group`: each message goes to one of its members. `acknowledge`: until one of them has acknowledged it.
        What the server said to it."""
        return self._ask(values.subscribe(topic, group, acknowledge))[0].text

    def acknowledge(self, message: Message | str) -> None:
        """By the message, or by its id."""
        self._ask(values.command("ACK", message if isinstance(message, str) else message.id))

    def history(self, topic: str, count: int = 10) -> list[Message]:
        """The last `count`, oldest first; 0: all; less than 0: all but so many of the first."""
        return self._ask(values.command("HISTORY", topic, count))[1]

    def range(self, topic: str, first: int, last: int, limit: int | None = None) -> list[Message]:
        """By offsets, both included."""
        return self._ask(values.command("RANGE", topic, first, last, limit))[1]

    def since(self, topic: str, time: float | str, limit: int | None = None) -> list[Message]:
        """From the first message at that time on: seconds since 1970, or ISO 8601."""
        return self._ask(values.command("SINCE", topic, time, limit))[1]

    # Messages

    def receive(self, timeout: float | None = None) -> Message | None:
        """The next one; None: none came in time."""
        until = None if timeout is None else time.monotonic() + timeout
        while not self._inbox.messages:
            if not self._read(until):
                return None
        return self._inbox.messages.popleft()

    def __iter__(self) -> Iterator[Message]:
        """Until the server closes."""
        with contextlib.suppress(ClientClosed, ConnectionFailed):
            while True:
                found = self.receive()
                assert found is not None
                yield found

    # Inside

    def _ask(self, line: bytes) -> Told:
        self._send(line)
        told = self._reply()
        values.accepted(told[0])
        return told

    def _send(self, data: bytes) -> None:
        if self._is_closed:
            raise ClientClosed("this client is closed")
        try:
            self._socket.settimeout(self.timeout)
            self._socket.sendall(data)
        except OSError as error:
            self._lost(error)

    def _reply(self) -> Told:
        until = time.monotonic() + self.timeout
        while not self._inbox.replies:
            if not self._read(until):
                self.close()  # which reply comes next is not known any more
                raise RequestTimedOut(f"no reply within {self.timeout} s; whether it was done is not known")
        return self._inbox.replies.popleft()

    def _read(self, until: float | None) -> bool:
        """False: nothing came in time."""
        if self._is_closed:
            raise ClientClosed("this client is closed")
        try:
            self._socket.settimeout(None if until is None else max(0.001, until - time.monotonic()))
            data = self._socket.recv(values.READ_BYTES)
        except TimeoutError:
            return False
        except OSError as error:
            self._lost(error)
        if not data:
            self._lost(None)
        self._inbox.take(data)
        return True

    def _lost(self, error: OSError | None) -> NoReturn:
        self._is_closed = True
        self._socket.close()
        why = f": {error}" if error is not None else ""
        raise ConnectionFailed(f"{self.host}:{self.port} closed the connection{why}") from error
