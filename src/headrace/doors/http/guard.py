"""What stands around the application: a bound on the body, one answer for faults of ours, and the counting.

A fault never reaches the server below, which would write it to a log of its own.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import msgspec
from starlette.exceptions import HTTPException

from headrace.doors.http.memory import Memory
from headrace.doors.http.metrics import UNKNOWN, HttpMetrics
from headrace.doors.http.refusals import UNAVAILABLE, Refused
from headrace.doors.http.waiting import ClientLeft

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

EXCHANGE = "headrace.exchange"  # among a request's extensions: it may give its connection away
SWITCHED = 101
LEFT = 499  # counted for a client that was gone before there was an answer
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class TooLarge(HTTPException):
    def __init__(self, limit: int) -> None:
        super().__init__(413, f"a request's body has at most {limit} bytes")


class CutShort(Exception):
    """What was to be sent cannot be had any more: the end of the connection tells that the answer is not whole."""


class Guard:
    def __init__(
        self,
        app: App,
        body_bytes: int,
        bodies: Memory,
        metrics: HttpMetrics,
        monotonic: Callable[[], float],
        report: Callable[[BaseException], None],
    ) -> None:
        self._app, self._body_bytes, self._bodies, self._metrics = app, body_bytes, bodies, metrics
        self._monotonic, self._report = monotonic, report

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        began = self._monotonic()
        status = 0
        received = 0

        async def bounded() -> Message:
            nonlocal received
            message = await receive()
            size = len(message.get("body", b""))
            if size:
                if received + size > self._body_bytes:
                    raise TooLarge(self._body_bytes)
                self._bodies.take(size)
                received += size
            return message

        async def noted(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            if _claimed_bytes(scope) > self._body_bytes:
                raise TooLarge(self._body_bytes)
            await self._app(scope, bounded, noted)
        except (TooLarge, Refused) as error:
            await _answer(noted, status, error.status_code, str(error.detail))
        except ClientLeft:
            status = status or LEFT
        except CutShort as error:
            raise ConnectionAbortedError(str(error)) from error
        except Exception as error:  # noqa: BLE001  # whatever it was: the node goes on, and its log has it
            self._report(error)
            await _answer(noted, status, 500, "a fault of ours; the log of the node has it")
        finally:
            self._bodies.give_back(received)
            self._count(scope, status, began)

    def _count(self, scope: Message, status: int, began: float) -> None:
        if not status and has_switched(scope):
            status = SWITCHED
        route = getattr(scope.get("route"), "path", UNKNOWN)
        method = scope["method"] if scope["method"] in METHODS else UNKNOWN
        self._metrics.answered(method, route, status, self._monotonic() - began)


def has_switched(scope: Message) -> bool:
    exchange = scope.get("extensions", {}).get(EXCHANGE)
    return exchange is not None and exchange.has_given_way


def _claimed_bytes(scope: Message) -> int:
    return next((int(value) for name, value in scope["headers"] if name == b"content-length"), 0)


async def _answer(send: Send, begun: int, status: int, detail: str) -> None:
    """Unless an answer was begun: then the client has half of one, and the end of the connection tells it."""
    if begun:
        raise ConnectionAbortedError(detail)
    body = msgspec.json.encode({"detail": detail})
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"connection", b"close"),
    ]
    if status == UNAVAILABLE:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
