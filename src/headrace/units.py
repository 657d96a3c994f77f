"""Sizes and durations as people write them: `64MiB`, `10m`, `1h30m`. A plain number has the unit of the setting's name
(`-bytes`, `-ms`).

`K`, `M`, `G` and `T` count in 1,024 as `KiB` does; `KB`, `MB`, `GB` and `TB` in 1,000. Written back, a value gets the
largest unit that divides it, so that reading it again gives the same number.
"""

from __future__ import annotations

import re

SIZES = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", start=1):
    SIZES |= {_letter: 1 << (10 * _power), f"{_letter}ib": 1 << (10 * _power), f"{_letter}b": 1000**_power}
DURATIONS_MS = {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}

_SIZE_NAMES = (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10))
_DURATION_NAMES = (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000))
_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


def size(text: str) -> int:
    """Bytes. ValueError where that is none."""
    match = _PART.fullmatch(text.strip())
    factor = SIZES.get(match[2].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f"no size: {text!r}")
    return _times(match[1], factor, text)


def duration_ms(text: str) -> int:
    """Milliseconds; parts may stand behind each other. ValueError where that is none."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return int(text)
    total, at = 0, 0
    while at < len(text):
        match = _PART.match(text, at)
        factor = DURATIONS_MS.get(match[2].lower()) if match else None
        if match is None or factor is None:
            raise ValueError(f"no duration: {text!r}")
        total += _times(match[1], factor, text)
        at = match.end()
    if not text:
        raise ValueError("no duration: it is empty")
    return total


def size_text(value: int) -> str:
    return _text(value, _SIZE_NAMES) or str(value)


def duration_text(value_ms: int) -> str:
    return _text(value_ms, _DURATION_NAMES) or (f"{value_ms}ms" if value_ms > 0 else str(value_ms))


def _text(value: int, names: tuple[tuple[str, int], ...]) -> str | None:
    return next((f"{value // factor}{name}" for name, factor in names if value > 0 and value % factor == 0), None)


def _times(number: str, factor: int, text: str) -> int:
    """Without floats: 0.1s are a hundred milliseconds, not nearly."""
    whole, _, decimals = number.partition(".")
    parts: int = 10 ** len(decimals)
    value, rest = divmod(int(whole + decimals) * factor, parts)
    if rest:
        raise ValueError(f"{text!r} is not a whole number of the smallest unit")
    return value
