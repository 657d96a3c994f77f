"""Ranges of a topic's records, as this door is asked for them (wire/ranges.py has what they are, broker/ranges.py reads
them)."""

from __future__ import annotations

from headrace.broker.topic import Topic
from headrace.doors.http.refusals import BAD, MISSING, Refused
from headrace.wire import ranges
from headrace.wire.ranges import Place, Range


def check(topic: Topic, wish: Range) -> None:
    count = len(topic.partitions)
    if wish.partition is None and count > 1 and wish.has_offsets:
        raise Refused(BAD, f"partition is required with offsets: topic {topic.name!r} has {count} partitions")
    if wish.partition is not None and wish.partition >= count:
        raise Refused(MISSING, f"no partition {wish.partition}: topic {topic.name!r} has {count}")


def place_of(text: str | None) -> Place | None:
    if text is None:
        return None
    try:
        return ranges.place_of(text)
    except ValueError as error:
        raise Refused(BAD, "page is what an answer before gave as next_page") from error


def time_ms(text: str | None, name: str) -> int | None:
    if text is None:
        return None
    try:
        return ranges.time_ms(text, name)
    except ValueError as error:
        raise Refused(BAD, str(error)) from error
