r"""What the server says: replies, and messages as lines.

A message is `<verb> <topic> <id> <offset> <time> <text>`, the verb MSG or HISTORY, the time in seconds as the shortest
decimal fraction that reads back as the same number.

A text that came in through this protocol stands in its line as it is. Any other value is escaped (backslash, LF and CR
as \\, \n and \r), so that it stays one line and can be told from every other such value; bytes that are not text stand
as {"base64": "..."}, as in the json protocol, and null as nothing.

Which of the two a record is matters only where escaping would change something, so only such texts carry a mark (`RAW`)
beside their id. A mark on what cannot have come in here, because a line end is in it, does not count.
"""

from __future__ import annotations

import base64
from typing import Final, NamedTuple

from headrace.records.record import Headers

GREETING = b"OK connected\n"
PONG = b"OK pong\n"
BYE = b"OK bye\n"
PUBLISHED = b"OK published\n"
DUPLICATE = b"OK duplicate\n"
HISTORY_END = b"OK history end\n"
MESSAGE, HISTORY = "MSG", "HISTORY"
ID: Final = "id"
RAW: Final = ("lines", b"raw")  # the header of a text that came in here, and that escaping would change

_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r"})
_UNESCAPES = {"\\": "\\", "n": "\n", "r": "\r"}


class Message(NamedTuple):
    topic: str
    id: str
    offset: int
    time: float  # seconds since 1970
    text: str


class Reply(NamedTuple):
    is_ok: bool
    text: str  # behind OK or ERR


# Written by the server


def subscribed(topic: str, group: str | None, acknowledged: bool) -> bytes:
    if group is None:
        return f"OK subscribed {topic}\n".encode()
    how = " with acknowledgement" if acknowledged else ""
    return f"OK subscribed {topic} in group {group}{how}\n".encode()


def acknowledged(message_id: str) -> bytes:
    return f"OK acknowledged {message_id}\n".encode()


def not_pending(message_id: str) -> bytes:
    return f"ERR no message {message_id} waits for your acknowledgement\n".encode()


def failed(error: BaseException) -> bytes:
    """One line, whatever the error's text quotes."""
    return f"ERR {type(error).__name__}: {escape(str(error))}\n".encode("utf-8", "replace")


def line(verb: str, topic: str, message_id: str, offset: int, time_ms: int, text: str) -> str:
    """With its end. `offset` as it is shown: the first is 1."""
    return f"{verb} {topic} {message_id} {offset} {time_ms / 1000!r} {text}\n"


def headers_of(text: str, message_id: str | None) -> Headers:
    """Of a text that came in here."""
    own: Headers = () if message_id is None else ((ID, message_id.encode("utf-8", "replace")),)
    return (*own, RAW) if ("\\" in text or "\r" in text) and "\n" not in text else own


def text_of(value: bytes | None, is_raw: bool) -> str:
    """A value as it stands in its line."""
    if not value:
        return ""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        return '{"base64": "' + base64.b64encode(value).decode() + '"}'
    return text if is_raw and "\n" not in text else escape(text)


def escape(text: str) -> str:
    return text.translate(_ESCAPES) if "\\" in text or "\n" in text or "\r" in text else text


# Read by the client


def parse(line: str) -> Message | Reply | None:
    """None: no line of this protocol."""
    verb, _, rest = line.partition(" ")
    if verb in (MESSAGE, HISTORY):
        words = rest.split(" ", 4)
        if len(words) < 5:
            return None
        topic, message_id, offset, time, text = words
        try:
            return Message(topic, message_id, int(offset), float(time), text)
        except ValueError:
            return None
    return Reply(verb == "OK", rest) if verb in ("OK", "ERR") else None


def unescape(text: str) -> str:
    """The value of another protocol behind the text of a message."""
    if "\\" not in text:
        return text
    parts, at = [], 0
    while (found := text.find("\\", at)) >= 0 and found + 1 < len(text):
        parts.append(text[at:found])
        parts.append(_UNESCAPES.get(text[found + 1], text[found : found + 2]))
        at = found + 2
    return "".join(parts) + text[at:]
