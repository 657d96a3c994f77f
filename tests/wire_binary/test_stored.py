"""The original's own files: `.log` and `.idx`."""

from __future__ import annotations

import struct

import pytest

from headrace.wire.binary.stored import Fault, Stored, entries, index_of, topic_of
from tests.wire_binary import vectors

CAPTURED_INDEX = bytes.fromhex("000000000000007d000000e7")


def entry(offset: int, body: bytes = b"x", key: str = "") -> bytes:
    props = b"topic=t\0" + (f"key={key}".encode() + b"\0" if key else b"") + b"created_at=1.5\0version=1.0\0"
    head = struct.pack(">IIQQII", 32 + len(props) + len(body), 1, offset, 1500 + offset, len(props), len(body))
    return struct.pack(">I", len(head + props + body)) + head + props + body


def log(*made: bytes) -> tuple[bytes, bytes]:
    places = [sum(map(len, made[:n])) for n in range(len(made))]
    return b"".join(made), b"".join(struct.pack(">I", place) for place in places)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("events_p0.log", ("events", 0)),
        ("my_topic_p12.log", ("my_topic", 12)),
        ("a_p1_p2.log", ("a_p1", 2)),
        ("events_p0.idx", None),
        ("events.log", None),
        ("_p0.log", None),
        ("t_p.log", None),
        ("t_px.log", None),
        ("t_p².log", None),
    ],
)
def test_a_files_name_says_which_partition_it_is(name: str, place: tuple[str, int] | None) -> None:
    assert topic_of(name) == place


def test_a_logs_index_lies_beside_it() -> None:
    assert index_of("events_p0.log") == "events_p0.idx"


def test_entries_are_read_in_pieces_of_any_size_and_agree_with_the_captured_index() -> None:
    first = struct.pack(">I", len(vectors.DATA)) + vectors.DATA
    assert len(first) == 0x7D  # where the captured index has the second one
    second = entry(1)
    padded = entry(1, b"x" * (0xE7 - 0x7D - len(second) + 1))
    data, index = log(first, padded, entry(2, b"last", key="k"))
    assert index == CAPTURED_INDEX
    for size in (1, 7, 64, len(data)):
        found = list(entries((data[at : at + size] for at in range(0, len(data), size)), index))
        assert [type(one) for one in found] == [Stored] * 3
        assert [one.offset for one in found if isinstance(one, Stored)] == [0, 1, 2]
    one, _, other = found
    assert isinstance(one, Stored) and isinstance(other, Stored)
    record = one.record()
    assert (record.key, record.value, record.timestamp_ms) == (None, b"Hello, World!", 0x1A1E081A6D7)
    assert record.headers[0] == ("topic", b"my_topic")
    assert (other.record().key, other.record().value) == (b"k", b"last")


def test_a_torn_end_is_one_fault_and_costs_nothing_before_it() -> None:
    data, index = log(entry(0), entry(1))
    last = len(entry(0))
    for cut in (1, 4, 20):
        for given in (None, index):
            found = list(entries([data[:-cut]], given))
            assert isinstance(found[0], Stored)
            [fault] = found[1:]
            assert isinstance(fault, Fault) and fault.position == last and "a crash cut it off" in fault.why
    assert isinstance(list(entries([data + b"\0"]))[2], Fault)


def test_damage_is_stepped_over_with_the_index_and_ends_it_without() -> None:
    parts = [entry(0), entry(1, b"y" * 50), entry(2), entry(3)]
    data, index = log(*parts)
    at = len(parts[0])
    for damage in (b"\xff\xff\xff\xff", struct.pack(">I", 31)):
        damaged = data[:at] + damage + data[at + 4 :]
        found = list(entries([damaged], index))
        assert [one.offset if isinstance(one, Stored) else "fault" for one in found] == [0, "fault", 2, 3]
        found = list(entries([damaged]))
        assert [one.offset if isinstance(one, Stored) else "fault" for one in found] == [0, "fault"]
    wrong_type = bytearray(data)
    wrong_type[at + 11] = 7
    found = list(entries([bytes(wrong_type)], index))
    assert isinstance(found[1], Fault) and "a frame of type 7" in found[1].why


def test_an_index_that_does_not_agree_is_told_and_the_log_counts() -> None:
    data, index = log(entry(0), entry(1), entry(2))
    found = list(entries([data], index[:8]))
    assert [type(one) for one in found] == [Stored, Stored, Fault, Stored]
    assert isinstance(found[2], Fault) and "the index ends before it" in found[2].why
    shifted = index[:4] + struct.pack(">I", 5) + index[8:]
    found = list(entries([data], shifted))
    assert [type(one) for one in found] == [Stored, Fault, Stored, Stored]
    longer = index + struct.pack(">I", len(data))
    found = list(entries([data], longer))
    assert isinstance(found[3], Fault) and "the index has 4 entries, the log 3" in found[3].why
    assert list(entries([], b"")) == []


def test_offsets_may_have_gaps_and_never_go_back() -> None:
    data, _ = log(entry(0), entry(5), entry(4))
    found = list(entries([data]))
    assert [one.offset if isinstance(one, Stored) else "fault" for one in found] == [0, 5, "fault"]
