"""One batch: what the log and the doors ask of it. Its fields are in header.py, the checks in the kernel."""

from headrace.records.header import (
    HEADER_BYTES,
    MAX_BATCH_BYTES,
    PREFIX_BYTES,
    BatchHeader,
    assign,
    read_header,
)
from headrace.records.kernel import stamp_append_time, validate

__all__ = [
    "HEADER_BYTES",
    "MAX_BATCH_BYTES",
    "PREFIX_BYTES",
    "BatchHeader",
    "assign",
    "read_header",
    "stamp_append_time",
    "validate",
]
