"""The files in which the original of this protocol kept its messages, read without any file being touched here.

A topic `chat` is `chat.log`: one JSON object a line, with the keys id, offset, ts and msg. A line's offset is its
number from 1 on. Older files have no ids or offsets. What is no such object is told as a `Fault` with its line, and
reading goes on behind it: a torn last line is what a crash leaves, and costs no other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from headrace.records.record import Record
from headrace.wire.lines.commands import MAX_ID_BYTES, MAX_SECONDS
from headrace.wire.lines.messages import headers_of

SUFFIX = ".log"
MAX_LINE_BYTES = 16 << 20  # far over what the protocol let in, which is 64 KiB and its escapes


class Stored(NamedTuple):
    line: int  # from 1 on
    id: str | None
    offset: int
    time_ms: int
    text: str

    def record(self) -> Record:
        """As the door would have written it: the id as header `id`, the text as value."""
        return Record(None, self.text.encode("utf-8", "replace"), headers_of(self.text, self.id), self.time_ms)


class Fault(NamedTuple):
    line: int
    why: str
    is_cut: bool = False  # a line without an end: what a crash leaves at the end of a file


def topic_of(file_name: str) -> str | None:
    """None: no file of messages."""
    return file_name.removesuffix(SUFFIX) or None if file_name.endswith(SUFFIX) else None


def messages(chunks: Iterable[bytes]) -> Iterator[Stored | Fault]:
    """Of one file, read in pieces of any size. No more than a piece and a line are held."""
    for number, (line, is_whole) in enumerate(_lines(chunks), 1):
        if line is None:
            yield Fault(number, f"it is longer than {MAX_LINE_BYTES} bytes", is_cut=not is_whole)
        elif not line.isspace() and line:
            found = _message(number, line)
            yield found if is_whole or isinstance(found, Stored) else found._replace(is_cut=True)


def _lines(chunks: Iterable[bytes]) -> Iterator[tuple[bytes | None, bool]]:
    """None for one that is over the limit; and whether it has an end."""
    rest, skipping = b"", False
    for chunk in chunks:
        *whole, rest = (rest + chunk).split(b"\n")
        for line in whole:
            yield None if skipping or len(line) > MAX_LINE_BYTES else line, True
            skipping = False
        if len(rest) > MAX_LINE_BYTES:
            rest, skipping = b"", True
    if skipping or rest:
        yield None if skipping else rest, False


def _message(number: int, line: bytes) -> Stored | Fault:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Fault(number, f"it is not JSON: {error}")
    if not isinstance(found, dict):
        return Fault(number, "it is not a JSON object")
    text, time, offset, own = found.get("msg"), found.get("ts"), found.get("offset", number), found.get("id")
    if not isinstance(text, str):
        return Fault(number, "it has no text under msg")
    if isinstance(time, bool) or not isinstance(time, int | float) or not _is_time(time):
        return Fault(number, "it has no time in seconds under ts")
    if isinstance(offset, bool) or not isinstance(offset, int):
        return Fault(number, "its offset is not a number")
    if own is not None and (not isinstance(own, str) or not own or len(own.encode("utf-8", "replace")) > MAX_ID_BYTES):
        return Fault(number, f"its id is not a text of 1 to {MAX_ID_BYTES} bytes")
    return Stored(number, own, offset, round(time * 1000), text)


def _is_time(seconds: float) -> bool:
    return 0 <= seconds < MAX_SECONDS  # nan is not
