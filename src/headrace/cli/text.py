r"""Escapes that people type where a shell hands on no control characters: \n \r \t \0 \\ \xNN."""

from __future__ import annotations

import re

from headrace.cli.exits import usage

SIMPLE = {"n": b"\n", "r": b"\r", "t": b"\t", "0": b"\0", "\\": b"\\", "e": b"\x1b"}
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|.|$)", re.DOTALL)


def unescaped(text: str) -> bytes:
    made, at = b"", 0
    for match in _ESCAPE.finditer(text):
        made += raw(text[at : match.start()])
        at = match.end()
        name = match[1]
        if name in SIMPLE:
            made += SIMPLE[name]
        elif len(name) == 3:
            made += bytes.fromhex(name[1:])
        else:
            raise usage(f"{match[0]!r} in {text!r} is not an escape", r"\n \r \t \0 \\ \xNN")
    return made + raw(text[at:])


def raw(text: str) -> bytes:
    """The bytes that were typed, also where they were no UTF-8."""
    return text.encode("utf-8", "surrogateescape")
