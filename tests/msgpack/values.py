"""MessagePack bytes to try, made without any codec of ours."""

from __future__ import annotations

import struct
from typing import Any

from hypothesis import strategies as st

from headrace.wire.msgpack import twin

try:
    import headrace_native as native
except ImportError:
    native = None

COMMANDS = [twin.commands] if native is None else [twin.commands, native.msgpack_commands]
SMALLEST = [twin.smallest] if native is None else [twin.smallest, native.msgpack_smallest]
MAX_COMMAND, MAX_BATCH, NOW_MS = 4_000, 3_000, 1_700_000_000_000


def text_forms(content: bytes) -> list[bytes]:
    """All ways to write a text, the smallest first."""
    size = len(content)
    forms = [bytes([0xA0 | size])] if size < 32 else []
    forms += [b"\xd9" + struct.pack(">B", size)] if size < 256 else []
    forms += [b"\xda" + struct.pack(">H", size), b"\xdb" + struct.pack(">I", size)]
    return [form + content for form in forms]


def bytes_forms(content: bytes) -> list[bytes]:
    size = len(content)
    forms = [b"\xc4" + struct.pack(">B", size)] if size < 256 else []
    forms += [b"\xc5" + struct.pack(">H", size), b"\xc6" + struct.pack(">I", size)]
    return [form + content for form in forms]


def int_forms(number: int) -> list[bytes]:
    forms = [struct.pack(">b", number)] if -32 <= number < 128 else []
    for first, layout, low, high in (
        (0xCC, ">B", 0, 1 << 8),
        (0xCD, ">H", 0, 1 << 16),
        (0xCE, ">I", 0, 1 << 32),
        (0xCF, ">Q", 0, 1 << 64),
        (0xD0, ">b", -(1 << 7), 1 << 7),
        (0xD1, ">h", -(1 << 15), 1 << 15),
        (0xD2, ">i", -(1 << 31), 1 << 31),
        (0xD3, ">q", -(1 << 63), 1 << 63),
    ):
        if low <= number < high:
            forms.append(bytes([first]) + struct.pack(layout, number))
    return forms


def ext_forms(kind: int, content: bytes) -> list[bytes]:
    size, start = len(content), struct.pack(">b", kind)
    forms = [bytes([0xD4 + size.bit_length() - 1])] if size in (1, 2, 4, 8, 16) else []
    forms += [b"\xc7" + struct.pack(">B", size)] if size < 256 else []
    forms += [b"\xc8" + struct.pack(">H", size), b"\xc9" + struct.pack(">I", size)]
    return [form + start + content for form in forms]


def container_forms(entries: int, fixed: int, two: int, four: int) -> list[bytes]:
    forms = [bytes([fixed | entries])] if entries < 16 else []
    return [*forms, bytes([two]) + struct.pack(">H", entries), bytes([four]) + struct.pack(">I", entries)]


Pair = tuple[bytes, bytes]  # as sent, and in the smallest form


def _any_of(forms: st.SearchStrategy[list[bytes]]) -> st.SearchStrategy[Pair]:
    return forms.flatmap(lambda found: st.sampled_from(found).map(lambda chosen: (chosen, found[0])))


numbers = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-300, 300)
texts = st.text(max_size=40).map(str.encode)
scalars: st.SearchStrategy[Pair] = st.one_of(
    st.sampled_from([b"\xc0", b"\xc2", b"\xc3"]).map(lambda one: (one, one)),
    _any_of(numbers.map(int_forms)),
    _any_of(texts.map(text_forms)),
    _any_of(st.binary(max_size=40).map(bytes_forms)),
    _any_of(st.builds(ext_forms, st.integers(-128, 127), st.binary(max_size=20))),
    st.floats(width=32).map(lambda one: struct.pack(">Bf", 0xCA, one)).map(lambda one: (one, one)),
    st.floats().map(lambda one: struct.pack(">Bd", 0xCB, one)).map(lambda one: (one, one)),
)


def _array(entries: list[Pair], form: int) -> Pair:
    forms = container_forms(len(entries), 0x90, 0xDC, 0xDD)
    return forms[form % len(forms)] + b"".join(e[0] for e in entries), forms[0] + b"".join(e[1] for e in entries)


def _map(entries: list[tuple[Pair, Pair]], form: int) -> Pair:
    forms = container_forms(len(entries), 0x80, 0xDE, 0xDF)
    sent = b"".join(key[0] + value[0] for key, value in entries)
    return forms[form % len(forms)] + sent, forms[0] + b"".join(key[1] + value[1] for key, value in entries)


values: st.SearchStrategy[Pair] = st.recursive(
    scalars,
    lambda inside: (
        st.builds(_array, st.lists(inside, max_size=18), st.integers(0, 2))
        | st.builds(_map, st.lists(st.tuples(inside, inside), max_size=17), st.integers(0, 2))
    ),
    max_leaves=20,
)

names = _any_of(texts.map(text_forms)) | _any_of(texts.map(lambda text: [text_forms(text)[0], *bytes_forms(text)]))


@st.composite
def commands(draw: Any) -> tuple[bytes, tuple[Any, ...]]:
    """A command in any of its forms, and what it means."""
    kind = draw(st.sampled_from([0, 0, 0, 1, 2]))
    word = [b"Publish", b"Subscribe", b"Unsubscribe"][kind]
    key = draw(st.sampled_from(text_forms(word)) | st.sampled_from(int_forms(kind)))
    start = draw(st.sampled_from([b"\x81", b"\xde\x00\x01", b"\xdf\x00\x00\x00\x01"])) + key
    by_name = draw(st.booleans())
    name = draw(names)
    text = name[1][len(name[1]) - _text_size(name[1]) :].decode()
    if kind:
        return start + (b"\x81\xa7pattern" if by_name else b"\x91") + name[0], (kind, text)
    value = draw(values)
    form = draw(st.integers(0, 2))
    if form == 0:
        message = b"\x92" + name[0] + value[0]
    elif form == 1:
        message = b"\x82\xa5topic" + name[0] + b"\xa5value" + value[0]
    else:
        message = b"\x82\xa5value" + value[0] + b"\xa5topic" + name[0]
    return start + (b"\x81\xa7message" if by_name else b"\x91") + message, (kind, text, value[1])


def _text_size(smallest: bytes) -> int:
    first = smallest[0]
    if first < 0xC0:
        return first & 0x1F
    return int.from_bytes(smallest[1 : 1 + (1, 2, 4)[first - 0xD9]], "big")
