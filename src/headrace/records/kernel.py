"""The kernels in use: native where the wheel is there and fits, else the Python twin. Chosen once, at import.

NATIVE says which, REASON why not, in words for whoever starts a node. HEADRACE_NATIVE=0 forces the twin.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

API_VERSION = 10  # raised when a kernel's signature or meaning changes; a wheel with another one is not used


def _why_not() -> str:
    if os.environ.get("HEADRACE_NATIVE", "1") == "0":
        return "HEADRACE_NATIVE=0 asks for the Python kernels"
    try:
        import headrace_native
    except ImportError as error:
        return f"headrace-native is not installed ({error})"
    if headrace_native.API_VERSION != API_VERSION:
        return (
            f"headrace-native {headrace_native.__version__} has kernels of version"
            f" {headrace_native.API_VERSION}, and this program needs {API_VERSION}: install the two together"
        )
    return ""


REASON = _why_not()
NATIVE = not REASON

if TYPE_CHECKING or not NATIVE:
    from headrace.records.twin import (
        OffsetMap,
        crc32c,
        cut,
        decode_columns,
        decode_records,
        encode_columns,
        encode_partitioned,
        encode_records,
        key_partitions,
        pick,
        room,
        scan,
        stamp_append_time,
        survey,
        validate,
    )
else:
    from headrace_native import (
        OffsetMap,
        crc32c,
        cut,
        decode_columns,
        decode_records,
        encode_columns,
        encode_partitioned,
        encode_records,
        key_partitions,
        pick,
        room,
        scan,
        stamp_append_time,
        survey,
        validate,
    )

__all__ = [
    "API_VERSION",
    "NATIVE",
    "REASON",
    "OffsetMap",
    "crc32c",
    "cut",
    "decode_columns",
    "decode_records",
    "encode_columns",
    "encode_partitioned",
    "encode_records",
    "key_partitions",
    "pick",
    "room",
    "scan",
    "stamp_append_time",
    "survey",
    "validate",
]
