"""What the HTTP clients share: values, errors, and requests as they are sent.

Whether a request may be sent again decides what it does. Asking, committing a position and administration come to the
same when they are done twice. Publishing does not: once it was sent, only its answer tells whether the record is
there, so a publish that got none is `PublishUncertain` unless the record has an id and the caller says that the topic
knows repeated ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from headrace.errors import ClientError, ConnectionFailed
from headrace.records.ids import ID, derived_id

HOST, PORT = "127.0.0.1", 8081
TIMEOUT_S = 10.0
POLL_MS = 15_000
ROUNDS = 3  # over all addresses, before a request is given up
PAUSE_S = 0.2  # before the second round; it doubles
MAX_BODY_BYTES = 64 << 20  # of an answer
ELSEWHERE = frozenset((502, 503, 504))  # another node may do better
NOT_LEADER = "NOT_LEADER"

Json = Any
"""What JSON can say."""


class HttpRefused(ClientError):
    """The broker said no: its status, and its words or, for programs, what it told with an `error`."""

    def __init__(self, status: int, detail: Json) -> None:
        super().__init__(f"{detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()} ({status})")
        self.status, self.detail = status, detail

    @property
    def error(self) -> str | None:
        """`TOPIC_EXISTS`, `NOT_LEADER`; None where there are only words."""
        return self.detail.get("error") if isinstance(self.detail, dict) else None


class AnswerTooLarge(ClientError):
    """The broker's answer is larger than this client takes. Asking again would bring the same."""


class PublishUncertain(ConnectionFailed):
    """The connection ended after a record was sent and before its answer came: it may be there, or not."""


class Published(NamedTuple):
    topic: str
    offset: int
    isr: list[int]
    partition: int = 0
    duplicate: bool = False


class HttpRecord(NamedTuple):
    """As the broker shows it: `value` is JSON, or text, or `{"base64": …}`."""

    topic: str
    partition: int
    offset: int
    ts_ms: int
    key: Json
    value: Json
    headers: dict[str, Json]
    id: str | None = None
    """None: a poll tells of no ids, and its header `id` is more than a text."""


class Polled(NamedTuple):
    records: list[HttpRecord]
    next_offset: int
    committed: int
    replica_id: int
    partition: int


class Result(NamedTuple):
    """Of one record of many: where it is, or why not."""

    partition: int | None
    offset: int | None
    duplicate: bool = False
    status: int | None = None
    detail: str | None = None

    @property
    def ok(self) -> bool:
        return self.status is None


class Request(NamedTuple):
    method: str
    path: str
    body: bytes | None = None
    is_repeatable: bool = True
    wait_s: float = 0.0  # what the broker may take on purpose
    accept: str = "application/json"
    more_headers: tuple[tuple[str, str], ...] = ()

    @property
    def headers(self) -> dict[str, str]:
        headers = {"accept": self.accept, **dict(self.more_headers)}
        if self.body is not None:
            headers["content-type"] = "application/json"
        return headers


def addresses_of(given: str | Sequence[str]) -> list[tuple[str, int]]:
    """`HOST:PORT`, `http://HOST:PORT`, several of them, or one text with commas."""
    texts = given.split(",") if isinstance(given, str) else list(given)
    found = []
    for text in texts:
        parts = urlsplit(text.strip() if "//" in text else f"//{text.strip()}")
        try:
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise ClientError(f"{text!r} is no address: HOST:PORT, or http://HOST:PORT ({error})") from error
        if not host or parts.scheme not in ("", "http"):
            raise ClientError(f"{text!r} is no address: HOST:PORT, or http://HOST:PORT")
        found.append((host, PORT if port is None else port))
    return found


def path(*parts: str, **parameters: object) -> str:
    """With names as they are, and without parameters that are None."""
    asked = {name.rstrip("_"): value for name, value in parameters.items() if value is not None}
    return "/" + "/".join(quote(part, safe="") for part in parts) + ("?" + urlencode(asked) if asked else "")


def body(**fields: object) -> bytes:
    """Without fields that are None."""
    return msgspec.json.encode({name: value for name, value in fields.items() if value is not None})


def answer(status: int, content: bytes) -> Json:
    """What an answer says; HttpRefused when it says no."""
    try:
        told = msgspec.json.decode(content) if content else None
    except (msgspec.DecodeError, UnicodeDecodeError):
        told = content[:500].decode(errors="replace")
    if status >= 400:
        raise HttpRefused(status, told["detail"] if isinstance(told, dict) and "detail" in told else told)
    return told


def record(topic: str, told: Mapping[str, Json]) -> HttpRecord:
    partition, offset, headers = told.get("partition", 0), told["offset"], told["headers"]
    own = told.get("id", headers.get(ID))
    id_ = derived_id(topic, partition, offset) if own in (None, "") else own if isinstance(own, str) else None
    return HttpRecord(topic, partition, offset, told["ts_ms"], told["key"], told["value"], headers, id_)


def published(told: Mapping[str, Json]) -> Published:
    partition, duplicate = told.get("partition", 0), told.get("duplicate", False)
    return Published(told["topic"], told["offset"], told["isr"], partition, duplicate)


def polled(told: Mapping[str, Json]) -> Polled:
    records = [record(told["topic"], one) for one in told["records"]]
    place = told.get("partition", 0)
    return Polled(records, told["next_offset"], told["committed"], told["replica_id"], place)


def results(told: Mapping[str, Json]) -> list[Result]:
    return [
        Result(
            one.get("partition"), one.get("offset"), one.get("duplicate", False), one.get("status"), one.get("detail")
        )
        for one in told["results"]
    ]
