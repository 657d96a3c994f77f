"""msgpack: the type is given, or that of the first values."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pyarrow as pa

from headrace.decoding.decoded import Decoded, Decoder, SchemaUnusable, by_rows
from headrace.decoding.fitting import fitter

SAMPLE_ROWS: Final = 1000


def decoder(kind: pa.DataType) -> Decoder:
    fit = fitter(kind)

    def decode(raw: pa.Array) -> Decoded:
        return by_rows(raw, lambda value: fit(_one(value)), kind)

    return decode


def _one(value: bytes) -> Any:
    return msgspec.msgpack.decode(value)


def sampled(raw: pa.Array) -> pa.DataType:
    good = []
    for value in raw[:SAMPLE_ROWS].to_pylist():
        try:
            if value is not None:
                good.append(_one(value))
        except (ValueError, RecursionError):
            continue
    try:
        kind = pa.infer_type(good)
    except (pa.ArrowException, TypeError) as error:
        raise SchemaUnusable(f"the first values agree in no schema ({error}): give one") from error
    if pa.types.is_null(kind):
        raise SchemaUnusable("none of the first values is msgpack: give a schema, or another format")
    return kind
