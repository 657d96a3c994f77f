"""Records as columns: the buffers of an Arrow table, in Arrow's own layout, without Arrow.

- validity: a bit for each row, lowest first, 1 = there is a value; None when no row is null;
- numbers: 8 bytes each (list offsets: 4), in the machine's byte order;
- binary: where each row's bytes begin in `data`, 4 bytes each, and one more for the end of the last;
- start: the first row's index, because Arrow's slices share their buffers.

So one column holds at most MAX_COLUMN_BYTES of keys or values: more belongs to several tables.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.ports import Buffer

MAX_COLUMN_BYTES = (1 << 31) - 1  # what Arrow's 32-bit offsets reach

Numbers = tuple[Buffer | None, Buffer, int]  # validity, numbers, start
Binary = tuple[Buffer | None, Buffer, Buffer, int]  # validity, offsets, data, start

# A batch's records: body without compression, count, base offset, base timestamp, append time of all or None
Run = tuple[Buffer, int, int, int, int | None]


class Columns(NamedTuple):
    rows: int
    offset: Numbers
    timestamp: Numbers
    key: Binary
    value: Binary
    headers: Numbers  # where each row's headers begin in the two columns below, as list offsets
    header_key: Binary
    header_value: Binary
