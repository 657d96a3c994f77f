"""MessagePack's forms: what a value's first byte says, and the smallest way to write each kind.

00-7f  number             c0     nil            c7-c9  ext, length of 1, 2, 4 bytes    d9-db  text
80-8f  map                c1     never used     ca cb  float of 4, 8 bytes             dc dd  array
90-9f  array              c2 c3  false, true    cc-cf  unsigned of 1, 2, 4, 8 bytes    de df  map
a0-bf  text               c4-c6  bytes          d0-d3  signed; d4-d8 ext of 1 to 16    e0-ff  number -32 to -1
"""

from __future__ import annotations

import struct

from headrace.ports import Buffer

MAX_DEPTH = 128  # containers inside of each other in one value: nobody's data, and every reader's stack
NEVER = 0xC1

NOT_A_VALUE = "a byte that no value begins with"
NOT_TEXT = "text that is not UTF-8"
TOO_DEEP = f"containers more than {MAX_DEPTH} deep inside of each other"


class Short(Exception):
    """More bytes are needed."""


class Fault(Exception):
    """Bytes that no more bytes can make right; the text says why."""


# How many bytes the length (or, for numbers, the number) behind the first byte has.
_BEHIND = {
    **dict.fromkeys((0xC4, 0xC7, 0xCC, 0xD0, 0xD9), 1),
    **dict.fromkeys((0xC5, 0xC8, 0xCD, 0xD1, 0xDA, 0xDC, 0xDE), 2),
    **dict.fromkeys((0xC6, 0xC9, 0xCE, 0xD2, 0xDB, 0xDD, 0xDF), 4),
    **dict.fromkeys((0xCF, 0xD3), 8),
}

TEXT, BYTES, EXT, ARRAY, MAP, INT, PLAIN = range(7)
_KINDS = {
    **dict.fromkeys((0xD9, 0xDA, 0xDB), TEXT),
    **dict.fromkeys((0xC4, 0xC5, 0xC6), BYTES),
    **dict.fromkeys((0xC7, 0xC8, 0xC9), EXT),
    **dict.fromkeys((0xDC, 0xDD), ARRAY),
    **dict.fromkeys((0xDE, 0xDF), MAP),
    **dict.fromkeys((0xCC, 0xCD, 0xCE, 0xCF, 0xD0, 0xD1, 0xD2, 0xD3), INT),
}


def head(data: Buffer, at: int, end: int) -> tuple[int, int, int]:
    """(kind, number, where it goes on): the number is a length in bytes, a count of entries, or the value of INT; of
    PLAIN, which has neither, how many bytes still follow. The type of an ext counts as its first byte."""
    if at >= end:
        raise Short
    first = data[at]
    at += 1
    if first < 0x80:
        return INT, first, at
    if first < 0xC0:
        if first >= 0xA0:
            return TEXT, first & 0x1F, at
        return (MAP if first < 0x90 else ARRAY), first & 0x0F, at
    if first >= 0xE0:
        return INT, first - 0x100, at
    kind, size = _KINDS.get(first), _BEHIND.get(first, 0)
    if kind is None:
        if first == NEVER:
            raise Fault(NOT_A_VALUE)
        if 0xD4 <= first <= 0xD8:
            return EXT, 1 + (1 << (first - 0xD4)), at
        return PLAIN, {0xCA: 4, 0xCB: 8}.get(first, 0), at
    if end - at < size:
        raise Short
    number = int.from_bytes(data[at : at + size], "big", signed=0xD0 <= first <= 0xD3)
    return kind, number + 1 if kind == EXT else number, at + size


def write_int(out: bytearray, number: int) -> None:
    if -32 <= number < 128:
        out.append(number & 0xFF)
    elif number >= 0:
        for first, layout, limit in _UNSIGNED:
            if number < limit:
                out += struct.pack(layout, first, number)
                return
    else:
        for first, layout, limit in _SIGNED:
            if number >= -limit:
                out += struct.pack(layout, first, number)
                return


_UNSIGNED = ((0xCC, ">BB", 1 << 8), (0xCD, ">BH", 1 << 16), (0xCE, ">BI", 1 << 32), (0xCF, ">BQ", 1 << 64))
_SIGNED = ((0xD0, ">Bb", 1 << 7), (0xD1, ">Bh", 1 << 15), (0xD2, ">Bi", 1 << 31), (0xD3, ">Bq", 1 << 63))
# Of each kind: the first byte of the shortest form and how many it holds, then the longer forms from 1, 2, 4 bytes on.
_LENGTHS = {
    TEXT: (0xA0, 32, (0xD9, 0xDA, 0xDB)),
    BYTES: (0, 0, (0xC4, 0xC5, 0xC6)),
    ARRAY: (0x90, 16, (None, 0xDC, 0xDD)),
    MAP: (0x80, 16, (None, 0xDE, 0xDF)),
}


def write_length(out: bytearray, kind: int, length: int) -> None:
    short, limit, longer = _LENGTHS[kind]
    if length < limit:
        out.append(short | length)
        return
    one, two, four = longer
    if length < 1 << 8 and one is not None:
        out += struct.pack(">BB", one, length)
    elif length < 1 << 16:
        out += struct.pack(">BH", two, length)
    else:
        out += struct.pack(">BI", four, length)


def write_ext(out: bytearray, content: bytes) -> None:
    """The type and what follows it."""
    length = len(content) - 1
    if length in (1, 2, 4, 8, 16):
        out.append(0xD4 + length.bit_length() - 1)
    elif length < 1 << 8:
        out += struct.pack(">BB", 0xC7, length)
    elif length < 1 << 16:
        out += struct.pack(">BH", 0xC8, length)
    else:
        out += struct.pack(">BI", 0xC9, length)
    out += content


def write_text(out: bytearray, text: bytes) -> None:
    write_length(out, TEXT, len(text))
    out += text
