"""Times and lengths of time as a pipeline's file writes them."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from headrace.spark.errors import InvalidOption

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
_INTERVAL: Final = re.compile(r"([0-9]+) ?(ms|s|m|h|milliseconds?|seconds?|minutes?|hours?|days?)")
_UNITS: Final = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}
_SECONDS: Final = {"milliseconds": 0.001, "seconds": 1.0, "minutes": 60.0, "hours": 3600.0, "days": 86400.0}


def interval(text: str) -> str:
    """A length of time as Spark writes it."""
    found = _INTERVAL.fullmatch(text.strip())
    if found is None:
        raise InvalidOption(f"{text!r} is no length of time; 10s, 5 minutes and 1 hour are")
    return f"{found[1]} {_UNITS.get(found[2], found[2])}"


def seconds(text: str) -> float:
    """Of what `interval` gives."""
    number, _, unit = text.partition(" ")
    return int(number) * _SECONDS[unit if unit.endswith("s") else f"{unit}s"]


def time_ms(text: str, where: str, others: str = "") -> int:
    """Of an ISO time; without a zone it is UTC, and a date is its first moment. `others`: what may stand there too."""
    try:
        at = datetime.fromisoformat(text.replace("Z", "+00:00") if not _DATE.fullmatch(text) else text)
    except ValueError:
        raise InvalidOption(f"{where} {text!r} is no time; {others}2026-01-31T12:00:00Z is") from None
    return int((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)
