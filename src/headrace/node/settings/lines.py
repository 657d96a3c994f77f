"""On which line of a file a key stands: the readers of TOML and JSON do not say, and a problem without its line is half
a problem.

Both scanners walk text that its reader has already accepted, so they only have to find keys, never to judge. What
stands within a list or an inline table has the line of the key that it belongs to.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

Path = tuple[str, ...]

_PART = re.compile(r"""[ \t]*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))[ \t]*""")
_SPACE = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'''"""(?:[^\\]|\\.)*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:[^"\\\n]|\\.)*"|'[^'\n]*\'''', re.DOTALL)
_COMMENT = re.compile(r"#[^\n]*")


def in_toml(text: str) -> Iterator[tuple[Path, int]]:
    section: Path = ()
    at = _past_space(text, 0)
    while at < len(text):
        line = text.count("\n", 0, at) + 1
        if text[at] == "#":
            at = _past_line(text, at)
        elif text[at] == "[":
            section, _ = _path(text, at + (2 if text.startswith("[[", at) else 1))
            yield section, line
            at = _past_line(text, at)
        else:
            path, at = _path(text, at)
            yield section + path, line
            at = _past_value(text, at)
        at = _past_space(text, at)


def in_json(text: str) -> Iterator[tuple[Path, int]]:
    """The same path twice, where an object says a thing twice: JSON's own reader keeps silent about that."""
    yield from _object(text, _past_space(text, 0), (), [])


def _object(text: str, at: int, above: Path, ends: list[int]) -> Iterator[tuple[Path, int]]:
    """`ends` gets the place behind it."""
    decoder = json.JSONDecoder()
    at = _past_space(text, at + 1)
    while text[at] != "}":
        key, after = decoder.raw_decode(text, at)
        path = (*above, key)
        yield path, text.count("\n", 0, at) + 1
        at = _past_space(text, _past_space(text, after) + 1)
        if text[at] == "{":
            yield from _object(text, at, path, ends)
            at = ends.pop()
        else:
            _, at = decoder.raw_decode(text, at)
        at = _past_space(text, at)
        if text[at] == ",":
            at = _past_space(text, at + 1)
    ends.append(at + 1)


def _path(text: str, at: int) -> tuple[Path, int]:
    parts: list[str] = []
    while (match := _PART.match(text, at)) is not None:
        escaped, literal, bare = match.groups()
        parts.append(json.loads(f'"{escaped}"') if escaped is not None else literal if literal is not None else bare)
        at = match.end()
        if text[at : at + 1] != ".":
            break
        at += 1
    return tuple(parts), at


def _past_value(text: str, at: int) -> int:
    depth = 0
    while at < len(text):
        char = text[at]
        if char in "\"'" and (string := _STRING.match(text, at)) is not None:
            at = string.end()
            continue
        if char == "#":
            at = _past_line(text, at)
            continue
        if char == "\n" and depth == 0:
            return at
        depth += (char in "[{") - (char in "]}")
        at += 1
    return at


def _past_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _past_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    assert match is not None
    return match.end()
