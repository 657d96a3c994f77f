"""Zigzag varints: small numbers of either sign in few bytes, seven bits to the byte, lowest first.

A number that its type can not hold, or that goes on past `end`, is refused. Longer forms than needed are
accepted, as every client accepts them.
"""

from __future__ import annotations

from headrace.errors import CorruptBatch
from headrace.ports import Buffer

INT = 32
LONG = 64


def read(buffer: Buffer, at: int, end: int, bits: int = INT) -> tuple[int, int]:
    """The number at `at`, and where it ends."""
    result = shift = 0
    while at < end:
        byte = buffer[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if result >> bits:
            break
        if byte < 0x80:
            return (result >> 1) ^ -(result & 1), at
        shift += 7
        if shift >= bits:
            break
    else:
        raise CorruptBatch("a number runs past the end")
    raise CorruptBatch(f"a number does not fit in {bits} bits")


def write(out: bytearray, number: int) -> None:
    zigzag = number << 1 if number >= 0 else (~number << 1) | 1
    while zigzag > 0x7F:
        out.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    out.append(zigzag)


def size(number: int) -> int:
    """How many bytes `write` gives it."""
    zigzag = number << 1 if number >= 0 else (~number << 1) | 1
    return max(1, -(-zigzag.bit_length() // 7))
