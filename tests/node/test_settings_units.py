"""Sizes and durations as people write them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import units


@pytest.mark.parametrize(
    ("text", "bytes_"),
    [
        ("0", 0),
        ("1024", 1024),
        ("64KiB", 64 << 10),
        ("64 kib", 64 << 10),
        ("1.5MiB", 3 << 19),
        ("2M", 2 << 20),
        ("16MB", 16_000_000),
        ("1TiB", 1 << 40),
        ("7B", 7),
    ],
)
def test_a_size_has_a_unit_or_is_bytes(text: str, bytes_: int) -> None:
    assert units.size(text) == bytes_


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("5", 5),
        ("500ms", 500),
        ("30s", 30_000),
        ("10m", 600_000),
        ("10 min", 600_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
        ("0.1s", 100),
    ],
)
def test_a_duration_has_a_unit_or_is_milliseconds(text: str, ms: int) -> None:
    assert units.duration_ms(text) == ms


@pytest.mark.parametrize("text", ["", " ", "x", "5x", "-5", "1.5", "1.0001KiB", "1e3", "5 5", "KiB", "٣", "1KiB2"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no |not "):
        units.size(text)


@pytest.mark.parametrize("text", ["", " ", "x", "5x", "-5", "0.5ms", "1h 5", "h", "1e3s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"no |not "):
        units.duration_ms(text)


@given(st.integers(min_value=0, max_value=(1 << 63) - 1))
def test_what_is_written_reads_as_the_same_number(value: int) -> None:
    assert units.size(units.size_text(value)) == value
    assert units.duration_ms(units.duration_text(value)) == value
