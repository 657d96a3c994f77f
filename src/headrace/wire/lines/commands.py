"""What a client says: one line to one command, or to the refusal that answers it.

Words are parted by any white space; a message keeps its inner white space and loses what stands around it. PING and
QUIT are taken in any case, all other verbs in capitals only. A verb without anything behind it is unknown, as in the
original, except SUB, whose usage we tell. SUBACK, ACK, RANGE, SINCE and `PUB <topic> --id <id>` are ours.
"""

from __future__ import annotations

import datetime
import math
from typing import NamedTuple

from headrace.wire.ranges import ms_of

ID_OPTION = "--id"
# An id goes out with every delivery, and is kept for the time of a deduplication window.
MAX_ID_BYTES = 200
MAX_SECONDS = 1e13  # of a time since 1970: its milliseconds fit a timestamp
FLOAT_MS = 0.001  # what a float of seconds does not tell apart is the same time; more than that is the next millisecond

_PUB = "ERR usage: PUB <topic> <message>"
_PUB_ID = "ERR usage: PUB <topic> --id <id> <message>"
_SUB = "ERR usage: SUB <topic> [group]"
_SUBACK = "ERR usage: SUBACK <topic> <group>"
_ACK = "ERR usage: ACK <id>"
_HISTORY = "ERR usage: HISTORY <topic> <n>"
_RANGE = "ERR usage: RANGE <topic> <from> <to> [limit]"
_SINCE = "ERR usage: SINCE <topic> <time> [limit]"
_NOT_INTEGER = "ERR n must be an integer"
_NOT_INTEGERS = "ERR from, to and limit must be integers, limit at least 1"
_NOT_LIMIT = "ERR limit must be an integer, at least 1"
_NOT_TIME = "ERR time must be seconds since 1970, or ISO 8601 as in 2026-01-31T12:00:00Z"
_LONG_ID = f"ERR an id has at most {MAX_ID_BYTES} bytes"


class Ping(NamedTuple):
    pass


class Quit(NamedTuple):
    pass


class Subscribe(NamedTuple):
    topic: str
    group: str | None = None
    acknowledged: bool = False  # each message by the client; otherwise it is when it is sent


class Publish(NamedTuple):
    topic: str
    text: str
    id: str | None = None


class Acknowledge(NamedTuple):
    id: str


class History(NamedTuple):
    """The last `number`; 0: all; less than 0: all but so many of the first."""

    topic: str
    number: int


class Range(NamedTuple):
    """By offsets as they are shown, both included; `limit` None: all of them."""

    topic: str
    first: int
    last: int
    limit: int | None


class Since(NamedTuple):
    topic: str
    time_ms: int
    limit: int | None


class Refused(NamedTuple):
    reply: str


Command = Ping | Quit | Subscribe | Publish | Acknowledge | History | Range | Since | Refused
PING, QUIT = Ping(), Quit()


def parse(line: str) -> Command | None:
    """None for an empty line."""
    line = line.strip()
    verb, space, _ = line.partition(" ")
    if space and verb == "PUB":
        return _publish(line)
    reader = _READERS.get(verb) if space or verb in _WITHOUT_WORDS else None
    if reader is not None:
        return reader(line)
    if not line:
        return None
    upper = line.upper()
    if upper == "PING":
        return PING
    if upper == "QUIT":
        return QUIT
    return Refused(f"ERR unknown command: {line}")


def _publish(line: str) -> Command:
    words = line.split(maxsplit=2)
    if len(words) < 3:
        return Refused(_PUB)
    _, topic, text = words
    if text.startswith(ID_OPTION):
        option, *rest = text.split(maxsplit=2)
        if option == ID_OPTION:
            if len(rest) < 2:
                return Refused(_PUB_ID)
            if len(rest[0].encode()) > MAX_ID_BYTES:
                return Refused(_LONG_ID)
            return Publish(topic, rest[1], rest[0])
    return Publish(topic, text)


def _subscribe(line: str) -> Command:
    words = line.split()
    if len(words) < 2:
        return Refused(_SUB)
    return Subscribe(words[1], words[2] if len(words) > 2 else None)


def _subscribe_acknowledged(line: str) -> Command:
    words = line.split()
    if len(words) < 3:
        return Refused(_SUBACK)
    return Subscribe(words[1], words[2], True)


def _acknowledge(line: str) -> Command:
    words = line.split()
    return Acknowledge(words[1]) if len(words) == 2 else Refused(_ACK)


def _history(line: str) -> Command:
    words = line.split(maxsplit=2)
    if len(words) < 3:
        return Refused(_HISTORY)
    number = _integer(words[2])
    return Refused(_NOT_INTEGER) if number is None else History(words[1], number)


def _range(line: str) -> Command:
    words = line.split()
    if len(words) not in (4, 5):
        return Refused(_RANGE)
    numbers = [number for word in words[2:] if (number := _integer(word)) is not None]
    if len(numbers) < len(words) - 2 or (len(numbers) == 3 and numbers[2] < 1):
        return Refused(_NOT_INTEGERS)
    return Range(words[1], numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else None)


def _since(line: str) -> Command:
    words = line.split()
    if len(words) not in (3, 4):
        return Refused(_SINCE)
    time_ms = _time_ms(words[2])
    if time_ms is None:
        return Refused(_NOT_TIME)
    if len(words) == 3:
        return Since(words[1], time_ms, None)
    limit = _integer(words[3])
    return Refused(_NOT_LIMIT) if limit is None or limit < 1 else Since(words[1], time_ms, limit)


def _integer(word: str) -> int | None:
    try:
        return int(word)
    except ValueError:
        return None


def _time_ms(word: str) -> int | None:
    try:
        seconds = float(word)
    except ValueError:
        try:
            at = datetime.datetime.fromisoformat(word)
            return ms_of(at if at.tzinfo else at.replace(tzinfo=datetime.UTC))
        except (ValueError, OverflowError):
            return None
    # A nan is not less than anything.
    return math.ceil(seconds * 1000 - FLOAT_MS) if abs(seconds) < MAX_SECONDS else None


_READERS = {
    "SUB": _subscribe,
    "HISTORY": _history,
    "SUBACK": _subscribe_acknowledged,
    "ACK": _acknowledge,
    "RANGE": _range,
    "SINCE": _since,
}
_WITHOUT_WORDS = frozenset(("SUB", "SUBACK", "ACK", "RANGE", "SINCE"))  # usage is told of these when they stand alone
