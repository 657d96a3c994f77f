"""Every captured exchange of the lines protocol, and every row of its table, over a real socket, byte for byte."""

from __future__ import annotations

import pytest

from headrace.testing.broker import Broker
from tests.doors_lines.kit import ID, Peer, shown

SUB = bytes.fromhex("53554220636861740a")
SUBBED = bytes.fromhex("4f4b207375627363726962656420636861740a")
SUB_GROUP = bytes.fromhex("53554220636861742067310a")
SUBBED_GROUP = bytes.fromhex("4f4b2073756273637269626564206368617420696e2067726f75702067310a")
PUB = bytes.fromhex("50554220636861742048656c6c6f2c20646973747269627574656420776f726c64210a")
PUBBED = bytes.fromhex("4f4b207075626c69736865640a")
DELIVERED = bytes.fromhex(
    "4d53472063686174206d73675f313739343736373836363639365f3061393437663764203120313739343736373836362e36393634303536"
    "2048656c6c6f2c20646973747269627574656420776f726c64210a"
)


def test_captured_exchanges_come_out_byte_for_byte() -> None:
    with Broker() as broker, Peer(broker.addresses["lines"]) as subscriber, Peer(broker.addresses["lines"]) as other:
        subscriber.send(SUB)
        assert subscriber.line() + b"\n" == SUBBED
        other.send(SUB_GROUP)
        assert other.line() + b"\n" == SUBBED_GROUP
        with Peer(broker.addresses["lines"]) as publisher:
            publisher.send(PUB)
            assert publisher.line() + b"\n" == PUBBED
        found, captured = subscriber.message(), shown(DELIVERED[:-1])
        assert found._replace(id=captured.id, ts=captured.ts) == captured
        assert ID.fullmatch(found.id) and ID.fullmatch(captured.id)
        assert abs(float(found.ts) * 1000 - int(found.id[4:17])) < 1000
        assert other.message() == found


def test_the_server_speaks_first(lines: str) -> None:
    with Peer(lines, greeted=False) as peer:
        assert peer.socket.recv(100) == b"OK connected\n"


@pytest.mark.parametrize(
    ("sent", "reply"),
    [
        (b"PING\n", b"OK pong"),
        (b"ping\n", b"OK pong"),
        (b"  PiNg \r\n", b"OK pong"),
        (b"\n\r\n  \nPING\n", b"OK pong"),
        (b"SUB rows\n", b"OK subscribed rows"),
        (b"SUB rows g1\n", b"OK subscribed rows in group g1"),
        (b"SUB rows g1 and more\n", b"OK subscribed rows in group g1"),
        (b"SUB rows\r\n", b"OK subscribed rows"),
        (b"PUB rows x\n", b"OK published"),
        (b"HISTORY nosuch 5\n", b"OK history end"),
        (b"HISTORY .. 5\n", b"OK history end"),
        (b"PUB\n", b"ERR unknown command: PUB"),
        (b"HISTORY\n", b"ERR unknown command: HISTORY"),
        (b"sub rows\n", b"ERR unknown command: sub rows"),
        (b"Pub rows x\n", b"ERR unknown command: Pub rows x"),
        (b"history rows 1\n", b"ERR unknown command: history rows 1"),
        (b"hello  there\n", b"ERR unknown command: hello  there"),
        (b"\xff\xfe\n", "ERR unknown command: \ufffd\ufffd".encode()),
        (b"PUB rows\n", b"ERR usage: PUB <topic> <message>"),
        (b"PUB rows   \n", b"ERR usage: PUB <topic> <message>"),
        (b"SUB\n", b"ERR usage: SUB <topic> [group]"),
        (b"SUBACK rows\n", b"ERR usage: SUBACK <topic> <group>"),
        (b"HISTORY rows\n", b"ERR usage: HISTORY <topic> <n>"),
        (b"HISTORY rows x\n", b"ERR n must be an integer"),
        (b"HISTORY rows 1.5\n", b"ERR n must be an integer"),
        (b"RANGE rows 1\n", b"ERR usage: RANGE <topic> <from> <to> [limit]"),
        (b"SINCE rows\n", b"ERR usage: SINCE <topic> <time> [limit]"),
        (b"ACK\n", b"ERR usage: ACK <id>"),
        (b"ACK msg_1\n", b"ERR no message msg_1 waits for your acknowledgement"),
        (b"RANGE nosuch 1 2\n", b"OK history end"),
        (b"SINCE nosuch 0\n", b"OK history end"),
        (b"PUB .. x\n", b"ERR InvalidTopicName: a topic cannot be called '..'"),
        (b"SUB ..\n", b"ERR InvalidTopicName: a topic cannot be called '..'"),
        (b"SUB . g\n", b"ERR InvalidTopicName: a topic cannot be called '.'"),
        (
            b"PUB a\x00b x\n",
            b"ERR InvalidTopicName: a topic name is UTF-8 text without control characters",
        ),
        (
            b"PUB " + b"t" * 250 + b" x\n",
            b"ERR InvalidTopicName: a topic name has 1 to 249 bytes, this one has 250",
        ),
        (
            b"PUB !system/x y\n",
            b"ERR InvalidTopicName: '!system/x' is the broker's own to write",
        ),
    ],
)
def test_every_row_of_the_table_is_answered_in_its_words(lines: str, sent: bytes, reply: bytes) -> None:
    with Peer(lines) as peer:
        for at in range(len(sent)):  # a byte at a time, and the connection goes on
            peer.send(sent[at : at + 1])
        got = peer.line()
        while got.startswith(b"MSG "):
            got = peer.line()
        assert got == reply
        assert peer.ask(b"PING") == b"OK pong"


@pytest.mark.parametrize("word", [b"QUIT", b"quit", b" Quit\r"])
def test_quit_is_answered_and_closes(lines: str, word: bytes) -> None:
    with Peer(lines) as peer:
        peer.send(b"PUB quitting x\nPING\n" + word + b"\nPING\n")
        assert peer.rest() == b"OK published\nOK pong\nOK bye\n"


def test_a_line_of_64_kib_is_taken_and_a_longer_one_closes_without_reply(lines: str) -> None:
    fits = b"PUB long " + b"x" * (65536 - 9)
    with Peer(lines) as peer:
        assert peer.ask(fits) == b"OK published"
        peer.send(b"PING\nPUB long y\n" + fits + b"x\nPING\n")
        assert peer.rest() == b"OK pong\nOK published\n"
    with Peer(lines) as peer:
        assert [len(one.text) for one in peer.history(b"HISTORY long 9")] == [65536 - 9, 1]
        peer.send(b"x" * 70_000)
        assert peer.rest() == b""


def test_a_line_without_its_end_counts_when_the_client_says_no_more(lines: str) -> None:
    with Peer(lines) as peer:
        peer.send(b"PUB halfway one\nPUB halfway two\nHISTORY halfway 5\nPING")
        peer.socket.shutdown(1)
        got = peer.rest().split(b"\n")
        assert got[:2] == [b"OK published"] * 2
        assert [shown(line).text for line in got[2:4]] == [b"one", b"two"]
        assert got[4:] == [b"OK history end", b"OK pong", b""]


def test_messages_keep_their_inner_space_and_lose_what_is_around(lines: str) -> None:
    with Peer(lines) as peer:
        for line in (b"PUB spaces   a  b\tc  \r", b"PUB  spaces\td", "PUB spaces   é \u2003".encode()):
            assert peer.ask(line) == b"OK published"
        assert [one.text for one in peer.history(b"HISTORY spaces 3")] == [b"a  b\tc", b"d", "é".encode()]


def test_bytes_that_are_not_text_become_replacement_characters(lines: str) -> None:
    with Peer(lines) as peer:
        assert peer.ask(b"PUB broken a\xffb\xc3") == b"OK published"
        assert peer.history(b"HISTORY broken 1")[0].text == "a\ufffdb\ufffd".encode()


def test_history_is_the_last_so_many_or_all_or_all_but_the_first(lines: str) -> None:
    with Peer(lines) as peer:
        for number in range(1, 6):
            assert peer.ask(b"PUB past m%d" % number) == b"OK published"
        found = peer.history(b"HISTORY past 2")
        assert [(one.verb, one.topic, one.offset, one.text) for one in found] == [
            (b"HISTORY", b"past", 4, b"m4"),
            (b"HISTORY", b"past", 5, b"m5"),
        ]
        assert all(ID.fullmatch(one.id) for one in found)
        texts = [b"m1", b"m2", b"m3", b"m4", b"m5"]
        assert [one.text for one in peer.history(b"HISTORY past 0")] == texts
        assert [one.text for one in peer.history(b"HISTORY past 99")] == texts
        assert [one.text for one in peer.history(b"HISTORY past 20000")] == texts
        assert [one.text for one in peer.history(b"HISTORY past -2")] == texts[2:]
        assert peer.history(b"HISTORY past -5") == peer.history(b"HISTORY past -99") == []


def test_a_publisher_that_subscribed_sees_its_message_before_the_reply(lines: str) -> None:
    with Peer(lines) as peer:
        assert peer.ask(b"SUB own") == b"OK subscribed own"
        peer.send(b"PUB own one\nPUB own two\n")
        assert peer.texts(2) == [b"one", b"two"]
        assert peer.lines(2) == [b"OK published"] * 2
        assert peer.ask(b"SUB own") == b"OK subscribed own"
        peer.send(b"PUB own three\n")
        assert peer.message().text == b"three"
        assert peer.line() == b"OK published"
        assert peer.is_quiet()


def test_a_topic_may_have_a_name_that_no_file_has(lines: str) -> None:
    with Peer(lines) as peer:
        for topic in (b"a/b", b"../etc", "größe/日本".encode(), b"C:\\x", b"...", b"~"):
            assert peer.ask(b"SUB " + topic) == b"OK subscribed " + topic
            peer.send(b"PUB %b x\n" % topic)
            assert peer.message().topic == topic
            assert peer.line() == b"OK published"
            assert [one.text for one in peer.history(b"HISTORY %b 5" % topic)] == [b"x"]


def test_replies_come_in_the_order_of_commands(lines: str) -> None:
    with Peer(lines) as peer:
        peer.send(
            b"PUB order 1\nPING\nHISTORY order 5\nbad\nPUB order 2\nSUB order\nPUB order 3\nHISTORY order 0\nPING\n"
        )
        got = peer.lines(2)
        assert got == [b"OK published", b"OK pong"]
        assert peer.message().text == b"1"
        assert peer.lines(4) == [
            b"OK history end",
            b"ERR unknown command: bad",
            b"OK published",
            b"OK subscribed order",
        ]
        assert peer.message()[:1] == (b"MSG",)
        assert peer.line() == b"OK published"
        assert peer.texts(3) == [b"1", b"2", b"3"]
        assert peer.lines(2) == [b"OK history end", b"OK pong"]


def test_pipelined_publishes_are_one_batch_and_each_is_answered(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        assert peer.ask(b"PUB piped first") == b"OK published"
        peer.send(b"".join(b"PUB piped %d\n" % number for number in range(1000)))
        assert peer.lines(1000) == [b"OK published"] * 1000
        found = peer.history(b"HISTORY piped -1")
        assert [one.text for one in found] == [b"%d" % number for number in range(1000)]
        assert [one.offset for one in found] == list(range(2, 1002))
        assert len({one.id for one in found}) == 1000
