r"""Where JSON text ends that begins with a bracket, and how deep its brackets are: without parsing it.

Escaped quotes are left out first, then text in quotes, then everything that is no bracket, then pairs that close at
once: each by whole pieces, at the speed of copying, whatever they hold. Only the few bytes among which the first
bracket is closed are looked at one by one. `{]` counts as closed, and a backslash outside of text as one in it: to find
that this is no JSON is for the parser.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import NamedTuple

_MARK = re.compile(rb'\\\\|\\"|["{}\[\]]')
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"{}[]")
_STEPS = bytes(2 if byte in b"{[" else 0 for byte in range(256))  # and one less: up by one, or down
_PASSES = 3  # of taking out pairs: lists of small things are mostly gone after them
_BLOCK_BYTES = 4096  # among which an end is looked for byte by byte
_BACKSLASH = b"\\"


class _State(NamedTuple):
    depth: int
    in_text: bool = False
    carried: bytes = b""  # a backslash at the end, whose meaning depends on what comes


class Brackets:
    """Of a document that comes in pieces, the first of which begins with its bracket."""

    __slots__ = ("_state",)

    def __init__(self) -> None:
        self._state = _State(0)

    def take(self, piece: bytes) -> int | None:
        """Behind the byte that closes the first bracket; None: it is not among these."""
        at = 0
        if not self._state.depth:
            self._state, at = _State(1), 1
        after = _after(self._state, piece[at:])
        if after is not None:
            self._state = after
            return None
        while True:
            block = piece[at : at + _BLOCK_BYTES]
            after = _after(self._state, block)
            if after is None:
                return at + _close(self._state, block)
            self._state = after
            at += _BLOCK_BYTES


def depth(document: bytes) -> int:
    """Brackets in brackets, at most."""
    steps = _bare(document, False)[0].translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(map((-1).__add__, steps)), default=0)


def _after(state: _State, piece: bytes) -> _State | None:
    """None: the first bracket is closed in it."""
    bare, in_text, carried = _bare(state.carried + piece, state.in_text)
    marks = bare.translate(None, _NO_BRACKETS)
    for _ in range(_PASSES):
        marks = marks.replace(b"{}", b"").replace(b"[]", b"")
    steps = marks.translate(_STEPS)
    ups = steps.count(2)
    downs = len(steps) - ups
    if downs >= state.depth and min(accumulate(map((-1).__add__, steps), initial=state.depth)) <= 0:
        return None
    return _State(state.depth + ups - downs, in_text, carried)


def _bare(piece: bytes, in_text: bool) -> tuple[bytes, bool, bytes]:
    """What is not text; whether it ends in text; and a backslash at its end."""
    carried = b""
    if _BACKSLASH in piece:
        piece = piece.replace(b"\\\\", b"")
        if piece.endswith(_BACKSLASH):
            piece, carried = piece[:-1], _BACKSLASH
        piece = piece.replace(b'\\"', b"")
    if b'"' not in piece:
        return (b"" if in_text else piece), in_text, carried
    parts = piece.split(b'"')
    return b"".join(parts[1::2] if in_text else parts[::2]), in_text ^ (len(parts) % 2 == 0), carried


def _close(state: _State, block: bytes) -> int:
    """Behind which byte of it, given that it is there."""
    depth, in_text, carried = state
    for found in _MARK.finditer(carried + block):
        mark = found[0]
        if mark == b'"':
            in_text = not in_text
        elif not in_text and mark[:1] != _BACKSLASH:
            depth += 1 if mark in b"{[" else -1
            if not depth:
                return found.end() - len(carried)
    raise AssertionError("the bracket is not closed here")
