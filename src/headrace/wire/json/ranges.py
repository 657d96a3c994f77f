"""Ranges in the json protocol, which is ours: a consume with a value at one of these keys is answered with a page.

    {"type": "consume", "topic_name": "t", "since": "2026-01-31T12:00:00Z", "limit": 100}
    {"status": "success", "message": [{"partition": 0, "offset": 7, "id": "...", "ts_ms": ..., "payload": ...}],
     "next_page": "0-8"}

Null says no more than a key that is missing, so that `next_page` can be given back as `page` as it is. With nothing but
nulls a consume is for one message: clients that name keys which they do not use get what they always got.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from headrace.wire.json.values import Json, dumps, loads, shown
from headrace.wire.ranges import MAX_TIME_MS, PAGE_RECORDS, Bounds, Place, Range, place_of, time_ms

NAMES = ("from", "to", "since", "until", "limit", "page", "last")
NOT_WITH_LAST = ("from", "to", "since", "until", "limit", "page")


def is_range(found: Mapping[str, Json]) -> bool:
    return any(found.get(name) is not None for name in NAMES)


def asked(topic: str, partition: int | None, found: dict[str, Json]) -> Range:
    """ValueError: what is wrong with it."""
    if found.get("offset") is not None:
        raise ValueError("offset asks for one message; a range begins at from, or since")
    last = _number(found, "last", 1)
    if last is not None:
        for name in NOT_WITH_LAST:
            if found.get(name) is not None:
                raise ValueError(f"last is asked for without {name}")
        return Range(topic, partition, last=last)
    bounds = Bounds(_number(found, "from"), _number(found, "to"), _time(found, "since"), _time(found, "until"))
    limit, page = _number(found, "limit", 1), found.get("page")
    if page is not None and not isinstance(page, str):
        raise ValueError("page is what a reply before gave as next_page")
    return Range(
        topic,
        partition,
        bounds,
        PAGE_RECORDS if limit is None else limit,
        None if page is None else place_of(page),
    )


def message(partition: int, offset: int, id_: str, timestamp_ms: int, value: bytes | None) -> bytes:
    """One of a page."""
    return b'{"partition": %d, "offset": %d, "id": %b, "ts_ms": %d, "payload": %b}' % (
        partition,
        offset,
        dumps(id_),
        timestamp_ms,
        shown(value),
    )


def page(messages: Iterable[bytes], next_place: Place | None) -> bytes:
    after = b"null" if next_place is None else dumps(str(next_place))
    return b'{"status": "success", "message": [%b], "next_page": %b}' % (b", ".join(messages), after)


def parse_page(reply: bytes) -> tuple[list[tuple[int, int, int, Json, str | None]], str | None]:
    """For the client: partition, offset, time, payload and, if it is told, id of each, and the next page. ValueError:
    it is none."""
    match loads(reply):
        case {"message": list(messages), "next_page": str() | None as next_page}:
            return [_parsed(one) for one in messages], next_page
        case _:
            raise ValueError("a page is a JSON object with a list of messages and what the next page is")


def _parsed(one: Json) -> tuple[int, int, int, Json, str | None]:
    match one:
        case {"partition": int(partition), "offset": int(offset), "ts_ms": int(ts_ms), "payload": payload, **more}:
            told = more.get("id")
            return partition, offset, ts_ms, payload, told if isinstance(told, str) else None
        case _:
            raise ValueError("a message of a page has its partition, offset, time and payload")


def _number(found: dict[str, Json], name: str, least: int = 0) -> int | None:
    value = found.get(name)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ValueError(f"{name} is a whole number from {least} on")
    return value


def _time(found: dict[str, Json], name: str) -> int | None:
    match found.get(name):
        case None:
            return None
        case str(text):
            return time_ms(text, name)
        case int(number) if not isinstance(number, bool) and 0 <= number <= MAX_TIME_MS:
            return number
        case _:
            return time_ms("", name)  # which says what it should be
