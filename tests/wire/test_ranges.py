"""What every door takes for a time and for the place of a page."""

from __future__ import annotations

import pytest

from headrace.wire.ranges import MAX_TIME_MS, Place, place_of, time_ms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0", 0),
        ("1700000000123", 1_700_000_000_123),
        (str(MAX_TIME_MS), MAX_TIME_MS),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20", 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", 1_700_000_000_000),
        ("2023-11-14", 1_699_920_000_000),
        ("2023-11-14T22:13:20.123Z", 1_700_000_000_123),
        ("2023-11-14T22:13:20.123001Z", 1_700_000_000_124),
        ("0001-01-01", 0),
        ("0001-01-01T00:00:00+23:59", 0),
        ("9999-12-31T23:59:59-12:00", 253_402_343_999_000),
    ],
)
def test_a_time_is_milliseconds_or_a_date(text: str, found: int) -> None:
    assert time_ms(text, "since") == found


@pytest.mark.parametrize("text", ["", "x", "-1", "1.5", "yesterday", str(MAX_TIME_MS + 1), "9" * 5000, "\uff11"])
def test_what_is_no_time_is_told_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"^until is milliseconds since 1970 or a time like 2026-01-31T12:00:00Z$"):
        time_ms(text, "until")


def test_a_place_comes_back_as_it_was_given() -> None:
    for place in (Place(0, 0), Place(12, 1 << 62)):
        assert place_of(str(place)) == place


@pytest.mark.parametrize(
    "text", ["", "-", "1", "1-", "-1", "a-1", "1-2-3", "1--2", "0-" + "9" * 30, " 1-2", "\uff11-2"]
)
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="page is what a reply before gave as next_page"):
        place_of(text)
