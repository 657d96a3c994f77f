"""Topic names as Kafka spells them.

Kafka allows 1 to 249 of `[A-Za-z0-9._-]`; our names are any text. A name that Kafka could not have appears
under one reserved prefix with its UTF-8 bytes in base32, and so does a name that begins with that prefix
itself: the two ways are each other's inverse, and no name hides another.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

RESERVED_PREFIX: Final = "headrace-b32-"

MAX_NAME_BYTES: Final = 249  # Kafka's; a folder `name-partition` has to fit the 255 bytes of a file's name there

MAX_ENCODED: Final = len(RESERVED_PREFIX) + (MAX_NAME_BYTES * 8 + 4) // 5  # of our longest name in base32

_LEGAL = re.compile(rf"[A-Za-z0-9._-]{{1,{MAX_NAME_BYTES}}}", re.ASCII)


def is_legal(name: str) -> bool:
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")


def to_kafka(name: str) -> str:
    """The name under which a Kafka client knows the topic that we call `name`."""
    if is_legal(name) and not name.startswith(RESERVED_PREFIX):
        return name
    return RESERVED_PREFIX + base64.b32encode(name.encode()).decode().rstrip("=").lower()


def from_kafka(name: str) -> str:
    """Our name of the topic that a Kafka client calls `name`; the same when it was never changed."""
    if not name.startswith(RESERVED_PREFIX) or len(name) > MAX_ENCODED:
        return name
    plain = _decoded(name[len(RESERVED_PREFIX) :])
    return plain if plain and to_kafka(plain) == name else name


def _decoded(text: str) -> str | None:
    try:
        return base64.b32decode(text.upper() + "=" * (-len(text) % 8)).decode()
    except (binascii.Error, ValueError):
        return None
