"""Connections of the HTTP client: kept for the next request, with failover over several addresses.

It stays with the address that answered last. A connection that the broker closed meanwhile is noticed before it is
used again, so that a request is not lost to it. Closing ends what is under way, too: a thread that waits for a long
poll is not left behind.
"""

from __future__ import annotations

import http.client
import select
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from headrace.compat.http_values import (
    ELSEWHERE,
    MAX_BODY_BYTES,
    NOT_LEADER,
    PAUSE_S,
    ROUNDS,
    AnswerTooLarge,
    HttpRefused,
    Json,
    PublishUncertain,
    Request,
    answer,
)
from headrace.errors import ClientClosed, ConnectionFailed

KEPT = 8  # idle connections: as many threads share a client without connecting anew

Address = tuple[str, int]
_BROKEN = (OSError, http.client.HTTPException)


class _Idle(NamedTuple):
    address: Address
    connection: http.client.HTTPConnection


class Links:
    """May be used by several threads."""

    def __init__(self, addresses: Sequence[Address], timeout_s: float) -> None:
        self._addresses, self._timeout_s = list(addresses), timeout_s
        self._at = 0  # the address that answered last
        self._idle: list[_Idle] = []
        self._busy: set[socket.socket] = set()  # of requests that are under way
        self._lock = threading.Lock()
        self._is_closed = False

    @property
    def address(self) -> str:
        host, port = self._addresses[self._at]
        return f"{host}:{port}"

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
            idle, self._idle = self._idle, []
            for busy in self._busy:  # whoever waits there sees the end, and closes it
                with suppress(OSError):
                    busy.shutdown(socket.SHUT_RDWR)
        for one in idle:
            one.connection.close()

    def check_open(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client was closed")

    def ask(self, request: Request) -> Json:
        """What the broker answers. Refusals are HttpRefused; ConnectionFailed when no address answers."""
        why = "none was tried"
        for turn in range(ROUNDS * len(self._addresses)):
            if turn and turn % len(self._addresses) == 0:
                time.sleep(PAUSE_S * 2 ** (turn // len(self._addresses) - 1))
            place = self._at
            try:
                return self._ask_one(place, request)
            except HttpRefused as error:
                is_last = turn + 1 == ROUNDS * len(self._addresses)
                goes_on = error.error == NOT_LEADER or (error.status in ELSEWHERE and request.is_repeatable)
                if is_last or not goes_on or len(self._addresses) == 1:
                    raise
                why = str(error)
            except PublishUncertain:
                self._move_on(place)
                raise
            except ConnectionFailed as error:
                why = str(error)
            self._move_on(place)
        raise ConnectionFailed(f"no broker answered: {why}; check that it runs and that its http door is there")

    @contextmanager
    def open(self, request: Request) -> Iterator[http.client.HTTPResponse]:
        """An answer that goes on and on, on a connection of its own."""
        connection, busy, response = self._begun(request)
        try:
            with response:
                if response.status != http.client.OK:
                    answer(response.status, response.read(MAX_BODY_BYTES))
                yield response
        finally:
            self._done(busy)
            connection.close()

    # Inside

    def _begun(self, request: Request) -> tuple[http.client.HTTPConnection, socket.socket, http.client.HTTPResponse]:
        why = ""
        for _ in range(len(self._addresses)):
            place, busy = self._at, None
            connection = self._connection(self._addresses[place], request)
            try:
                busy = self._connected(connection)
                connection.request(request.method, request.path, request.body, request.headers)
                return connection, busy, connection.getresponse()
            except _BROKEN as error:
                self._done(busy)
                connection.close()
                self.check_open()
                why = str(error)
                self._move_on(place)
        raise ConnectionFailed(f"no broker answered: {why}; check that it runs and that its http door is there")

    def _ask_one(self, place: int, request: Request) -> Json:
        address = self._addresses[place]
        connection = self._taken(address) or self._connection(address, request)
        is_sent, busy = False, None
        try:
            busy = self._connected(connection)
            busy.settimeout(self._timeout_s + request.wait_s)
            is_sent = True
            connection.request(request.method, request.path, request.body, request.headers)
            response = connection.getresponse()
            is_over = (response.length or 0) > MAX_BODY_BYTES  # None: it does not say
            content = b"" if is_over else response.read(MAX_BODY_BYTES + 1)
        except _BROKEN as error:
            connection.close()
            if not is_sent or request.is_repeatable:
                self.check_open()
            where = f"{address[0]}:{address[1]}"
            words = f"{where}: {error or type(error).__name__}"
            if is_sent and not request.is_repeatable:
                raise PublishUncertain(f"{words}; whether the record is there is not known") from error
            raise ConnectionFailed(words) from error
        finally:
            self._done(busy)
        if is_over or len(content) > MAX_BODY_BYTES:
            connection.close()
            raise AnswerTooLarge(
                f"the answer has more than {MAX_BODY_BYTES >> 20} MiB, which is all that this client takes: "
                "ask for less, as with limit or max_records"
            )
        self._keep(address, connection)
        return answer(response.status, content)

    def _connection(self, address: Address, request: Request) -> http.client.HTTPConnection:
        return http.client.HTTPConnection(*address, timeout=self._timeout_s + request.wait_s)

    def _connected(self, connection: http.client.HTTPConnection) -> socket.socket:
        """Its socket, which `close` ends from now on."""
        if connection.sock is None:
            connection.connect()
        found: socket.socket = connection.sock
        with self._lock:
            if not self._is_closed:
                self._busy.add(found)
                return found
        connection.close()
        raise ClientClosed("the client was closed")

    def _done(self, busy: socket.socket | None) -> None:
        with self._lock:
            if busy is not None:
                self._busy.discard(busy)

    def _taken(self, address: Address) -> http.client.HTTPConnection | None:
        while True:
            with self._lock:
                if self._is_closed:
                    raise ClientClosed("the client was closed")
                places = [place for place, one in enumerate(self._idle) if one.address == address]
                if not places:
                    return None
                connection = self._idle.pop(places[-1]).connection
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()  # the broker did, or says what nobody asked

    def _keep(self, address: Address, connection: http.client.HTTPConnection) -> None:
        if connection.sock is None:
            return
        with self._lock:
            if not self._is_closed and len(self._idle) < KEPT:
                self._idle.append(_Idle(address, connection))
                return
        connection.close()

    def _move_on(self, place: int) -> None:
        with self._lock:
            if self._at == place:  # unless another thread did
                self._at = (place + 1) % len(self._addresses)
