"""What decoding gives, and the way that is always right: one value after the other, each with its own error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

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
            found[row], errors[row] = None, _unfit(kind, fault)
    return pa.array(found, kind)


def cast(found: Decoded, kind: pa.DataType) -> Decoded:
    """As another type; values that do not fit it become errors."""
    values, errors = found
    try:
        made = values.cast(kind)
        if _is_overflown(values, made):
            raise pa.ArrowInvalid("a number is too large")
        return Decoded(made, errors)
    except pa.ArrowInvalid as fault:
        if len(values) == 1:
            return Decoded(pa.nulls(1, kind), pa.array([_unfit(kind, fault)], pa.string()))
    half = len(values) // 2  # few are bad, as a rule: those are looked for
    parts = [cast(_part(found, rows), kind) for rows in (range(half), range(half, len(values)))]
    return Decoded(*map(pa.concat_arrays, zip(*parts, strict=True)))


def _is_overflown(before: pa.Array, after: pa.Array) -> bool:
    """Is there an infinity that was a number? Arrow makes some where it makes floating numbers smaller."""
    kind = after.type
    if before.type == kind or pa.types.is_null(before.type):
        return False
    if pa.types.is_struct(kind):
        names = [field.name for field in kind if before.type.get_field_index(field.name) >= 0]
        return any(_is_overflown(before.field(name), after.field(name)) for name in names)
    if pa.types.is_map(kind):
        return _is_overflown(items(before), items(after))
    if pa.types.is_list(kind):
        return _is_overflown(before.flatten(), after.flatten())
    if not (pa.types.is_floating(kind) and pa.types.is_floating(before.type)):
        return False
    return pc.any(pc.and_(pc.is_finite(before), pc.is_inf(after))).as_py() is True


def items(column: pa.MapArray) -> pa.Array:
    """Its own: what a slice of maps has as `items` are those of the whole column."""
    offsets = column.offsets
    return column.items[offsets[0].as_py() : offsets[-1].as_py()]


def _part(found: Decoded, rows: range) -> Decoded:
    """A copy: of a slice of lists Arrow casts more than the slice."""
    chosen = pa.array(rows, pa.int64())
    return Decoded(found.values.take(chosen), found.errors.take(chosen))


def _unfit(kind: pa.DataType, fault: BaseException) -> str:
    return f"it does not fit {shown(kind)}: {reason(fault)}"


def reason(fault: BaseException) -> str:
    words = " ".join(str(fault).split()) or type(fault).__name__
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"


def shown(kind: pa.DataType) -> str:
    words = str(kind)
    return words if len(words) <= MAX_REASON else words[: MAX_REASON - 1] + "…"
