"""What the text of a setting may be: one small parser for each kind of value. A parser gives the meaning, or raises
InvalidConfig with what the setting takes; who calls it puts the setting's name in front.

Text around a value is cut off as Kafka does it, and numbers are Java's: ASCII digits with a sign, no underscores.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable

from headrace.errors import InvalidConfig

MAX_LONG = (1 << 63) - 1
MAX_INT = (1 << 31) - 1
MAX_ACKS = 1000  # replicas that somebody may wait for: more than any cluster of ours has nodes
MAX_SHOWN = 60  # characters of a refused value in its error: it may be a stranger's megabyte

Value = int | float | str
Parse = Callable[[str], Value]

_WHOLE = re.compile(r"[+-]?[0-9]{1,19}", re.ASCII)


def whole(low: int, high: int) -> Parse:
    def parse(text: str) -> Value:
        text = text.strip()
        if not _WHOLE.fullmatch(text):
            raise InvalidConfig(f"takes a whole number, not {shown(text)}")
        value = int(text)
        if not low <= value <= high:
            raise InvalidConfig(f"takes {low} to {high}, not {value}")
        return value

    return parse


def ratio(text: str) -> Value:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise InvalidConfig(f"takes 0 to 1, not {shown(text)}")
    return value


def boolean(text: str) -> Value:
    value = text.strip().lower()
    if value not in ("true", "false"):
        raise InvalidConfig(f"takes true or false, not {shown(text)}")
    return value


def one_of(*choices: str) -> Parse:
    def parse(text: str) -> Value:
        if text.strip() not in choices:
            raise InvalidConfig(f"takes {' or '.join(choices)}, not {shown(text)}")
        return text.strip()

    return parse


def acks(text: str) -> Value:
    """A level of acknowledgement."""
    value = text.strip().lower()
    if value in ("all", "-1"):
        return "all"
    if not (_WHOLE.fullmatch(value) and 0 <= int(value) <= MAX_ACKS):
        raise InvalidConfig(f"takes 0, 1, all or a number of replicas up to {MAX_ACKS}, not {shown(text)}")
    return str(int(value))


def only(value: str, why: str) -> Parse:
    """For what Kafka lets people choose and we do not: the one value that is true here."""

    def parse(text: str) -> Value:
        if text.strip().lower() != value:
            raise InvalidConfig(f"takes {value!r} alone, not {shown(text)}: {why}")
        return value

    return parse


def some_of(*choices: str) -> Parse:
    """A list: one or several of the choices, each once."""

    def parse(text: str) -> Value:
        parts = [part.strip() for part in text.split(",")]
        if len(set(parts)) != len(parts) or not set(parts) <= set(choices):
            raise InvalidConfig(f"takes {' or '.join(choices)}, or several with commas, not {shown(text)}")
        return ",".join(parts)

    return parse


def shown(text: str) -> str:
    return repr(text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…")
