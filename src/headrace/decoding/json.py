"""JSON, one object for each value.

The quick way parses all values at once, as lines. It is taken only when it can be shown to have read each value as one
row: every value begins with a brace and ends with one, there are as many rows as values, and nothing was refused. Its
parser takes some of what is not JSON, also in fields that are left out: bytes that are not UTF-8, NaN and infinities.
Those are looked for beforehand, and numbers that no double holds afterwards.

Everything else goes one by one, and gives the same answers for what both can read. (A field that is left out may have
what the quick way passes over and the other cannot hold: a number of thousands of digits, or above all doubles, and
lists a thousand deep.)

Fields that the type does not have are left out; those that a value does not have are null. Times are ISO 8601, bytes
are base64, decimals are numbers, with all of their digits, or text.
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from headrace.decoding.decoded import Decoded, Decoder, SchemaUnusable, all_good, by_rows
from headrace.decoding.fitting import exact, fitter, has_decimals

SAMPLE_ROWS: Final = 1000
# As the quick way's parser spells them. One alone is found several times sooner than any of them.
_NAN, _INFINITY = re.compile(rb"NaN"), re.compile(rb"Inf")
ODD_NUMBER: Final = r"[:\[,][ \t\r\n]*-?(NaN|Inf(inity)?)[ \t\r\n,\]}]"  # and not in a text, as a rule


def decoder(kind: pa.DataType) -> Decoder:
    fit = fitter(kind)
    is_quick = pa.types.is_struct(kind) and kind.num_fields > 0 and not _needs_fitting(kind)
    # A float would not keep the digits of a decimal.
    parse = msgspec.json.Decoder(float_hook=exact if has_decimals(kind) else None).decode

    def one(value: bytes) -> Any:
        return fit(parse(value))

    def decode(raw: pa.Array) -> Decoded:
        if is_quick and (found := _at_once(raw, kind)) is not None:
            return all_good(found)
        return by_rows(raw, one, kind)

    return decode


def sampled(raw: pa.Array) -> pa.DataType:
    """The type that the first values have. Those that are no JSON objects are left out of it."""
    good = []
    for value in raw[:SAMPLE_ROWS].to_pylist():
        try:
            if value is not None and isinstance(found := msgspec.json.decode(value), dict) and found:
                good.append(found)
        except (ValueError, RecursionError):
            continue
    if not good:
        raise SchemaUnusable("none of the first values is a JSON object: give a schema, or another format")
    lines = b"\n".join(map(msgspec.json.encode, good))
    try:
        table = pa.json.read_json(pa.BufferReader(lines), _options(len(lines)))
    except pa.ArrowInvalid as error:
        raise SchemaUnusable(f"the first values agree in no schema ({error}): give one") from error
    return pa.struct([field.with_type(_plain(field.type)) for field in table.schema])


def _plain(kind: pa.DataType) -> pa.DataType:
    """A field that was null in every sample is taken for text, and a time keeps its words: guesses may be wrong."""
    if pa.types.is_null(kind) or pa.types.is_timestamp(kind):
        return pa.string()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_plain(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def _options(size: int) -> Any:
    return pa.json.ReadOptions(use_threads=False, block_size=max(size + 1, 1 << 10))


def _at_once(raw: pa.Array, kind: pa.DataType) -> pa.Array | None:
    values = raw.drop_null() if raw.null_count else raw
    if not len(values):
        return pa.nulls(len(raw), kind)
    begins = pc.all(pc.equal(pc.binary_slice(values, 0, 1), b"{")).as_py()
    ends = pc.all(pc.equal(pc.binary_slice(values, -1, None), b"}")).as_py()
    if not (begins and ends):
        return None
    lines = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(values)], pa.int32()), values), b"\n")
    try:
        lines = lines.cast(pa.string())  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return None
    if _may_have_odd_numbers(lines):
        return None
    buffer = lines[0].as_buffer()
    parse = pa.json.ParseOptions(explicit_schema=pa.schema(list(kind)), unexpected_field_behavior="ignore")
    try:
        table = pa.json.read_json(pa.BufferReader(buffer), _options(buffer.size), parse)
    except pa.ArrowInvalid:
        return None
    if table.num_rows != len(values):
        return None
    found = table.combine_chunks().to_struct_array()
    found = found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found
    if found.type != kind or not _is_finite(found):
        return None
    if not raw.null_count:
        return found
    present = raw.is_valid()
    places = pc.subtract(pc.cumulative_sum(present.cast(pa.int32())), 1)
    return found.take(pc.if_else(present, places, pa.scalar(None, pa.int32())))


def _may_have_odd_numbers(lines: pa.Array) -> bool:
    """A text with such a thing in it is taken for one now and then: that costs time, and no more."""
    buffer = lines[0].as_buffer()
    if _NAN.search(buffer) is None and _INFINITY.search(buffer) is None:
        return False
    return bool(pc.match_substring_regex(lines, ODD_NUMBER)[0].as_py())


def _is_finite(column: pa.Array) -> bool:
    kind = column.type
    if pa.types.is_struct(kind):
        return all(_is_finite(column.field(number)) for number in range(kind.num_fields))
    if pa.types.is_list(kind):
        return _is_finite(column.values)
    return not pa.types.is_floating(kind) or pc.all(pc.is_finite(column)).as_py() is not False


def _needs_fitting(kind: pa.DataType) -> bool:
    """Is there anything in it that the quick way reads otherwise than we say?"""
    if pa.types.is_struct(kind):
        return any(_needs_fitting(field.type) for field in kind)
    if pa.types.is_list(kind):
        return _needs_fitting(kind.value_type)
    is_number = pa.types.is_signed_integer(kind) or pa.types.is_float64(kind)
    return not (is_number or pa.types.is_string(kind) or pa.types.is_boolean(kind))
