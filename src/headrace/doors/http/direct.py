"""The direct way for the routes that are asked most: publish, publish many, poll, commit, and whether the node is well.

FastAPI spends more on a request than the broker does. A request of the plain kind (JSON of the right shape, numbers as
digits) goes straight to what does the work; any other goes to FastAPI's route of the same path, which says what is
wrong in its own words, or takes it. So there is one description of each route, and one that does the work.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from starlette.exceptions import HTTPException

from headrace.doors.http import publishing
from headrace.doors.http.answers import Json
from headrace.doors.http.guard import App, Message, Receive, Send
from headrace.doors.http.polling import Consumer, Poll, Positions
from headrace.doors.http.refusals import UNAVAILABLE, refused
from headrace.doors.http.services import Services
from headrace.doors.http.waiting import Client, ClientLeft
from headrace.errors import HeadraceError

MAX_PARAMETERS = 20
QUEUES = "/queues/"
FORM = b"application/x-www-form-urlencoded"
_NOT_PLAIN = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_NUMBER = re.compile(r"-?[0-9]{1,18}", re.ASCII)
_JSON = re.compile(rb"application/json\s*(;.*)?", re.IGNORECASE)


class NotPlain(Exception):
    """FastAPI's to judge."""


class Route(NamedTuple):
    """What is counted: as FastAPI's route of the same path."""

    path: str


class Plain(NamedTuple):
    """A request of the plain kind."""

    topic: str
    parameters: dict[str, str]
    body: bytes
    receive: Receive

    def text(self, name: str) -> str | None:
        return self.parameters.get(name)

    def number(self, name: str, low: int | None = None, high: int | None = None) -> int | None:
        text = self.parameters.get(name)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            raise NotPlain
        number = int(text)
        if (low is not None and number < low) or (high is not None and number > high):
            raise NotPlain
        return number

    @property
    def acks(self) -> str | None:
        acks = self.parameters.get("acks")
        if acks is not None and not publishing.ACKS.fullmatch(acks):
            raise NotPlain
        return acks


Handler = Callable[[Plain], Awaitable[Json]]


class _Commit(msgspec.Struct):
    topic: str
    offset: int
    consumer_id: str | None = None
    group_id: str | None = None
    partition: publishing.Index | None = None


class Direct:
    def __init__(self, app: App, services: Services, positions: Positions) -> None:
        self._app, self._services, self._positions = app, services, positions
        self._commits = msgspec.json.Decoder(_Commit)
        self._fixed: dict[tuple[str, str], tuple[Handler, Route]] = {
            ("GET", "/poll"): (self._poll, Route("/poll")),
            ("POST", "/commit"): (self._commit, Route("/commit")),
            ("GET", "/healthz"): (self._healthz, Route("/healthz")),
            ("GET", "/readyz"): (self._readyz, Route("/readyz")),
        }
        self._of_topics: dict[str, tuple[Handler, Route]] = {
            "publish": (self._publish, Route("/topics/{topic:path}/publish")),
            "records": (self._publish_many, Route("/topics/{topic:path}/records")),
        }

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        found, topic = self._find(scope["method"], scope["path"])
        if scope["method"] == "POST":
            _take_forms_for_json(scope["headers"])
        if found is None:
            if scope["path"].startswith(QUEUES):
                scope["path"] = scope["raw_path"].decode("ascii")  # its parts are told apart before they are decoded
            await self._app(scope, receive, send)
            return
        handle, scope["route"] = found
        body = await _body(receive) if scope["method"] == "POST" else b""
        try:
            if body and not _is_json(scope["headers"]):
                raise NotPlain
            answer = await handle(Plain(topic, _parameters(scope["query_string"]), body, receive))
        except (NotPlain, *_NOT_PLAIN):
            await self._app(scope, _again(body, receive), send)
            return
        except HTTPException as error:
            answer = Json({"detail": error.detail}, error.status_code, dict(error.headers or {}))
        except HeadraceError as error:
            refusal = refused(error)
            answer = Json({"detail": refusal.detail}, refusal.status_code, dict(refusal.headers or {}))
        await answer(scope, receive, send)

    def _find(self, method: str, path: str) -> tuple[tuple[Handler, Route] | None, str]:
        if method == "POST" and path.startswith("/topics/"):
            topic, _, last = path[8:].rpartition("/")
            return (self._of_topics.get(last) if topic else None), topic
        return self._fixed.get((method, path)), ""

    # The routes

    async def _publish(self, plain: Plain) -> Json:
        one = publishing.one_decoder.decode(plain.body)
        return await publishing.publish(self._services, plain.topic, one, plain.number("partition", 0), plain.acks)

    async def _publish_many(self, plain: Plain) -> Json:
        many = publishing.many_decoder.decode(plain.body).records
        return await publishing.publish_many(
            self._services, plain.topic, many, plain.number("partition", 0), plain.acks
        )

    async def _poll(self, plain: Plain) -> Json:
        topic = plain.text("topic")
        if topic is None:
            raise NotPlain
        consumer = Consumer(topic, plain.text("consumer_id"), plain.text("group_id"), plain.number("partition", 0))
        plain.number("prefer_replica")
        max_records = plain.number("max_records", 1, 1000)
        timeout_ms = plain.number("timeout_ms", 0, 60_000)
        poll = Poll(
            consumer,
            plain.number("from_offset"),
            100 if max_records is None else max_records,
            15_000 if timeout_ms is None else timeout_ms,
        )
        return await self._positions.poll(poll, Client(plain.receive))

    async def _healthz(self, _: Plain) -> Json:
        return Json(self._services.watch.health())

    async def _readyz(self, _: Plain) -> Json:
        readiness = await self._services.watch.readiness()
        return Json(readiness, 200 if readiness.ready else UNAVAILABLE)

    async def _commit(self, plain: Plain) -> Json:
        commit = self._commits.decode(plain.body)
        consumer = Consumer(commit.topic, commit.consumer_id, commit.group_id, commit.partition)
        return await self._positions.commit(consumer, commit.offset)


def _take_forms_for_json(headers: list[tuple[bytes, bytes]]) -> None:
    """There is no form here. `curl -d` says that it sends one, and means JSON."""
    for place, (name, value) in enumerate(headers):
        if name == b"content-type" and value.lower().startswith(FORM):
            headers[place] = name, b"application/json"


def _is_json(headers: list[tuple[bytes, bytes]]) -> bool:
    """Who does not say what it is means JSON."""
    return all(_JSON.fullmatch(value) for name, value in headers if name == b"content-type")


def _parameters(query: bytes) -> dict[str, str]:
    if not query:
        return {}
    try:
        return dict(parse_qsl(query.decode("latin-1"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS))
    except ValueError as error:
        raise NotPlain from error


async def _body(receive: Receive) -> bytes:
    pieces = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientLeft  # half a body is none
        pieces.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """The body once more, and then what comes after it."""
    whole: list[Any] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return whole.pop() if whole else await receive()

    return replayed
