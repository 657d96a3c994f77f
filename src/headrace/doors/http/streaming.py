"""Answers without a known end: they leave piece by piece, each when the client took the one before, and end when the
client does. A large piece leaves in slices, so that little of it is in the connection's buffer besides."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.doors.http.answers import SLICE_BYTES
from headrace.doors.http.guard import CutShort
from headrace.doors.http.refusals import Refused
from headrace.doors.http.waiting import Client, ClientLeft
from headrace.errors import HeadraceError

Pieces = Callable[[Client], AsyncGenerator[bytes, None]]


class Streamed(Response):
    def __init__(self, pieces: Pieces, media_type: str, headers: dict[str, str] | None = None) -> None:
        self._pieces = pieces
        self.status_code, self.media_type, self.background = 200, media_type, None
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        with Client(receive) as client:
            left = client.listen()
            try:
                async with aclosing(self._pieces(client)) as pieces:
                    async for piece in pieces:
                        for start in range(0, len(piece), SLICE_BYTES):
                            if left.done():
                                return
                            body = piece[start : start + SLICE_BYTES]
                            await send({"type": "http.response.body", "body": body, "more_body": True})
            except ClientLeft:
                return
            except (HeadraceError, Refused) as error:  # the client must not take what it has for the whole
                raise CutShort(str(error)) from error
        await send({"type": "http.response.body", "body": b""})
