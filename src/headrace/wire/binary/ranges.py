"""Ranges in the binary protocol, which is ours: a SUBSCRIBE with one of these properties subscribes to nothing, and is
answered with a page of messages.

    to, since, until, limit, page, last        what is asked for; it begins at `offset`, and without `partition` has all
    ACK: status, topic, count, next_page       the reply; its body is the messages, DATA frames one after the other

In each of these DATA `partition` says where it is, whatever its publisher said, and `id` what it is called
(records/ids.py). `next_page` is left out at the end.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.wire.ranges import PAGE_RECORDS, Bounds, Range, place_of, time_ms

NAMES = ("to", "since", "until", "limit", "page", "last")
NOT_WITH_LAST = ("to", "since", "until", "limit", "page")


def is_range(properties: Mapping[str, str]) -> bool:
    return not properties.keys().isdisjoint(NAMES)


def asked(topic: str, properties: Mapping[str, str]) -> Range:
    """ValueError: what is wrong with it."""
    if "group" in properties:
        raise ValueError("A range is read without 'group'")
    partition, offset = _number(properties, "partition"), _number(properties, "offset")
    last = _number(properties, "last", 1)
    if last is not None:
        for name in NOT_WITH_LAST:
            if name in properties:
                raise ValueError(f"'last' is asked for without '{name}'")
        if offset:
            raise ValueError("'last' is asked for without 'offset'")
        return Range(topic, partition, last=last)
    limit = _number(properties, "limit", 1)
    page = properties.get("page")
    return Range(
        topic,
        partition,
        # The offset 0, which clients of this protocol always send, is the start of any partition.
        Bounds(offset or None, _number(properties, "to"), _time(properties, "since"), _time(properties, "until")),
        PAGE_RECORDS if limit is None else limit,
        None if page is None else place_of(page),
    )


def properties_of(wanted: Mapping[str, object]) -> dict[str, str]:
    """For the client: without what is None."""
    return {name: str(value) for name, value in wanted.items() if value is not None}


def _number(properties: Mapping[str, str], name: str, least: int = 0) -> int | None:
    text = properties.get(name)
    if text is None:
        return None
    number = int(text)
    if number < least:
        raise ValueError(f"Invalid {name} {number}")
    return number


def _time(properties: Mapping[str, str], name: str) -> int | None:
    text = properties.get(name)
    return None if text is None else time_ms(text, name)
