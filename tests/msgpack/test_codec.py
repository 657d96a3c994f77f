"""Commands and values: every form that is taken, what becomes of it, and that pieces and kernels make no difference."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.records.codec import decode
from headrace.wire.msgpack.forms import MAX_DEPTH
from tests.msgpack.values import COMMANDS, MAX_BATCH, MAX_COMMAND, NOW_MS, SMALLEST, Pair, commands, values

Kernel = Callable[..., Any]
HEADERS = (("content-type", b"application/msgpack"),)


def read(kernel: Kernel, pieces: list[bytes], max_command: int = MAX_COMMAND) -> tuple[list[Any], str | None]:
    """What the pieces mean, command by command, and the fault that ended it."""
    found: list[Any] = []
    left, state = b"", ()
    for piece in pieces:
        left += piece
        events, taken, state, fault = kernel(left, state, NOW_MS, max_command, MAX_BATCH)
        left = left[taken:]
        found += [meaning for event in events for meaning in meanings(event)]
        if fault is not None:
            return found, fault
        assert bool(state) == bool(left)
    return found, None


def meanings(event: tuple[Any, ...]) -> list[Any]:
    if event[0]:
        return [event]
    _, topic, count, batch, deliveries = event
    assert len(batch) <= MAX_BATCH or count == 1
    records = decode(batch)
    start = b"\x92" + SMALLEST[0](_text(topic.encode()))
    assert len(records) == count
    assert deliveries == b"".join(start + record.value for record in records)
    assert all(record.headers == HEADERS and record.timestamp_ms == NOW_MS for record in records)
    return [(0, topic, record.value) for record in records]


def _text(content: bytes) -> bytes:
    return b"\xdb" + len(content).to_bytes(4, "big") + content


def in_order(found: list[Any]) -> list[tuple[Any, dict[str, list[bytes]]]]:
    """Subscribes and Unsubscribes, with what was published for each topic before them."""
    stretches: list[tuple[Any, dict[str, list[bytes]]]] = []
    published: dict[str, list[bytes]] = {}
    for one in found:
        if one[0]:
            stretches.append((one, published))
            published = {}
        else:
            published.setdefault(one[1], []).append(one[2])
    return [*stretches, (None, published)]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = sorted({place % (len(data) + 1) for place in places} | {0, len(data)})
    return [data[begin:end] for begin, end in pairwise(marks)]


@pytest.mark.parametrize("kernel", COMMANDS)
@given(st.lists(commands(), max_size=8))
def test_every_form_of_a_command_is_understood_and_stays_in_order(kernel: Kernel, sent: list[Any]) -> None:
    found, fault = read(kernel, [b"".join(data for data, _ in sent)])
    assert fault is None
    assert in_order(found) == in_order([meaning for _, meaning in sent])


@pytest.mark.parametrize("kernel", COMMANDS)
@given(st.lists(commands(), max_size=5), st.lists(st.integers(0, 5_000), max_size=6), st.binary(max_size=4))
def test_pieces_of_any_size_mean_the_same_as_the_whole(
    kernel: Kernel, sent: list[Any], places: list[int], garbage: bytes
) -> None:
    data = b"".join(one for one, _ in sent) + garbage
    whole, fault = read(kernel, [data])
    for pieces in (cut(data, places), [data[at : at + 1] for at in range(len(data))]):
        found, why = read(kernel, pieces)
        assert why == fault
        assert in_order(found) == in_order(whole)


@pytest.mark.skipif(len(COMMANDS) < 2, reason="there is only one kernel here")
@given(st.lists(commands().map(lambda one: one[0]) | st.binary(max_size=30), max_size=8), st.integers(0, 200))
def test_both_kernels_give_the_same_for_commands_and_for_garbage(pieces: list[bytes], drop: int) -> None:
    data = b"".join(pieces)
    data = data[: len(data) - drop % (len(data) + 1)]
    ours, native = (kernel(data, (), NOW_MS, 300, 200) for kernel in COMMANDS)
    assert ours == native
    if not ours[3]:
        rest = data[ours[1] :] + b"\x00\xff"
        again = [kernel(rest, ours[2], NOW_MS, 300, 200) for kernel in COMMANDS] if rest[:-2] else [0, 0]
        assert again[0] == again[1]


@pytest.mark.parametrize("kernel", COMMANDS)
@given(st.lists(st.sampled_from("abcdefg"), max_size=300))
def test_a_run_holds_all_of_its_topic_and_is_split_only_where_a_batch_would_be_too_large(
    kernel: Kernel, topics: list[str]
) -> None:
    data = b"".join(b"\x81\xa7Publish\x91\x92\xa1" + topic.encode() + b"\xc3" for topic in topics)
    events, taken, state, fault = kernel(data, (), NOW_MS, MAX_COMMAND, MAX_BATCH)
    assert (taken, state, fault) == (len(data), (), None)
    for topic in set(topics):
        counts = [event[2] for event in events if event[1] == topic]
        assert sum(counts) == topics.count(topic)
        assert len(counts) <= 1 + topics.count(topic) * 100 // MAX_BATCH


@pytest.mark.parametrize("smallest", SMALLEST)
@given(values)
def test_a_value_is_written_in_its_smallest_form(smallest: Kernel, value: Pair) -> None:
    assert smallest(value[0]) == value[1]
    assert smallest(value[1]) == value[1]
    assert smallest(value[0] + b"\x00") is None
    assert smallest(value[0][:-1]) is None


@pytest.mark.parametrize("smallest", SMALLEST)
@pytest.mark.parametrize(
    ("sent", "written"),
    [
        ("cf0000000000000001", "01"),
        ("d005", "05"),
        ("d1ff80", "d080"),
        ("d2ffffffff", "ff"),
        ("cdffff", "cdffff"),
        ("d3000000000000ffff", "cdffff"),
        ("ca3f000000", "ca3f000000"),
        ("cb3fe0000000000000", "cb3fe0000000000000"),
        ("c0", "c0"),
        ("c50003000102", "c403000102"),
        ("c80004070a0b0c0d", "d6070a0b0c0d"),
        ("da0003616263", "a3616263"),
        ("de000193010203c3", "8193010203c3"),
        ("c1", None),
        ("a2c328", None),
        ("", None),
    ],
)
def test_values_become_what_is_documented(smallest: Kernel, sent: str, written: str | None) -> None:
    assert smallest(bytes.fromhex(sent)) == (None if written is None else bytes.fromhex(written))


@pytest.mark.parametrize("kernel", COMMANDS)
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"GET / HTTP/1.1\r\n", "a map of one entry"),
        (b"\x00", "a map of one entry"),
        (b"\xc1", "a map of one entry"),
        (b"\x80", "a map of one entry"),
        (b"\x82\xa9Subscribe\x91\xa1a\xa1x\x01", "a map of one entry"),
        (b"\xde\x00\x02\x01\x91\xa1a\x01\x91\xa1a", "a map of one entry"),
        (b"\x92\xa9Subscribe\x91\xa1a", "a map of one entry"),
        (b"\x81\xa9subscribe\x91\xa1a", "there is not"),
        (b"\x81\x03\x91\xa1a", "there is not"),
        (b"\x81\xff\x91\xa1a", "there is not"),
        (b"\x81\xd0\xff\x91\xa1a", "there is not"),
        (b"\x81\xc0\x91\xa1a", "there is not"),
        (b"\x81\xa9Subscribe\xa1a", "fields"),
        (b"\x81\xa9Subscribe\x92\xa1a\xa1b", "fields"),
        (b"\x81\xa9Subscribe\x90", "fields"),
        (b"\x81\xa9Subscribe\x91\x05", "fields"),
        (b"\x81\xa9Subscribe\x81\xa4name\xa1a", "fields"),
        (b"\x81\xa7Publish\x92\xa1a\xc3", "fields"),
        (b"\x81\xa7Publish\x91\xa1a", "fields"),
        (b"\x81\xa7Publish\x91\x91\xa1a", "fields"),
        (b"\x81\xa7Publish\x91\x93\xa1a\xc3\xc3", "fields"),
        (b"\x81\xa7Publish\x91\x92\x01\xc3", "fields"),
        (b"\x81\xa7Publish\x91\x82\xa5topic\xa1a\xa5topic\xa1b", "fields"),
        (b"\x81\xa7Publish\x91\x82\xa5value\xa1a\xa5value\xa1b", "fields"),
        (b"\x81\xa7Publish\x91\x81\xa5topic\xa1a", "fields"),
        (b"\x81\xa7Publish\x91\x92\xa1a\xc1", "no value begins"),
        (b"\x81\xa7Publish\x91\x92\xa2\xc3(\xc3", "UTF-8"),
        (b"\x81\xa9Subscribe\x91\xc4\x01\xff", "UTF-8"),
        (b"\x81\xa7Publish\x91\x92\xa1a\xa1\xff", "UTF-8"),
        (b"\x81\xa7Publish\x91\x92\xa1a\xc6\xff\xff\xff\xff", "more than 4000 bytes"),
        (b"\x81\xa7Publish\x91\x92\xa1a\xdd\xff\xff\xff\xff", "more than 4000 bytes"),
        (b"\x81\xdb\x00\x00\xff\xff", "more than 4000 bytes"),
        (b"\x81\xa7Publish\x91\x92\xa1a" + b"\x91" * (MAX_DEPTH + 1) + b"\xc0", "deep"),
    ],
)
def test_what_is_no_command_is_a_fault_that_keeps_what_came_before(kernel: Kernel, data: bytes, why: str) -> None:
    before = b"\x81\xa7Publish\x91\x92\xa1a\x01\x81\xa9Subscribe\x91\xa1b"
    for pieces in ([before + data], [bytes([one]) for one in before + data]):
        found, fault = read(kernel, pieces)
        assert found == [(0, "a", b"\x01"), (1, "b")]
        assert fault is not None
        assert why in fault


@pytest.mark.parametrize("kernel", COMMANDS)
def test_the_limits_hold_exactly(kernel: Kernel) -> None:
    deepest = b"\x81\xa7Publish\x91\x92\xa1a" + b"\x91" * MAX_DEPTH + b"\xc0"
    assert read(kernel, [deepest])[1] is None
    start = b"\x81\xa7Publish\x91\x92\xa1a\xc5"
    largest = start + (MAX_COMMAND - len(start) - 2).to_bytes(2, "big") + b"x" * (MAX_COMMAND - len(start) - 2)
    assert len(largest) == MAX_COMMAND
    for pieces in ([largest], [largest[at : at + 7] for at in range(0, MAX_COMMAND, 7)]):
        found, fault = read(kernel, pieces)
        assert (len(found), fault) == (1, None)
        assert read(kernel, pieces, MAX_COMMAND - 1) == ([], "more than 3999 bytes")


@pytest.mark.parametrize("kernel", COMMANDS)
def test_a_large_command_in_small_pieces_is_gone_over_once(kernel: Kernel) -> None:
    data = b"\x81\xa7Publish\x91\x92\xa1a\xdd\x00\x00\x4e\x20" + b"\xc0" * 20_000
    seen, state = 0, ()
    for end in range(0, len(data), 100):
        _, taken, state, fault = kernel(data[:end], state, NOW_MS, 1 << 20, 1 << 20)
        assert (taken, fault) == (0, None)
        if state:
            assert state[0] == end
            seen += 1
    assert seen > 100
    assert kernel(data, state, NOW_MS, 1 << 20, 1 << 20)[1] == len(data)
