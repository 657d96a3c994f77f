"""One whole command: which it is, and where its parts are.

    {"Subscribe": [pattern]}   {"Unsubscribe": [pattern]}   {"Publish": [[topic, value]]}

Also taken: fields as a map by their names ({"pattern": p}, {"message": m}, m as {"topic": t, "value": v} in any order),
the command's number instead of its name (0 Publish, 1 Subscribe, 2 Unsubscribe), and bytes where text is meant in a
topic or a pattern, as long as they are UTF-8. Nothing else is.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from headrace.wire.msgpack.forms import ARRAY, BYTES, EXT, INT, MAP, NOT_TEXT, PLAIN, TEXT, Fault, head

PUBLISH: Final = 0
SUBSCRIBE: Final = 1
UNSUBSCRIBE: Final = 2
NAMES = {"Publish": PUBLISH, "Subscribe": SUBSCRIBE, "Unsubscribe": UNSUBSCRIBE}

FIRST_BYTES = (0x81, 0xDE, 0xDF)
NOT_A_COMMAND = "a command is a map of one entry"
UNKNOWN = "a command that there is not"
WRONG_FIELDS = "a command whose fields are not its own"


class Parsed(NamedTuple):
    kind: int
    text: str  # the pattern, or the topic
    value_at: int = -1


def parse(data: bytes, at: int, end: int) -> Parsed:
    """The command that is known to be one whole value, from `at` to `end`."""
    kind, count, at = head(data, at, end)
    if kind != MAP or count != 1:
        raise Fault(NOT_A_COMMAND)
    kind, number, after = head(data, at, end)
    if kind == INT:
        command = number
    elif kind == TEXT:
        command = NAMES.get(data[after : after + number].decode(), -1)
        after += number
    else:
        command = -1
    if command == PUBLISH:
        at = _only(data, after, end, "message")
        return _message(data, at, end)
    if command in (SUBSCRIBE, UNSUBSCRIBE):
        pattern, _ = _text(data, _only(data, after, end, "pattern"), end)
        return Parsed(command, pattern)
    raise Fault(UNKNOWN)


def _only(data: bytes, at: int, end: int, name: str) -> int:
    """Where the only field is."""
    kind, count, at = head(data, at, end)
    if count != 1 or kind not in (ARRAY, MAP):
        raise Fault(WRONG_FIELDS)
    if kind == MAP:
        found, at = _name(data, at, end)
        if found != name:
            raise Fault(WRONG_FIELDS)
    return at


def _message(data: bytes, at: int, end: int) -> Parsed:
    kind, count, at = head(data, at, end)
    if count != 2 or kind not in (ARRAY, MAP):
        raise Fault(WRONG_FIELDS)
    if kind == ARRAY:
        topic, at = _text(data, at, end)
        return Parsed(PUBLISH, topic, at)
    first, at = _name(data, at, end)
    if first == "topic":
        topic, at = _text(data, at, end)
        other, value_at = _name(data, at, end)
        is_own = other == "value"
    else:
        value_at = at
        other, at = _name(data, _after(data, at, end), end)
        is_own = (first, other) == ("value", "topic")
        topic = _text(data, at, end)[0] if is_own else ""
    if not is_own:
        raise Fault(WRONG_FIELDS)
    return Parsed(PUBLISH, topic, value_at)


def _name(data: bytes, at: int, end: int) -> tuple[str, int]:
    kind, number, at = head(data, at, end)
    if kind != TEXT:
        raise Fault(WRONG_FIELDS)
    return data[at : at + number].decode(), at + number


def _text(data: bytes, at: int, end: int) -> tuple[str, int]:
    kind, number, at = head(data, at, end)
    if kind not in (TEXT, BYTES):
        raise Fault(WRONG_FIELDS)
    try:
        return data[at : at + number].decode(), at + number
    except UnicodeDecodeError:
        raise Fault(NOT_TEXT) from None


def _after(data: bytes, at: int, end: int) -> int:
    """Behind a value that is known to be whole."""
    wanted = 1
    while wanted:
        kind, number, at = head(data, at, end)
        wanted -= 1
        if kind in (TEXT, BYTES, EXT, PLAIN):
            at += number
        elif kind in (ARRAY, MAP):
            wanted += number if kind == ARRAY else 2 * number
    return at
