"""The lines protocol without a socket: framing in any pieces, commands, messages, escapes."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.wire.lines import commands, messages
from headrace.wire.lines.commands import (
    PING,
    QUIT,
    Acknowledge,
    Command,
    History,
    Publish,
    Range,
    Refused,
    Since,
    Subscribe,
)
from headrace.wire.lines.framing import MAX_LINE_BYTES, Lines
from headrace.wire.lines.messages import Message, Reply

LIMIT = 20


def fed(data: bytes, cuts: list[int], limit: int = MAX_LINE_BYTES) -> tuple[list[str], bool]:
    lines, found, at = Lines(limit), [], 0
    for cut in [*sorted(cut % (len(data) + 1) for cut in cuts), len(data)]:
        found += lines.take(memoryview(data)[at:cut])
        at = max(at, cut)
    return found + lines.end(), lines.is_overlong


@given(
    st.lists(st.sampled_from([b"\n", b"\r\n", b"a", b"PING", b" ", b"\xff", "ä€".encode(), b"x" * 19, b"y" * 21])),
    st.lists(st.integers(0, 400)),
)
@settings(max_examples=300, deadline=None)
def test_whole_input_and_any_pieces_give_the_same_lines(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    whole = fed(data, [], LIMIT)
    assert fed(data, cuts, LIMIT) == whole
    assert fed(data, list(range(len(data))), LIMIT) == whole
    lines = data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    fine = list(itertools.takewhile(lambda line: len(line) <= LIMIT, lines))
    assert whole == ([line.decode("utf-8", "replace") for line in fine], len(fine) < len(lines))


def test_a_line_of_exactly_the_limit_is_taken_and_one_byte_more_is_not() -> None:
    fits, over = b"x" * MAX_LINE_BYTES + b"\n", b"x" * (MAX_LINE_BYTES + 1)
    assert fed(fits, []) == (["x" * MAX_LINE_BYTES], False)
    assert fed(b"PING\n" + over, []) == (["PING"], True)
    assert fed(b"PING\n" + over + b"\nPING\n", []) == (["PING"], True)
    assert fed(b"PING\n" * 20_000 + fits, []) == (["PING"] * 20_000 + ["x" * MAX_LINE_BYTES], False)


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ("PING", PING),
        ("pInG", PING),
        ("quit", QUIT),
        ("QUIT\r", QUIT),
        ("SUB chat", Subscribe("chat")),
        ("SUB  chat\tg1  more words", Subscribe("chat", "g1")),
        ("SUBACK chat g1", Subscribe("chat", "g1", True)),
        ("ACK msg_1_00000000", Acknowledge("msg_1_00000000")),
        ("PUB chat  two  spaces ", Publish("chat", "two  spaces")),
        ("PUB chat --id a1 the text", Publish("chat", "the text", "a1")),
        ("PUB chat --idle talk", Publish("chat", "--idle talk")),
        ("HISTORY chat -3", History("chat", -3)),
        ("RANGE chat 1 10", Range("chat", 1, 10, None)),
        ("RANGE chat 1 10 5", Range("chat", 1, 10, 5)),
        ("SINCE chat 1794767880.192", Since("chat", 1794767880192, None)),
        ("SINCE chat 1970-01-01T00:00:01Z 7", Since("chat", 1000, 7)),
        ("SINCE chat 1970-01-01T00:00:01", Since("chat", 1000, None)),
    ],
)
def test_every_command_is_read(line: str, command: Command) -> None:
    assert commands.parse(f"  {line}  ") == command


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        ("PUB", "ERR unknown command: PUB"),
        ("HISTORY", "ERR unknown command: HISTORY"),
        ("sub chat", "ERR unknown command: sub chat"),
        ("pub chat x", "ERR unknown command: pub chat x"),
        ("SUBSCRIBE x", "ERR unknown command: SUBSCRIBE x"),
        ("PUB\tt x", "ERR unknown command: PUB\tt x"),
        ("ping me", "ERR unknown command: ping me"),
        ("SUB", "ERR usage: SUB <topic> [group]"),
        ("SUBACK t", "ERR usage: SUBACK <topic> <group>"),
        ("ACK", "ERR usage: ACK <id>"),
        ("PUB t", "ERR usage: PUB <topic> <message>"),
        ("PUB t --id", "ERR usage: PUB <topic> --id <id> <message>"),
        ("PUB t --id x", "ERR usage: PUB <topic> --id <id> <message>"),
        (f"PUB t --id {'x' * 201} y", "ERR an id has at most 200 bytes"),
        ("HISTORY t", "ERR usage: HISTORY <topic> <n>"),
        ("HISTORY t x", "ERR n must be an integer"),
        ("HISTORY t 5 6", "ERR n must be an integer"),
        (f"HISTORY t {'9' * 5000}", "ERR n must be an integer"),
        ("RANGE t 1", "ERR usage: RANGE <topic> <from> <to> [limit]"),
        ("RANGE t 1 x", "ERR from, to and limit must be integers, limit at least 1"),
        ("RANGE t 1 2 0", "ERR from, to and limit must be integers, limit at least 1"),
        ("SINCE t", "ERR usage: SINCE <topic> <time> [limit]"),
        ("SINCE t 1 -1", "ERR limit must be an integer, at least 1"),
        *(
            (f"SINCE t {time}", "ERR time must be seconds since 1970, or ISO 8601 as in 2026-01-31T12:00:00Z")
            for time in ("nan", "inf", "1e308", "soon", "2026-13-01")
        ),
    ],
)
def test_what_is_no_command_is_refused_in_the_words_of_the_protocol(line: str, reply: str) -> None:
    assert commands.parse(line) == Refused(reply)


def test_a_time_before_1970_is_a_time() -> None:
    assert commands.parse("SINCE t -1.5") == Since("t", -1500, None)


@pytest.mark.parametrize("line", ["", " ", "\r", "\t \x0b", "\x1c"])
def test_an_empty_line_is_nothing(line: str) -> None:
    assert commands.parse(line) is None


@given(st.text())
def test_no_line_makes_the_parser_fail(line: str) -> None:
    commands.parse(line)
    messages.parse(line)


@given(st.text(st.sampled_from("ab \\\n\rnr\u2028")))
def test_what_was_escaped_is_one_line_and_reads_back(text: str) -> None:
    escaped = messages.escape(text)
    assert "\n" not in escaped and "\r" not in escaped
    assert messages.unescape(escaped) == text


def test_a_message_reads_back_as_it_was_written() -> None:
    line = messages.line("MSG", "chat", "msg_1_00000000", 1, 1794767866696, " a  b ")
    assert line == "MSG chat msg_1_00000000 1 1794767866.696  a  b \n"
    assert messages.parse(line[:-1]) == Message("chat", "msg_1_00000000", 1, 1794767866.696, " a  b ")
    assert messages.parse("OK history end") == Reply(True, "history end")
    assert messages.parse("ERR usage: x") == Reply(False, "usage: x")
    assert messages.parse("MSG chat only 3") is None
    assert messages.parse("MSG a b c d e") is None


def test_own_values_stand_as_they_are_and_others_are_escaped() -> None:
    assert messages.text_of(rb"C:\new", True) == r"C:\new"
    assert messages.text_of(rb"C:\new", False) == r"C:\\new"
    assert messages.text_of(b"a\rb", True) == "a\rb"
    assert messages.text_of(b"a\nb", True) == r"a\nb"
    assert messages.text_of(b"a\\\n", True) == "a\\\\\\n"
    assert messages.text_of(b"\xff\x00", False) == '{"base64": "/wA="}'
    assert messages.text_of(None, False) == messages.text_of(b"", True) == ""


def test_garbage_in_random_pieces_never_costs_more_than_the_limit() -> None:
    chance = random.Random(3)
    for _ in range(50):
        lines = Lines(1000)
        for _ in range(100):
            lines.take(chance.randbytes(chance.randrange(300)))
            assert lines.unfinished_bytes <= 1000
