r"""printf-like formats of records, as kcat has them: `%t %p %o %k %s\n`.

A format is compiled once into parts; each part makes bytes of a record. Null is printed as nothing (its length is -1),
as kcat does; who must tell null from empty takes -o jsonl.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.cli.exits import usage
from headrace.cli.parsing import show_time
from headrace.cli.text import unescaped

if TYPE_CHECKING:
    from headrace.client.values import Record

Part = Callable[["Record"], bytes]

TOKENS: dict[str, tuple[str, Part]] = {
    "s": ("value", lambda record: record.value or b""),
    "S": ("value's length in bytes, -1 for null", lambda record: _length(record.value)),
    "k": ("key", lambda record: record.key or b""),
    "K": ("key's length in bytes, -1 for null", lambda record: _length(record.key)),
    "t": ("topic", lambda record: record.topic.encode()),
    "p": ("partition", lambda record: b"%d" % record.partition),
    "o": ("offset", lambda record: b"%d" % record.offset),
    "i": ("id", lambda record: record.id.encode()),
    "T": ("timestamp in milliseconds", lambda record: b"%d" % record.timestamp_ms),
    "D": ("timestamp as a date in UTC", lambda record: show_time(record.timestamp_ms).encode()),
    "h": ("headers: name=value,…", lambda record: _headers(record)),
    "%": ("a percent sign", lambda record: b"%"),
}


def compiled(text: str) -> Callable[[Record], bytes]:
    parts: list[Part] = []
    at = 0
    while (sign := text.find("%", at)) >= 0:
        parts.append(_literal(text[at:sign]))
        name = text[sign + 1 : sign + 2]
        if name not in TOKENS:
            known = ", ".join(f"%{token} {about}" for token, (about, _) in TOKENS.items())
            raise usage(f"%{name} in the format {text!r} has no meaning", known)
        parts.append(TOKENS[name][1])
        at = sign + 2
    parts.append(_literal(text[at:]))
    return lambda record: b"".join([part(record) for part in parts])


def _literal(text: str) -> Part:
    data = unescaped(text)
    return lambda record: data


def _length(data: bytes | None) -> bytes:
    return b"-1" if data is None else b"%d" % len(data)


def _headers(record: Record) -> bytes:
    return b",".join(name.encode() + b"=" + (value or b"") for name, value in record.headers)
