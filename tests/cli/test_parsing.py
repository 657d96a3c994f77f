"""What people type for sizes, durations, times and positions."""

from __future__ import annotations

import time

import pytest

from headrace.cli import exits, parsing
from headrace.cli.exits import Refusal
from headrace.cli.text import unescaped
from headrace.client.values import Time

NOW_MS = 1_800_000_000_000
HOUR_MS = 3_600_000


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("4096", 4096),
        ("64MiB", 64 << 20),
        ("64m", 64 << 20),
        ("64MB", 64_000_000),
        ("1.5GiB", 3 << 29),
        ("10 kb", 10_000),
        ("2T", 2 << 40),
    ],
)
def test_a_size_takes_units_of_1024_and_of_1000(text: str, value: int) -> None:
    assert parsing.size(text) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("500ms", 500),
        ("30s", 30_000),
        ("10m", 600_000),
        ("1h30m", 5_400_000),
        ("7d", 604_800_000),
        ("1w", 604_800_000),
        ("2", 2000),
        ("0.5", 500),
    ],
)
def test_a_duration_takes_units_and_bare_seconds(text: str, value: int) -> None:
    assert parsing.duration_ms(text) == value


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parsing.size, "many"),
        (parsing.size, "-1"),
        (parsing.size, "1XiB"),
        (parsing.size, "99999999999TiB"),
        (parsing.duration_ms, "soon"),
        (parsing.duration_ms, "10m5"),
        (parsing.duration_ms, ""),
        (parsing.whole_numbers, "a"),
        (parsing.whole_numbers, "3-1"),
        (parsing.whole_numbers, "0-999999999"),
        (unescaped, "\\q"),
        (unescaped, "ends in \\"),
    ],
)
def test_what_is_none_is_refused_as_usage_and_shown_what_is_one(parse: object, text: str) -> None:
    assert callable(parse)
    with pytest.raises(Refusal) as refused:
        parse(text)
    assert refused.value.code == exits.USAGE


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("start", "start"),
        ("end", "end"),
        ("0", 0),
        ("123", 123),
        ("-10", -10),
        ("@1700000000", Time(1_700_000_000_000)),
        ("@1700000000123", Time(1_700_000_000_123)),
        ("@2026-01-31T12:00Z", Time(1_769_860_800_000)),
        ("@2026-01-31T14:00+02:00", Time(1_769_860_800_000)),
        ("@-10m", Time(NOW_MS - 600_000)),
        ("@-1h30m", Time(NOW_MS - 5_400_000)),
        ("@now", Time(NOW_MS)),
    ],
)
def test_a_position_is_a_name_an_offset_a_count_from_the_end_or_a_time(text: str, value: object) -> None:
    assert parsing.position(text, NOW_MS) == value


@pytest.mark.parametrize("text", ["", "begin", "1.5", "@", "@tomorrow", "@2026-13-01", "--10", "9" * 20])
def test_what_is_no_position_is_refused_with_examples(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        parsing.position(text, NOW_MS)
    assert refused.value.code == exits.USAGE
    assert "@-10m" in (refused.value.next_step or "")


def test_a_time_without_a_zone_is_local_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        local = parsing.time_ms("2026-01-31T12:00", NOW_MS)
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local == parsing.time_ms("2026-01-31T12:00Z", NOW_MS) - HOUR_MS


def test_partitions_are_numbers_lists_and_ranges() -> None:
    assert parsing.whole_numbers("0,2,5-7,2") == [0, 2, 5, 6, 7]


def test_what_is_shown_reads_back() -> None:
    assert [parsing.show_duration(ms) for ms in (604_800_000, 5_400_000, 1500)] == ["7d", "1h30m", "1s500ms"]
    assert [parsing.show_size(n) for n in (0, 1023, 1536, 64 << 20)] == ["0 B", "1023 B", "1.5 KiB", "64.0 MiB"]
    assert parsing.show_time(1_769_860_800_123) == "2026-01-31T12:00:00.123Z"
    assert parsing.show_time(-1) == "-1"
    assert parsing.show_time(1 << 62) == str(1 << 62)


def test_escapes_are_bytes_and_other_text_stays() -> None:
    assert unescaped(r"a\tb\n\x00\xff\\ü") == b"a\tb\n\x00\xff\\" + "ü".encode()


def test_a_lag_in_time_is_shown_in_two_units_at_most() -> None:
    shown = [
        parsing.show_seconds(s) for s in (0.0, 0.25, 1.4, 59.0, 61.0, 3600.0, 7384.0, 86_400.0 * 3 + 3600 * 5 + 60)
    ]
    assert shown == ["0s", "250ms", "1s", "59s", "1m1s", "1h", "2h3m", "3d5h"]
