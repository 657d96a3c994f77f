"""Bytes in, whole texts out; frames to be sent. No socket, no clock: the driver is websocket.py.

The protocol is that of the library `websockets`; here are a text's parts joined, and what we do not take is refused
with the right code: bytes (1003), what is no UTF-8 (1007), what is too large (1009, by the library, before it came).
What is held of a text that is not whole yet is known at any time.
"""

from __future__ import annotations

import logging

from websockets.frames import Close, CloseCode, Frame, Opcode
from websockets.protocol import SEND_EOF, SERVER, Protocol, State

NO_BYTES = "only text frames, please"
NO_UTF8 = "a text frame holds UTF-8"
REASON_BYTES = 123  # of a close frame
_QUIET = logging.Logger("headrace.websocket", logging.CRITICAL)  # not one of the process's loggers


class Framing:
    def __init__(self, max_bytes: int) -> None:
        self._protocol = Protocol(SERVER, max_size=max_bytes, logger=_QUIET)
        self._parts: bytearray | None = None  # of a text that came in fragments, so far
        self.frames = self.texts = 0  # that came whole

    @property
    def is_open(self) -> bool:
        """Neither side has begun to close."""
        return self._protocol.state is State.OPEN

    @property
    def is_ended(self) -> bool:
        """We have said our last byte."""
        return self._protocol.eof_sent

    @property
    def held_bytes(self) -> int:
        return len(self._protocol.reader.buffer) + len(self._parts or b"")

    @property
    def is_partial(self) -> bool:
        return self._parts is not None or bool(self._protocol.reader.buffer)

    @property
    def closed_by(self) -> Close | None:
        """What the client said when it closed."""
        return self._protocol.close_rcvd

    def receive(self, data: bytes | memoryview) -> list[bytes]:
        """Whole texts. Then `to_send`: pongs, and the answer to a close."""
        self._protocol.receive_data(data)  # type: ignore[arg-type]  # it is copied into a bytearray
        texts = []
        for event in self._protocol.events_received():
            assert isinstance(event, Frame)
            self.frames += 1
            text = self._take(event)
            if text is not None and self.is_open:
                texts.append(text)
        self.texts += len(texts)
        return texts

    def _take(self, frame: Frame) -> bytes | None:
        match frame.opcode:
            case Opcode.BINARY:
                self.fail(CloseCode.UNSUPPORTED_DATA, NO_BYTES)
            case Opcode.TEXT | Opcode.CONT:
                self._parts = bytearray() if self._parts is None else self._parts
                self._parts += frame.data
                if frame.fin:
                    text, self._parts = bytes(self._parts), None
                    if _is_utf8(text):
                        return text
                    self.fail(CloseCode.INVALID_DATA, NO_UTF8)
        return None

    def ping(self) -> None:
        if self.is_open:
            self._protocol.send_ping(b"")

    def close(self, code: int, reason: str) -> None:
        """The client answers, and then both end."""
        if self.is_open:
            self._protocol.send_close(code, _short(reason))

    def fail(self, code: int, reason: str) -> None:
        """Whatever the client still sends is thrown away."""
        self._parts = None
        if self.is_open:
            self._protocol.fail(code, _short(reason))

    def to_send(self) -> tuple[bytes, bool]:
        """Bytes, and whether they are the last."""
        pieces = self._protocol.data_to_send()
        return b"".join(pieces), SEND_EOF in pieces


def text_frame(text: bytes) -> bytes:
    return Frame(Opcode.TEXT, text).serialize(mask=False)


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def _short(reason: str) -> str:
    return reason.encode()[:REASON_BYTES].decode(errors="ignore")
