"""HTTP/1.1 by uvicorn, on a connection of ours. Imported when the first client comes.

uvicorn's own server is not used: the listener, the signals, the logs and the stop are the node's.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import h11
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from headrace.doors.http.app import new_app
from headrace.doors.http.guard import Guard
from headrace.doors.http.limits import HttpLimits
from headrace.doors.http.metrics import HttpMetrics
from headrace.doors.http.watch import Watch

QUIET = logging.Logger("headrace.http", logging.CRITICAL)  # not one of the process's loggers: what matters is an event


class State(ServerState):
    """What connections share. The date is asked for with each request."""

    @property
    def default_headers(self) -> list[tuple[bytes, bytes]]:
        return [(b"date", formatdate(usegmt=True).encode())]

    @default_headers.setter
    def default_headers(self, _: list[tuple[bytes, bytes]]) -> None:
        """The parent sets none at its start."""


class Exchange(H11Protocol):
    """One connection's requests and answers."""

    def __init__(
        self, config: Config, state: State, loop: asyncio.AbstractEventLoop, on_turn: Callable[[], None]
    ) -> None:
        super().__init__(config, state, {}, loop)
        self.logger, self.access_log = QUIET, False
        self._on_turn = on_turn

    @property
    def is_clients_turn(self) -> bool:
        """A request is to come, or the rest of one."""
        return self.conn.their_state in (h11.IDLE, h11.SEND_BODY)

    @property
    def is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def on_response_complete(self) -> None:
        self._on_turn()
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """As all errors: JSON. When an answer is under way already, there is no place for it."""
        if self.conn.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            self.transport.abort()
            return
        body = json.dumps({"detail": msg}, separators=(",", ":")).encode()
        headers = [("content-type", "application/json"), ("content-length", str(len(body))), ("connection", "close")]
        for event in (
            h11.Response(status_code=400, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()


class Exchanges:
    """The application, and what its connections share."""

    def __init__(
        self,
        watch: Watch,
        limits: HttpLimits,
        metrics: HttpMetrics,
        monotonic: Callable[[], float],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._loop = loop
        app: Any = Guard(new_app(watch), limits.body_bytes, metrics, monotonic, self._report)
        self._config = Config(
            app,
            http="h11",
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=int(limits.turn_s),
            h11_max_incomplete_event_size=limits.header_bytes,
        )
        self._config.load()
        self.state = State()

    def new(self, on_turn: Callable[[], None]) -> Exchange:
        return Exchange(self._config, self.state, self._loop, on_turn)

    def _report(self, error: BaseException) -> None:
        self._loop.call_exception_handler({"message": "an HTTP request failed", "exception": error})
