"""Tables of what was fetched, when a part of it is damaged."""

from __future__ import annotations

import pytest

from headrace import errors
from headrace.client.columns import Stretch, Tables
from tests.client.test_columns import batch


@pytest.mark.parametrize(("compression", "first", "last"), [("gzip", 9, 14), ("none", 0, 1)])
def test_damage_takes_no_good_rows_before_it_along(compression: str, first: int, last: int) -> None:
    good, (header, damaged) = [batch(3), batch(2, 3)], batch(3, 5, compression=compression)
    damaged = memoryview(bytearray(damaged))
    damaged[61 + first : 61 + last] = b"\xff" * (last - first)
    tables = Tables(Stretch("t", 7, 1, None, [*good, (header, damaged), batch(1, 8)]), ["offset"])
    offsets: list[int] = []
    with pytest.raises(errors.CorruptBatch, match="topic 't' partition 7 from 5 on"):
        while (table := tables.next()) is not None:
            offsets += table.column("offset").to_pylist()
    assert (offsets, tables.next_offset) == ([1, 2, 3, 4], 5)
