"""UTF-8 text."""

from __future__ import annotations

import pyarrow as pa

from headrace.decoding.decoded import Decoded, Decoder, all_good, by_rows

TYPE = pa.string()


def decoder() -> tuple[pa.DataType, Decoder]:
    """The column's type, and what decodes into it."""
    return TYPE, decode


def decode(raw: pa.Array) -> Decoded:
    try:
        return all_good(raw.cast(TYPE))  # checks that it is UTF-8
    except pa.ArrowInvalid:
        return by_rows(raw, bytes.decode, TYPE)
