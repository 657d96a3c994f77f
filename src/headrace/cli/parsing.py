"""What people type for sizes, durations, times and positions, and the values behind it.

Each function takes the text and raises a usage refusal that says what it takes and shows an example. Times without a
zone are this machine's local time, as a person reads it off their clock; logs and JSON show UTC.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from difflib import get_close_matches
from typing import Literal

from headrace import units
from headrace.cli.exits import usage
from headrace.client.values import Time
from headrace.wire.ranges import ms_of

MAX_LONG = (1 << 63) - 1


Position = Literal["start", "end"] | int | Time
"""Where to begin or stop in a partition. A whole number is an offset; a negative one counts back from the end."""


def size(text: str) -> int:
    """`64MiB`, `64m` (both 1024), `64MB` (1000), `4096`."""
    try:
        return _bounded(units.size(text), text)
    except ValueError:
        example = "a number of bytes, or one with a unit: 4096, 64KiB, 1.5GiB, 10MB"
        raise usage(f"{text!r} is not a size", example) from None


def duration_ms(text: str) -> int:
    """`500ms`, `10m`, `1h30m`, `7d`; a bare number is seconds."""
    is_bare = re.fullmatch(r"\s*[0-9]+(\.[0-9]+)?\s*", text) is not None
    try:
        return _bounded(units.duration_ms(f"{text.strip()}s" if is_bare else text), text)
    except ValueError:
        raise usage(f"{text!r} is not a duration", "a number with a unit: 500ms, 30s, 10m, 1h30m, 7d") from None


def time_ms(text: str, now_ms: int) -> int:
    """What stands behind the @: `2026-01-01T00:00`, `2026-01-01`, `-10m` (before now), `1700000000` (seconds, or
    milliseconds where that many digits would be the year 5138)."""
    if text.startswith("-"):
        return max(0, now_ms - duration_ms(text[1:]))
    if re.fullmatch(r"\d{1,11}(\.\d+)?", text):
        return math.ceil(Decimal(text) * 1000)
    if re.fullmatch(r"\d{12,15}", text):
        return int(text)
    if text == "now":
        return now_ms
    try:
        moment = datetime.fromisoformat(text)
        return ms_of(moment if moment.tzinfo else moment.astimezone())  # without a zone: here
    except (ValueError, OverflowError):
        raise usage(
            f"{text!r} is not a time", "@2026-01-31T12:00, @2026-01-31T12:00+02:00, @1700000000 or @-10m"
        ) from None


def position(text: str, now_ms: int) -> Position:
    if text == "start":
        return "start"
    if text == "end":
        return "end"
    if text.startswith("@"):
        return Time(time_ms(text[1:], now_ms))
    if re.fullmatch(r"-?\d{1,19}", text) and abs(int(text)) <= MAX_LONG:
        return int(text)
    raise usage(
        f"{text!r} is not a position",
        "start, end, an offset (100), from the end (-10), a time (@2026-01-31T12:00, @-10m)",
    )


def pair(text: str, what: str, example: str) -> tuple[str, str]:
    """`KEY=VALUE`; the value may be empty and may hold further `=`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise usage(f"{text!r} is not {what}", f"{what} reads NAME=VALUE, as in {example}")
    return name, value


def whole_numbers(text: str) -> list[int]:
    """`0,2,5-7`."""
    found: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,9})(?:-(\d{1,9}))?\s*", part)
        if match is None or int(match[2] or match[1]) - int(match[1]) not in range(100_000):
            raise usage(f"{text!r} names no partitions", "a number, a list or a range: 0  0,2  0-3")
        found += range(int(match[1]), int(match[2] or match[1]) + 1)
    return sorted(set(found))


def one_of(option: str, text: str, choices: Sequence[str]) -> str:
    if text in choices:
        return text
    near = get_close_matches(text, choices, 1)
    words = f"; did you mean {near[0]}?" if near else ""
    raise usage(f"{option} does not take {text!r}{words}", f"one of {', '.join(choices)}")


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def show_time(ms: int) -> str:
    """For JSON and for people alike: UTC, to the millisecond."""
    if not 0 <= ms < 253_402_300_800_000:  # before 1970, or after the year 9999: no calendar has a name for it
        return str(ms)
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def show_size(count: int) -> str:
    if count < 1024:
        return f"{count} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        value /= 1024
        if value < 1024 or unit == "TiB":
            break
    return f"{value:.1f} {unit}"


def show_duration(ms: int) -> str:
    """The largest units that say it exactly: 604800000 is `7d`."""
    if ms <= 0:
        return f"{ms}ms"
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, ms = divmod(ms, units.DURATIONS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts)


def show_seconds(seconds: float) -> str:
    """`0s`, `850ms`, `12s`, `3m20s`, `2h5m`, `4d3h`: two units at most, since nobody reads more of a lag."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    left, parts = round(seconds), []
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60), ("s", 1)):
        count, left = divmod(left, size)
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
    return "".join(parts[:2])


def _bounded(value: int, text: str) -> int:
    if value > MAX_LONG:
        raise usage(f"{text!r} is more than a 64-bit number holds")
    return value
