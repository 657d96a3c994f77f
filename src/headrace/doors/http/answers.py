"""Answers in JSON that are made by hand: no model is built for what is a few fields or a thousand records.

A large one leaves in slices, each when the client took the one before, so that what is held for it is known until
it is gone.
"""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from headrace.doors.http.memory import Memory

SLICE_BYTES = 64 << 10
encode = msgspec.json.Encoder().encode


class Json(Response):
    media_type = "application/json"

    def __init__(self, content: Any, status_code: int = 200, headers: dict[str, str] | None = None) -> None:
        super().__init__(encode(content), status_code, headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        body = bytes(self.body)
        if scope["method"] == "HEAD":
            body = b""
        for start in range(0, len(body) - SLICE_BYTES, SLICE_BYTES):
            await send({"type": "http.response.body", "body": body[start : start + SLICE_BYTES], "more_body": True})
        last = (len(body) - 1) // SLICE_BYTES * SLICE_BYTES if len(body) > SLICE_BYTES else 0
        await send({"type": "http.response.body", "body": body[last:] if last else body})


class Held(Json):
    """An answer that holds memory of the door until it has left."""

    def __init__(self, content: Any, memory: Memory, held: int) -> None:
        super().__init__(content)
        self._memory, self._held = memory, max(held, len(self.body))
        memory.used += self._held - held  # it is there already

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._memory.give_back(self._held)
