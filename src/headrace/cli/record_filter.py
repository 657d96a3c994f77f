"""Conditions on records: `key=42`, `value~"error"`, `header.source!=shop`, `offset>=100`, `value.customer.id=7`.

    FIELD OPERATOR OPERAND

FIELD is topic, partition, offset, timestamp, size, key, value, header.NAME, or value.PATH, which looks into a value
that is JSON. OPERATOR is = != ~ !~ (a regular expression found anywhere) or < <= > >=. Numbers compare as numbers. A
record that lacks the field fails every condition but != and !~. Nothing here evaluates code.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.cli.exits import usage

if TYPE_CHECKING:
    from headrace.client.values import Record

Condition = Callable[["Record"], bool]
Field = Callable[["Record"], object]

_CONDITION = re.compile(r"\s*([A-Za-z][^\s=!~<>]*)\s*(!=|!~|<=|>=|=|~|<|>)\s*(.*)", re.DOTALL)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_FIELDS: dict[str, Field] = {
    "topic": lambda record: record.topic,
    "partition": lambda record: record.partition,
    "offset": lambda record: record.offset,
    "timestamp": lambda record: record.timestamp_ms,
    "size": lambda record: len(record.value) if record.value is not None else None,
    "key": lambda record: _text(record.key),
    "value": lambda record: _text(record.value),
}
_NUMBERS = ("partition", "offset", "timestamp", "size")


def compiled(texts: Sequence[str]) -> Condition | None:
    """All of them must hold. None: there is none."""
    conditions = [_condition(text) for text in texts]
    if not conditions:
        return None
    if len(conditions) == 1:
        return conditions[0]
    return lambda record: all(condition(record) for condition in conditions)


def _condition(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise usage(
            f"{text!r} is not a condition", "--filter 'key=42', 'value~error', 'header.source!=shop', 'offset>=100'"
        )
    field, sign, operand = _field(match[1]), match[2], match[3]
    if sign in ("~", "!~"):
        return _matching(field, operand, wanted=sign == "~")
    if sign in ("=", "!="):
        return _equal(field, operand, wanted=sign == "=")
    if match[1] in _NUMBERS and _number(operand) is None:
        raise usage(f"{text!r} compares a number with {operand!r}", f"as in {match[1]}{sign}100")
    return _ordered(field, _ORDER[sign], operand)


def _field(name: str) -> Field:
    if name in _FIELDS:
        return _FIELDS[name]
    kind, _, rest = name.partition(".")
    if kind == "header" and rest:
        return lambda record: next((_text(value) for header, value in record.headers if header == rest), None)
    if kind == "value" and rest:
        path = rest.split(".")
        return lambda record: _inside(record.value, path)
    raise usage(f"a record has no {name!r}", f"{', '.join(_FIELDS)}, header.NAME or value.PATH")


def _equal(field: Field, operand: str, *, wanted: bool) -> Condition:
    number = _number(operand)

    def holds(record: Record) -> bool:
        found = field(record)
        same = found == number if _is_number(found) and number is not None else _plain(found) == operand
        return (found is not None and same) is wanted

    return holds


def _matching(field: Field, operand: str, *, wanted: bool) -> Condition:
    try:
        search = re.compile(operand).search
    except re.error as error:
        raise usage(f"{operand!r} is not a regular expression: {error}") from None

    def holds(record: Record) -> bool:
        found = field(record)
        return (found is not None and search(_plain(found)) is not None) is wanted

    return holds


def _ordered(field: Field, compare: Callable[[Any, Any], bool], operand: str) -> Condition:
    number = _number(operand)

    def holds(record: Record) -> bool:
        found = field(record)
        if found is None:
            return False
        seen = found if _is_number(found) else _number(_plain(found))
        if number is not None:
            return seen is not None and compare(seen, number)
        return compare(_plain(found), operand)

    return holds


def _text(data: bytes | None) -> str | None:
    """As text; bytes that are none stay distinct, so that a pattern can still meet what is text around them."""
    return data.decode("utf-8", "surrogateescape") if data is not None else None


def _inside(data: bytes | None, path: Sequence[str]) -> object:
    try:
        found: Any = msgspec.json.decode(data or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    for name in path:
        if isinstance(found, dict):
            found = found.get(name)
        elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
            found = found[int(name)]
        else:
            return None
    return found


def _plain(value: object) -> str:
    if isinstance(value, str):
        return value
    return msgspec.json.encode(value).decode()


def _number(text: str) -> float | int | None:
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
