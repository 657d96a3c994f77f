"""What turns the few types of JSON and msgpack into those that a column has, strictly: Arrow by itself would make 1 of
1.5.

Text stands for what JSON has no type for: times are ISO 8601, bytes base64, decimals numbers or text. What msgpack has
a type for (bytes, times) is taken as it is. Numbers with a point may come as floats or, where a decimal is wanted, as
the decimals that they were written as.
"""

from __future__ import annotations

import base64
import datetime
import math
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa

Fit = Callable[[Any], Any]
_SMALLER: Final = {16: "<e", 32: "<f"}  # floating numbers by their bits: the format that says whether one fits


def fitter(kind: pa.DataType) -> Fit:
    """Raises ValueError for what does not fit; a null always does."""
    fit = _fit(kind)
    return lambda value: None if value is None else fit(value)


def _fit(kind: pa.DataType) -> Fit:
    if pa.types.is_struct(kind):
        return _struct(kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        item = fitter(kind.value_type)
        return lambda value: [item(one) for one in _of(list, value, "a list")]
    if pa.types.is_map(kind):
        content = fitter(kind.item_type)
        return lambda value: [(name, content(one)) for name, one in _of(dict, value, "an object").items()]
    if pa.types.is_timestamp(kind):
        return lambda value: _moment(value, kind.tz is not None)
    if pa.types.is_date(kind):
        return lambda value: datetime.date.fromisoformat(_of(str, value, "a date"))
    if pa.types.is_decimal(kind):
        return _decimal
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return _bytes
    if pa.types.is_floating(kind):
        return _floating(kind)
    if pa.types.is_integer(kind):
        return lambda value: _of(int, value, "a whole number")
    if pa.types.is_boolean(kind):
        return lambda value: _of(bool, value, "true or false")
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return lambda value: _of(str, value, "text")
    return lambda value: value


def has_decimals(kind: pa.DataType) -> bool:
    inner = (kind.field(number).type for number in range(kind.num_fields))
    return pa.types.is_decimal(kind) or any(has_decimals(one) for one in inner)


def _struct(kind: pa.DataType) -> Fit:
    fields = {field.name: fitter(field.type) for field in kind}

    def struct(value: Any) -> Any:
        given = _of(dict, value, "an object")
        try:
            return {name: fit(given.get(name)) for name, fit in fields.items()}
        except ValueError:
            _name_unfit(fields, given)
            raise

    return struct


def _name_unfit(fields: dict[str, Fit], given: dict[str, Any]) -> None:
    for name, fit in fields.items():
        try:
            fit(given.get(name))
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _decimal(value: Any) -> Decimal:
    given = _of(int | float | str | Decimal, value, "a number")
    return given if isinstance(given, Decimal) else exact(str(given))


def exact(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError(f"{text!r:.60} is no decimal number") from None


def _floating(kind: pa.DataType) -> Fit:
    smaller = _SMALLER.get(kind.bit_width)

    def floating(value: Any) -> float:
        given = _of(int | float | Decimal, value, "a number")
        found = float(given)
        try:
            if smaller is not None:
                struct.pack(smaller, found)
        except OverflowError:
            raise ValueError(f"{given!s:.60} is too large for {kind}") from None
        if math.isinf(found) and not isinstance(given, float):
            raise ValueError(f"{given!s:.60} is too large for {kind}")
        return found

    return floating


def _of(kind: Any, value: Any, words: str) -> Any:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        shown = str(value) if isinstance(value, Decimal) else repr(value)
        raise ValueError(f"{words} is wanted, not {shown:.60}")
    return value


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else base64.b64decode(_of(str, value, "bytes in base64"), validate=True)


def _moment(value: Any, is_aware: bool) -> datetime.datetime:
    found = value
    if not isinstance(found, datetime.datetime):
        found = datetime.datetime.fromisoformat(_of(str, value, "a time in ISO 8601"))
    if is_aware and found.tzinfo is None:
        return found.replace(tzinfo=datetime.UTC)
    return found.astimezone(datetime.UTC).replace(tzinfo=None) if not is_aware and found.tzinfo else found
