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
from typing import Any

import httptools
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

from headrace.doors.http.app import new_app
from headrace.doors.http.guard import Guard
from headrace.doors.http.metrics import HttpMetrics
from headrace.doors.http.services import Services
from headrace.ports import Background

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
    """One connection's requests and answers. Those that came together are answered one after the other."""

    def __init__(
        self,
        config: Config,
        state: State,
        loop: asyncio.AbstractEventLoop,
        header_bytes: int,
        on_turn: Callable[[], None],
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.logger, self.access_log = QUIET, False
        self._header_bytes, self._on_turn = header_bytes, on_turn
        self._unread_head: int | None = None  # bytes of a request's head that is not whole yet
        self._answering: RequestResponseCycle | None = None

    @property
    def is_clients_turn(self) -> bool:
        """A request is to come, or the rest of one."""
        under_way = self._answering
        return under_way is None or under_way.response_complete or (under_way is self.cycle and under_way.more_body)

    @property
    def is_answering(self) -> bool:
        return self._answering is not None and not self._answering.response_complete

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass  # to nothing that we speak: it is answered as if it had not been asked for
        except httptools.HttpParserError:
            self.send_400_response("this is no HTTP request")
            return
        if self._unread_head is not None:
            self._unread_head += len(data)
            if self._unread_head > self._header_bytes and not self.transport.is_closing():
                self.send_400_response(f"the head of a request has at most {self._header_bytes} bytes")

    def on_message_begin(self) -> None:
        self._unread_head = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._unread_head = None
        super().on_headers_complete()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._answering = cycle
        super()._start_asgi_task(cycle, app)

    def on_response_complete(self) -> None:
        self._on_turn()
        super().on_response_complete()

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

    def new(self, on_turn: Callable[[], None]) -> Exchange:
        return Exchange(self._config, self.state, self._loop, self._header_bytes, on_turn)

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": "an HTTP request failed", "exception": error})
