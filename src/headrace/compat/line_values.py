"""What the two line clients share: commands as bytes, and what comes sorted into replies, messages and history.

What the protocol would change on its way is refused before it is sent: a text with a line end, without anything but
white space, or with white space around it.
"""

from __future__ import annotations

import random
import time
from collections import deque

from headrace.errors import BufferFull, ClientError
from headrace.wire.lines import messages
from headrace.wire.lines.commands import ID_OPTION
from headrace.wire.lines.framing import MAX_LINE_BYTES, Lines
from headrace.wire.lines.messages import Message, Reply

HOST, PORT = "127.0.0.1", 8888
TIMEOUT_S = 10.0
READ_BYTES = 256 << 10
PIPELINED = 500  # publishes that are sent before their replies are read: below what a server lets be under way
MAX_WAITING = 100_000  # messages that came while a reply was waited for, and nobody has taken
MAX_RECEIVED_LINE = 300 << 20  # the largest message of any topic, 128 MiB, with every byte of it escaped


Told = tuple[Reply, list[Message]]  # a reply, and the history that came before it


class LineRefused(ClientError):
    """The server's ERR, or what it would not take as it is."""


class Inbox:
    """Sorts what comes, sans-IO."""

    def __init__(self) -> None:
        self._lines = Lines(MAX_RECEIVED_LINE)
        self.replies: deque[Told] = deque()
        self.messages: deque[Message] = deque()
        self._history: list[Message] = []

    def take(self, data: bytes) -> None:
        for line in self._lines.take(data):
            found = messages.parse(line)
            if isinstance(found, Reply):
                self.replies.append((found, self._history))
                self._history = []
            elif found is not None:
                (self._history if line.startswith(messages.HISTORY) else self.messages).append(found)
            else:
                raise LineRefused(f"this is no line of the protocol: {line[:100]!r}")
        if self._lines.is_overlong:
            raise LineRefused(f"a line of more than {MAX_RECEIVED_LINE} bytes came: nothing after it can be read")
        if len(self.messages) > MAX_WAITING:
            raise BufferFull(f"{MAX_WAITING} messages wait to be taken: take them between requests")


def publish(topic: str, text: str, message_id: str | None) -> bytes:
    _check_word("topic", topic)
    if not text.strip() or "\n" in text or text != text.strip():
        raise LineRefused("a message has one line, and neither begins nor ends with white space")
    if message_id is None and text.split(maxsplit=1)[0] == ID_OPTION:  # it would be read as the option
        message_id = f"msg_{time.time_ns() // 1_000_000}_{random.randrange(1 << 32):08x}"
    if message_id is not None:
        _check_word("id", message_id)
        text = f"{ID_OPTION} {message_id} {text}"
    line = f"PUB {topic} {text}".encode()
    if len(line) > MAX_LINE_BYTES:
        raise LineRefused(f"a line has at most {MAX_LINE_BYTES} bytes, this one has {len(line)}")
    return line + b"\n"


def command(verb: str, *words: str | int | float | None) -> bytes:
    given = [word if isinstance(word, str) else repr(word) for word in words if word is not None]
    for word in given:
        _check_word("word", word)
    return (" ".join((verb, *given)) + "\n").encode()


def subscribe(topic: str, group: str | None, acknowledge: bool) -> bytes:
    if acknowledge and group is None:
        raise LineRefused("only the members of a group acknowledge")
    return command("SUBACK" if acknowledge else "SUB", topic, group)


def accepted(reply: Reply) -> str:
    if not reply.is_ok:
        raise LineRefused(reply.text)
    return reply.text


def is_stored(reply: Reply) -> bool:
    """False: its id was known."""
    return accepted(reply) != "duplicate"


def _check_word(what: str, word: str) -> None:
    if not word or word.split() != [word]:
        raise LineRefused(f"the {what} is one word, not {word!r}")
