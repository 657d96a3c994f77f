"""The kernels in plain Python: the native ones' specification, test oracle, and fallback.

What a client sent is judged command by command:
- its bytes as such: `skip` goes over them once, however many pieces they come in, and finds what no more bytes could
  make right (a byte that no value begins with, text that is not UTF-8, too deep, too large);
- when it is whole, whether it is a command.
So it does not matter how the bytes were cut into pieces. What comes after a fault is not looked at.
"""

from __future__ import annotations

from typing import Literal

from headrace.ports import Buffer
from headrace.records.codec import PLAIN as PLAIN_BATCH
from headrace.records.codec import seal
from headrace.records.header import HEADER_BYTES
from headrace.records.record import Record
from headrace.records.twin.records import decode_records, encode_one
from headrace.wire.msgpack import forms
from headrace.wire.msgpack.forms import ARRAY, BYTES, EXT, INT, MAP, MAX_DEPTH, TEXT, Fault, Short, head
from headrace.wire.msgpack.parsing import FIRST_BYTES, NOT_A_COMMAND, PUBLISH, SUBSCRIBE, UNSUBSCRIBE, Parsed, parse

NOT_A_DELIVERY = "a delivery is a topic and a value"
COMMAND_DEPTH = 3  # containers around the value of a Publish, in each of its forms
HEADERS = (("content-type", b"application/msgpack"),)
NIL = b"\xc0"
RECORD_BYTES = 64  # what a record has at most beside its value, headers included

State = tuple[int, ...]  # bytes that were gone over, and how many values each open container still wants
Run = tuple[Literal[0], str, int, bytearray, bytes]
Event = Run | tuple[Literal[1, 2], str]
Commands = tuple[list[Event], int, State, str | None]


def commands(buffer: Buffer, state: State, now_ms: int, max_command_bytes: int, max_batch_bytes: int) -> Commands:
    """All whole commands at the start of `buffer`: (events, bytes taken, state, fault).

    Events: (PUBLISH, topic, count, batch, deliveries) for the Publish commands of a topic, as one batch and in the form
    that subscribers get, several where a batch would be too large; (SUBSCRIBE, pattern) and (UNSUBSCRIBE, pattern) in
    their order: none of them moves past a Publish. `state` is for the next call, with what was not taken in front.
    """
    data = bytes(buffer)
    events: list[Event] = []
    runs: dict[str, _Run] = {}
    at, fault = 0, None
    while at < len(data):
        try:
            if data[at] not in FIRST_BYTES:
                raise Fault(NOT_A_COMMAND)
            end = skip(data, at, state, max_command_bytes)
            if isinstance(end, tuple):
                state = end
                break
            state = ()
            parsed = parse(data, at, end)
        except Fault as found:
            state, fault = (), str(found)
            break
        if parsed.kind == PUBLISH:
            _add(runs, events, parsed, data, now_ms, max_batch_bytes)
        else:
            _end(runs, events, now_ms)
            events.append((SUBSCRIBE if parsed.kind == SUBSCRIBE else UNSUBSCRIBE, parsed.text))
        at = end
    _end(runs, events, now_ms)
    return events, at, state, fault


def deliveries(buffer: Buffer, state: State, max_bytes: int) -> tuple[list[tuple[str, bytes]], int, State, str | None]:
    """All whole deliveries at the start of `buffer`: ((topic, the value's bytes), bytes taken, state, fault)."""
    data = bytes(buffer)
    found: list[tuple[str, bytes]] = []
    at = 0
    while at < len(data):
        try:
            end = skip(data, at, state, max_bytes)
            if isinstance(end, tuple):
                return found, at, end, None
            state = ()
            kind, count, after = head(data, at, end)
            if kind != ARRAY or count != 2:
                raise Fault(NOT_A_DELIVERY)
            kind, size, after = head(data, after, end)
            if kind != TEXT:
                raise Fault(NOT_A_DELIVERY)
        except Fault as fault:
            return found, at, (), str(fault)
        found.append((data[after : after + size].decode(), data[after + size : end]))
        at = end
    return found, at, (), None


def records(
    topic: str, body: Buffer, count: int, base_offset: int, base_timestamp: int, first_offset: int
) -> tuple[bytes, int]:
    """The records of a batch as deliveries, those from `first_offset` on, and how many; CorruptBatch as for decoding.

    Text is delivered as text, other bytes as bytes, no value as nil; what a header `content-type` calls msgpack, and
    is, as that value."""
    start, out, found = bytearray(b"\x92"), bytearray(), 0
    forms.write_text(start, topic.encode())
    for record in decode_records(body, count, base_offset, base_timestamp, None):
        if record.offset >= first_offset:
            found += 1
            out += start
            _write_value(out, record)
    return bytes(out), found


def _write_value(out: bytearray, record: Record) -> None:
    value = record.value
    if value is None:
        out += NIL
        return
    known = smallest(value) if HEADERS[0] in record.headers else None
    if known is not None:
        out += known
        return
    try:
        value.decode()
    except UnicodeDecodeError:
        forms.write_length(out, BYTES, len(value))
        out += value
    else:
        forms.write_text(out, value)


def skip(data: bytes, start: int, state: State, max_bytes: int) -> int | State:
    """Where the value that begins at `start` ends, or the state so far when it is not whole."""
    at, end = start + (state[0] if state else 0), len(data)
    wanted = list(state[1:]) or [1]
    most = start + max_bytes
    while wanted:
        try:
            kind, number, after = head(data, at, end)
        except Short:
            return (at - start, *wanted)
        is_container = kind in (ARRAY, MAP)
        size = number if kind in (TEXT, BYTES, EXT, forms.PLAIN) else 0
        if after + size > most or (is_container and number > max_bytes):
            raise Fault(too_large(max_bytes))
        if is_container and len(wanted) > COMMAND_DEPTH + MAX_DEPTH:
            raise Fault(forms.TOO_DEEP)
        if end - after < size:
            return (at - start, *wanted)
        if kind == TEXT:
            check_text(data[after : after + size])
        at = after + size
        wanted[-1] -= 1
        if is_container and number:
            wanted.append(number if kind == ARRAY else 2 * number)
            continue
        while wanted and not wanted[-1]:  # a container counts as open until its last value is over
            wanted.pop()
    return at


def too_large(max_bytes: int) -> str:
    return f"more than {max_bytes} bytes"


def check_text(text: bytes) -> None:
    try:
        text.decode()
    except UnicodeDecodeError:
        raise Fault(forms.NOT_TEXT) from None


def smallest(buffer: Buffer) -> bytes | None:
    """The one value that `buffer` holds, in the smallest form; None when that is not what it holds."""
    data, out = bytes(buffer), bytearray()
    try:
        end = rewrite(data, 0, len(data), out, 0)
    except (Short, Fault):
        return None
    return bytes(out) if end == len(data) else None


def rewrite(data: bytes, at: int, end: int, out: bytearray, depth: int) -> int:
    """Writes the value at `at` in the smallest form. Floats stay as long as they are."""
    kind, number, after = head(data, at, end)
    if kind == INT:
        forms.write_int(out, number)
        return after
    if kind in (ARRAY, MAP):
        if depth >= MAX_DEPTH:
            raise Fault(forms.TOO_DEEP)
        forms.write_length(out, kind, number)
        for _ in range(number if kind == ARRAY else 2 * number):
            after = rewrite(data, after, end, out, depth + 1)
        return after
    if end - after < number:
        raise Short
    content = data[after : after + number]
    if kind == TEXT:
        check_text(content)
        forms.write_text(out, content)
    elif kind == BYTES:
        forms.write_length(out, BYTES, number)
        out += content
    elif kind == EXT:
        forms.write_ext(out, content)
    else:
        out.append(data[at])
        out += content
    return after + number


class _Run:
    """The Publish commands of one topic, in the making."""

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.start = bytearray(b"\x92")
        forms.write_text(self.start, topic.encode())
        self.count = 0
        self.batch, self.deliveries = bytearray(HEADER_BYTES), bytearray()

    def add(self, value: bytes) -> None:
        encode_one(self.batch, self.count, 0, None, value, HEADERS)
        self.deliveries += self.start
        self.deliveries += value
        self.count += 1

    def event(self, now_ms: int) -> Event:
        batch = seal(self.batch, self.count, now_ms, now_ms, PLAIN_BATCH)
        return PUBLISH, self.topic, self.count, batch, bytes(self.deliveries)


def _add(
    runs: dict[str, _Run], events: list[Event], parsed: Parsed, data: bytes, now_ms: int, max_batch_bytes: int
) -> None:
    value = bytearray()
    rewrite(data, parsed.value_at, len(data), value, 0)
    run = runs.get(parsed.text)
    if run is not None and len(run.batch) + RECORD_BYTES + len(value) > max_batch_bytes:
        events.append(run.event(now_ms))
        run = None
    if run is None:
        run = runs[parsed.text] = _Run(parsed.text)
    run.add(bytes(value))


def _end(runs: dict[str, _Run], events: list[Event], now_ms: int) -> None:
    events += [run.event(now_ms) for run in runs.values()]
    runs.clear()
