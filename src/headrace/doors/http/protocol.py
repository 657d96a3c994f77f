"""HTTP/1.1 by uvicorn, on a connection of ours. Imported when the first client comes.

uvicorn's own server is not used: the listener, the signals, the logs and the stop are the node's.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, cast

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headrace.doors.http.app import new_app
from headrace.doors.http.connection import Speaking
from headrace.doors.http.guard import EXCHANGE, Guard
from headrace.doors.http.metrics import HttpMetrics
from headrace.doors.http.services import Services
from headrace.doors.http.waiting import ClientLeft
from headrace.ports import Background

if TYPE_CHECKING:
    from headrace.doors.http.websocket.websocket import WebSocket

QUIET = logging.Logger("headrace.http", logging.CRITICAL)  # not one of the process's loggers: what matters is an event


class State(ServerState):
    """What connections share. The date is asked for with each request, and made once a second."""

    _second = -1
    _date: list[tuple[bytes, bytes]]

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        now = int(time.time())
        if now != self._second:
            self._second, self._date = now, [(b"date", formatdate(now, usegmt=True).encode())]
        return self._date

    @default_headers.setter
    def default_headers(self, _: list[tuple[bytes, bytes]]) -> None:
        """The parent sets none at its start."""


class Exchange(HttpToolsProtocol):
    """One connection's requests and answers. Those that came together are answered one after the other.

    A request for an upgrade holds back what comes after it until it is answered: it may be for the protocol that is
    spoken then. An upgrade to what we do not speak, or with a body, is answered as if it had not been asked for. The
    parser takes such a request to end with its head: a new one goes on with the body, and with what comes after it.
    """

    def __init__(
        self,
        config: Config,
        state: State,
        loop: asyncio.AbstractEventLoop,
        header_bytes: int,
        on_upgrade: Callable[[Speaking], None],
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.logger, self.access_log = QUIET, False
        self._header_bytes, self._on_upgrade = header_bytes, on_upgrade
        self._unread_head: int | None = None  # bytes of a request's head that is not whole yet
        self._barren_bytes, self._has_body_come = 0, False  # that came where a body is due, and were none of it
        self._body_head = b""  # of a request with an upgrade and a body: for a parser that is to read the body
        self._answering: RequestResponseCycle | None = None
        self._upgrading: RequestResponseCycle | None = None
        self._after_upgrade = b""  # what came after it
        self._since = loop.time()  # when it became the client's turn
        self.has_given_way = False

    @property
    def clients_turn_since(self) -> float | None:
        """A request is to come, or the rest of one."""
        under_way = self._answering
        if under_way is None or under_way.response_complete or (under_way is self.cycle and under_way.more_body):
            return self._since
        return None

    @property
    def is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        rest = memoryview(data)
        while rest and not self.transport.is_closing():
            if self._upgrading is not None:
                self._after_upgrade += bytes(rest)
                self.flow.pause_reading()
                return
            rest = self._read(rest)

    def _read(self, data: memoryview) -> memoryview:
        """What comes after a request with an upgrade is not read yet."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade_asked()
            return data[upgrade.args[0] :]
        except httptools.HttpParserError:
            self.send_400_response("this is no HTTP request")
            return data[:0]
        if self._unread_head is not None:
            self._unread_head += len(data)
            if self._unread_head > self._header_bytes and not self.transport.is_closing():
                self.send_400_response(f"the head of a request has at most {self._header_bytes} bytes")
        elif self.cycle is not None and self.cycle.more_body:
            self._count_barren(len(data))
        return data[:0]

    def _count_barren(self, size: int) -> None:
        """Chunks may have extensions, and trailers after them: of both the parser gathers what comes, without end."""
        self._barren_bytes = 0 if self._has_body_come else self._barren_bytes + size
        self._has_body_come = False
        if self._barren_bytes > self._header_bytes and not self.transport.is_closing():
            self.send_400_response(f"between the parts of a body are at most {self._header_bytes} bytes")

    # Upgrades

    def _upgrade_asked(self) -> None:
        if self._body_head:
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the one before
            self._read(memoryview(self._body_head))
        elif self._get_upgrade() == b"websocket":
            self._upgrading = self.cycle

    @property
    def may_give_way(self) -> bool:
        """What is being answered asks for it, and what came after it was not read as HTTP."""
        return self._upgrading is not None and self._upgrading is self._answering

    def give_way(self, head: bytes, speaking: WebSocket) -> None:
        """The answer to the request that is being answered: from now on the connection is the other's."""
        cycle = self._answering
        if self.transport.is_closing() or cycle is None:
            raise ClientLeft
        self.has_given_way = True
        cycle.response_started = cycle.response_complete = cycle.disconnected = True  # for the server below
        self.connections.discard(self)
        self.transport.write(head)
        speaking.begin(self.transport, self.flow.write_paused)
        self._on_upgrade(speaking)
        self.flow.resume_reading()
        rest, self._after_upgrade = self._after_upgrade, b""
        self.parser = None  # type: ignore[assignment]  # as after the connection's end
        if rest:
            speaking.data_received(rest)

    # What the parser tells

    def on_message_begin(self) -> None:
        self._unread_head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._unread_head = None
        if self._body_head:  # whose request is known
            self._body_head = b""
            return
        if self.parser.should_upgrade():
            self.scope["extensions"] = cast(Any, {EXCHANGE: self})
        super().on_headers_complete()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._unread_head is not None:  # else it is a trailer, which nobody asks for
            super().on_header(name, value)

    def on_body(self, body: bytes) -> None:
        self._has_body_come = True
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self.parser.should_upgrade():
            self._body_head = _body_head(self.headers)
        if not self._body_head:
            super().on_message_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._since = self.loop.time()
        is_upgrade_refused = self.may_give_way
        super().on_response_complete()
        if is_upgrade_refused:
            self._upgrading = None
            rest, self._after_upgrade = self._after_upgrade, b""
            if rest:
                self.data_received(rest)

    def connection_lost(self, exc: Exception | None) -> None:
        self.pipeline.clear()
        if self._answering is not None and not self._answering.response_complete:  # which may not be the last to come
            self._answering.disconnected = True
            self._answering.message_event.set()
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:
        """As all errors: JSON. When an answer is under way already, there is no place for it."""
        if self.is_answering:
            self.transport.abort()
            return
        body = json.dumps({"detail": msg}, separators=(",", ":")).encode()
        head = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: %d\r\n"
        self.transport.write(head % len(body) + b"connection: close\r\n\r\n" + body)
        self.transport.close()


def _body_head(headers: list[tuple[bytes, bytes]]) -> bytes:
    """A head that says how long the body is as these say it; nothing: there is none."""
    framing = [(name, value) for name, value in headers if name in (b"content-length", b"transfer-encoding")]
    if all(name == b"content-length" and not int(value) for name, value in framing):
        return b""
    return b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(b"%b: %b\r\n" % one for one in framing)


class Exchanges:
    """The application, and what its connections share."""

    def __init__(
        self,
        services: Services,
        background: Background,
        metrics: HttpMetrics,
        monotonic: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._loop, self.services, limits = loop, services, services.limits
        self._header_bytes = limits.header_bytes
        app: Any = Guard(
            new_app(services, background), limits.body_bytes, services.bodies, metrics, monotonic, self._report
        )
        self._config = Config(
            app,
            http="httptools",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=int(limits.turn_s),
        )
        self._config.load()
        self.state = State()

    def new(self, on_upgrade: Callable[[Speaking], None]) -> Exchange:
        return Exchange(self._config, self.state, self._loop, self._header_bytes, on_upgrade)

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": "an HTTP request failed", "exception": error})
