"""Frames without a socket: the same texts however the bytes come, what is refused, and answers in their order."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.http.websocket.framing import Framing, text_frame
from headrace.doors.http.websocket.owed import Owed

TEXT, BINARY, CONT, CLOSE, PING, PONG = 0x1, 0x2, 0x0, 0x8, 0x9, 0xA


def frame(opcode: int, data: bytes, fin: bool = True, mask: bytes = b"\x01\x02\x03\x04") -> bytes:
    """As a client sends it: masked."""
    size = len(data)
    match size:
        case _ if size < 126:
            length = bytes([0x80 | size])
        case _ if size < 1 << 16:
            length = b"\xfe" + struct.pack(">H", size)
        case _:
            length = b"\xff" + struct.pack(">Q", size)
    masked = bytes(byte ^ mask[place % 4] for place, byte in enumerate(data))
    return bytes([(0x80 if fin else 0) | opcode]) + length + mask + masked


def code_of(sent: bytes) -> int:
    """Of the close frame that it ends with."""
    at = sent.rindex(b"\x88")
    return int(struct.unpack(">H", sent[at + 2 : at + 4])[0])


@given(st.lists(st.tuples(st.text(max_size=200), st.integers(1, 4))), st.integers(1, 50))
def test_texts_come_whole_in_whatever_pieces_and_fragments_they_were_sent(
    sent: list[tuple[str, int]], size: int
) -> None:
    data = b""
    for text, parts in sent:
        raw = text.encode()
        cuts = [raw[len(raw) * n // parts : len(raw) * (n + 1) // parts] for n in range(parts)]
        for place, cut in enumerate(cuts):
            data += frame(CONT if place else TEXT, cut, fin=place + 1 == parts) + frame(PING, b"!")
    framing = Framing(10_000)
    found = [text for at in range(0, len(data), size) for text in framing.receive(data[at : at + size])]
    assert found == [text.encode() for text, _ in sent]
    assert framing.is_open and not framing.is_partial and framing.held_bytes == 0
    assert framing.to_send() == (b"\x8a\x01!" * sum(parts for _, parts in sent), False)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (frame(BINARY, b"x"), 1003),
        (frame(BINARY, b"x", fin=False), 1003),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(TEXT, b"\xc3", fin=False) + frame(CONT, b"x"), 1007),
        (frame(TEXT, b"x" * 1001)[:14], 1009),
        (frame(TEXT, b"x" * 600, fin=False) + frame(CONT, b"x" * 401), 1009),
        (frame(CONT, b"x"), 1002),
        (frame(TEXT, b"x", fin=False) + frame(TEXT, b"x"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, b"x", fin=False), 1002),
        (frame(0x3, b"x"), 1002),
        (b"\x81\x01x", 1002),
        (b"\xc1\x80\0\0\0\0", 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xed"), 1002),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ],
)
def test_what_we_do_not_take_is_refused_with_its_code_and_the_rest_is_thrown_away(data: bytes, code: int) -> None:
    framing = Framing(1000)
    assert framing.receive(data) == []
    sent, is_last = framing.to_send()
    assert (code_of(sent), is_last) == (code, True)
    assert framing.is_ended and not framing.is_open
    for _ in range(100):
        assert framing.receive(frame(TEXT, b"more" * 100)) == []
    assert framing.held_bytes <= 1000
    assert framing.to_send() == (b"", False)


def test_texts_before_a_refused_frame_of_the_same_read_are_still_taken() -> None:
    framing = Framing(1000)
    assert framing.receive(frame(TEXT, b"one") + frame(BINARY, b"x") + frame(TEXT, b"two")) == [b"one"]


def test_what_is_held_of_a_text_is_known() -> None:
    framing = Framing(1000)
    framing.receive(frame(TEXT, b"x" * 300, fin=False))
    framing.receive(frame(CONT, b"x" * 200)[:-50])
    assert framing.is_partial
    assert 450 <= framing.held_bytes <= 460
    for _ in range(1000):
        framing.receive(frame(PING, b""))  # is read as the rest of the frame, and then as what it is
    assert framing.held_bytes <= 300 + 208


def test_a_close_is_answered_with_its_own_code_and_reasons_are_cut_to_what_fits() -> None:
    framing = Framing(1000)
    framing.receive(frame(CLOSE, b"\x03\xe8bye"))
    assert framing.to_send() == (b"\x88\x05\x03\xe8bye", True)
    other = Framing(1000)
    other.close(1001, "é" * 200)
    sent, is_last = other.to_send()
    assert (sent[1], is_last) == (2 + 122, False)
    sent[4:].decode()


def test_a_text_frame_has_the_shortest_length() -> None:
    assert text_frame(b"x" * 125)[:2] == b"\x81\x7d"
    assert text_frame(b"x" * 126)[:4] == b"\x81\x7e\x00\x7e"
    assert text_frame(b"x" * 65536)[:10] == b"\x81\x7f" + struct.pack(">Q", 65536)


@given(st.permutations(range(6)))
def test_answers_leave_in_the_order_of_what_was_asked(order: list[int]) -> None:
    owed = Owed()
    debts = [owed.add(10) for _ in range(6)]
    left = b""
    for settled, place in enumerate(order, 1):
        left += owed.settle(debts[place], b"%d" % place)
        assert left == b"012345"[: len(left)]
        assert owed.held_bytes == 10 * len(owed) == 10 * (6 - len(left))
        assert len(left) <= settled
    assert left == b"012345"
