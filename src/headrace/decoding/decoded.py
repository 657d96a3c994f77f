"""What decoding gives, and the way that is always right: one value after the other, each with its own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa

from headrace.errors import HeadraceError

MAX_REASON: Final = 300  # characters of one error: a column of them must not outgrow the values
# What decoders of others raise for bytes that are not theirs.
_FAULTS: Final = (ValueError, TypeError, KeyError, IndexError, EOFError, OverflowError, RecursionError, ArithmeticError)


class SchemaUnusable(HeadraceError):
    """A schema that cannot be read, or asks for what has no column type."""


class Decoded(NamedTuple):
    values: pa.Array
    errors: pa.Array  # text where a value could not be decoded, else null


Decoder = Callable[[pa.Array], Decoded]


def all_good(values: pa.Array) -> Decoded:
    return Decoded(values, pa.nulls(len(values), pa.string()))


def by_rows(raw: pa.Array, decode: Callable[[bytes], Any], kind: pa.DataType) -> Decoded:
    found: list[Any] = []
    errors: list[str | None] = []
    for value in raw.to_pylist():
        error = None
        decoded = None
        if value is not None:
            try:
                decoded = decode(value)
            except _FAULTS as fault:
                error = reason(fault)
        found.append(decoded)
        errors.append(error)
    try:
        values = pa.array(found, kind)
    except (pa.ArrowException, *_FAULTS):
        values = _fitting(found, errors, kind)
    return Decoded(values, pa.array(errors, pa.string()))


def _fitting(found: list[Any], errors: list[str | None], kind: pa.DataType) -> pa.Array:
    """Those that fit the type; the others become errors."""
    for row, value in enumerate(found):
        try:
            pa.array([value], kind)
        except (pa.ArrowException, *_FAULTS) as fault:
            found[row], errors[row] = None, f"it does not fit {shown(kind)}: {reason(fault)}"
    return pa.array(found, kind)


def reason(fault: BaseException) -> str:
    words = " ".join(str(fault).split()) or type(fault).__name__
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"


def shown(kind: pa.DataType) -> str:
    words = str(kind)
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"
