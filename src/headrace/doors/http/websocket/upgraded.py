"""The answer that switches a connection from HTTP to a WebSocket, and is over when that is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.doors.http.following import Following
from headrace.doors.http.guard import EXCHANGE
from headrace.doors.http.websocket.handshake import NotAsked
from headrace.doors.http.websocket.websocket import WebSocket

if TYPE_CHECKING:
    from headrace.doors.http.protocol import Exchange


class Upgraded(Response):
    def __init__(self, head: bytes, websocket: WebSocket, following: Following) -> None:
        self._head, self._websocket, self._following = head, websocket, following
        self.status_code, self.background = 101, None
        self.init_headers()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange: Exchange | None = scope.get("extensions", {}).get(EXCHANGE)
        if exchange is None or not exchange.may_give_way:
            raise NotAsked
        exchange.give_way(self._head, self._websocket)
        await self._websocket.run(self._following)
