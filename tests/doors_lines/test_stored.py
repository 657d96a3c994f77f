"""The original's own files, read line by line: whole, torn, damaged, in any pieces."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from headrace.records.record import Record
from headrace.wire.lines import stored
from headrace.wire.lines.stored import Fault, Stored

FILE = (
    b'{"id": "msg_1758865780040_e10628bb", "offset": 1, "ts": 1758865780.0369835, "msg": "Hello, w\xc3\xb6rld!"}\n'
    b"\n"
    b'{"ts": 5, "msg": ""}\n'
    b'{"id": "x", "offset": 4, "ts": 6.5, "msg": "a \\"quoted\\" one"}\r\n'
    b"no JSON\n"
    b"[1]\n"
    b'{"ts": 1}\n'
    b'{"ts": "1", "msg": "x"}\n'
    b'{"ts": NaN, "msg": "x"}\n'
    b'{"ts": true, "msg": "x"}\n'
    b'{"ts": 1, "msg": "x", "offset": "1"}\n'
    b'{"ts": 1, "msg": "x", "id": 7}\n'
    b'{"id": "msg_2", "offset": 13, "ts": 7.0, "ms'
)


def test_messages_come_with_their_lines_and_faults_cost_no_other() -> None:
    found = list(stored.messages([FILE]))
    assert found[:3] == [
        Stored(1, "msg_1758865780040_e10628bb", 1, 1758865780037, "Hello, wörld!"),
        Stored(3, None, 3, 5000, ""),
        Stored(4, "x", 4, 6500, 'a "quoted" one'),
    ]
    assert [one.line for one in found[3:] if isinstance(one, Fault)] == list(range(5, 14))
    assert len(found) == 12


@given(st.lists(st.integers(0, len(FILE))))
def test_pieces_of_any_size_give_the_same(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(FILE)]
    pieces = [FILE[a:b] for a, b in itertools.pairwise(places)]
    assert list(stored.messages(pieces)) == list(stored.messages([FILE]))


def test_a_line_without_end_is_a_fault_and_the_next_one_is_read() -> None:
    huge = [b"x" * stored.MAX_LINE_BYTES, b"yy", b"zz", b'\n{"ts": 1, "msg": "after"}\n']
    assert list(stored.messages(huge)) == [
        Fault(1, f"it is longer than {stored.MAX_LINE_BYTES} bytes"),
        Stored(2, None, 2, 1000, "after"),
    ]


def test_a_message_becomes_the_record_that_the_door_would_write() -> None:
    assert Stored(1, "msg_5", 1, 5000, "é").record() == Record(None, "é".encode(), (("id", b"msg_5"),), 5000)
    assert Stored(1, None, 1, 5000, "").record() == Record(None, b"", (), 5000)
    marked = (("id", b"msg_5"), ("lines", b"raw"))  # so that it comes back as it was
    assert Stored(1, "msg_5", 1, 5000, r"C:\new").record() == Record(None, rb"C:\new", marked, 5000)
    assert Stored(1, None, 1, 5000, "a\nb").record() == Record(None, b"a\nb", (), 5000)  # no line of that protocol


def test_a_topic_is_the_name_of_its_file() -> None:
    assert stored.topic_of("chat.log") == "chat"
    assert stored.topic_of("a.b.log") == "a.b"
    assert stored.topic_of("chat.idx") is None
    assert stored.topic_of(".log") is None
