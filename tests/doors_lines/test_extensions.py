"""What is ours in the lines protocol: ranges, times, given ids, several partitions; and records of other protocols."""

from __future__ import annotations

import pytest

from headrace.testing.broker import Broker
from tests.doors_lines.kit import Peer
from tests.support import Wire


def texts(peer: Peer, line: bytes) -> list[bytes]:
    return [one.text for one in peer.history(line)]


def test_a_range_is_by_the_offsets_that_are_shown_both_included(lines: str) -> None:
    with Peer(lines) as peer:
        peer.send(b"".join(b"PUB span m%d\n" % number for number in range(1, 8)))
        peer.lines(7)
        found = peer.history(b"RANGE span 2 4")
        assert [(one.verb, one.offset, one.text) for one in found] == [
            (b"HISTORY", 2, b"m2"),
            (b"HISTORY", 3, b"m3"),
            (b"HISTORY", 4, b"m4"),
        ]
        assert texts(peer, b"RANGE span 2 6 2") == [b"m2", b"m3"]
        assert texts(peer, b"RANGE span -5 1") == [b"m1"]
        assert texts(peer, b"RANGE span 6 99999999999999999999999") == [b"m6", b"m7"]
        assert texts(peer, b"RANGE span 5 4") == texts(peer, b"RANGE span 8 9") == []
        assert texts(peer, b"RANGE span -9999999999999999999999999 2") == [b"m1", b"m2"]


def test_since_begins_with_the_first_message_at_or_after_the_time(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        for text in (b"one", b"two", b"three"):
            assert peer.ask(b"PUB times " + text) == b"OK published"
            broker.clock.advance(10)
        first, second, third = peer.history(b"HISTORY times 0")
        assert float(second.ts) - float(first.ts) >= 10
        assert peer.history(b"SINCE times " + second.ts) == [second, third]
        assert peer.history(b"SINCE times %r" % (float(first.ts) + 1)) == [second, third]
        assert peer.history(b"SINCE times 0") == peer.history(b"SINCE times -5") == [first, second, third]
        assert peer.history(b"SINCE times 0 1") == [first]
        assert peer.history(b"SINCE times 2000-01-01T00:00:00Z 2") == [first, second]
        assert peer.history(b"SINCE times 9999-01-01T00:00:00Z") == []
        assert peer.history(b"SINCE times 9999999999999") == []


def test_an_id_may_be_given_and_is_shown_and_kept(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        assert peer.ask(b"PUB named --id order-7 some  text") == b"OK published"
        assert peer.ask(b"PUB named --id order-7 again") == b"OK published"  # no window: nothing is known twice
        found = peer.history(b"HISTORY named 5")
        assert [(one.id, one.text) for one in found] == [(b"order-7", b"some  text"), (b"order-7", b"again")]
    record, _ = broker.records("named")
    assert record.headers == (("id", b"order-7"),) and record.key is None and record.value == b"some  text"


def test_within_its_window_a_repeated_id_is_stored_once(broker: Broker, lines: str) -> None:
    broker.create_topic("once", 1, {"headrace.dedup.window.ms": 60_000})
    with Peer(lines) as peer, Peer(lines) as other:
        assert other.ask(b"SUB once") == b"OK subscribed once"
        peer.send(
            b"PUB once --id a first\nPUB once --id a second\nPUB once --id b third\nPUB once plain\nPUB once plain\n"
        )
        assert peer.lines(5) == [b"OK published", b"OK duplicate", b"OK published", b"OK published", b"OK published"]
        assert peer.ask(b"PUB once --id b fourth") == b"OK duplicate"
        assert other.texts(4) == texts(peer, b"HISTORY once 0") == [b"first", b"third", b"plain", b"plain"]
        broker.clock.advance(61)
        assert peer.ask(b"PUB once --id a later") == b"OK published"


def test_topics_of_several_partitions_are_merged(broker: Broker, lines: str) -> None:
    broker.create_topic("merged", 3)
    with Peer(lines) as peer, Peer(lines) as other:
        other.ask(b"SUB merged")
        for number in range(12):
            assert peer.ask(b"PUB merged %d" % number) == b"OK published"
            broker.clock.advance(1)
        expected = [b"%d" % number for number in range(12)]
        assert other.texts(12) == expected
        assert texts(peer, b"HISTORY merged 0") == expected
        assert texts(peer, b"HISTORY merged 5") == expected[-5:]
        assert texts(peer, b"HISTORY merged -3") == expected[3:]
        assert sorted(one.offset for one in peer.history(b"HISTORY merged 0")) == [1] * 3 + [2] * 3 + [3] * 3 + [4] * 3
        assert len(peer.history(b"RANGE merged 1 2")) == 6
        assert texts(peer, b"RANGE merged 1 2 4") == expected[:4]
        since = peer.history(b"HISTORY merged 4")[0].ts
        assert texts(peer, b"SINCE merged " + since) == expected[-4:]
    assert {len(broker.records("merged", index)) for index in range(3)} == {4}


def test_the_messages_of_one_read_are_one_batch(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        assert peer.ask(b"PUB batched 0") == b"OK published"
        peer.send(b"".join(b"PUB batched %d\n" % number for number in range(500)))
        peer.lines(500)
    with Wire(broker.kafka) as wire:
        fetched = wire.fetch("batched", 0)
        data, at, sizes = b"".join(fetched.pieces or []), 0, []
        while at < len(data):
            sizes.append(int.from_bytes(data[at + 57 : at + 61]))
            at += 12 + int.from_bytes(data[at + 8 : at + 12])
    assert sum(sizes) == 501
    assert len(sizes) <= 3  # the kernel may cut what was sent once


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"plain text", b"plain text"),
        (b" around ", b" around "),
        (b"two\nlines\r\n", rb"two\nlines\r\n"),
        (rb"back\slash\n", rb"back\\slash\\n"),
        ('{"json": "ü"}'.encode(), '{"json": "ü"}'.encode()),
        (b"\x00\xff", b'{"base64": "AP8="}'),
        (b"", b""),
        (None, b""),
    ],
)
def test_values_of_other_protocols_are_one_line_each(
    broker: Broker, lines: str, value: bytes | None, shown: bytes
) -> None:
    topic = f"other-{abs(hash(value))}"
    with Peer(lines) as peer:
        peer.ask(b"SUB " + topic.encode())
        broker.produce(topic, value)
        delivered = peer.message()
        assert delivered.text == shown
        (told,) = peer.history(b"HISTORY %b 1" % topic.encode())
        assert told[1:] == delivered[1:]
        assert delivered.offset == 1
        assert delivered.id.startswith(b"msg_0-0_")  # made of its place: the same at every reading


def test_an_id_of_another_protocol_is_shown_if_it_is_a_word(broker: Broker, lines: str) -> None:
    for own in (b"order-1", "größe".encode(), b"two words", b"", b"\xff", b"a\nb", b"x" * 201, None):
        broker.produce("ids", "v", headers=[("id", own)])
    with Peer(lines) as peer:
        ids = [one.id for one in peer.history(b"HISTORY ids 0")]
        assert ids[:2] == [b"order-1", "größe".encode()]
        assert all(one.startswith(b"msg_0-") for one in ids[2:])


def test_a_record_larger_than_a_line_may_be_is_delivered_whole(broker: Broker, lines: str) -> None:
    value = b"\\" * 500_000
    with Peer(lines) as peer:
        peer.ask(b"SUB grown")
        broker.produce("grown", value)
        assert peer.message().text == value * 2
        assert peer.ask(b"PING") == b"OK pong"


def test_a_topic_that_is_full_of_rules_refuses_in_its_own_words(broker: Broker, lines: str) -> None:
    broker.create_topic("small", 1, {"max.message.bytes": 100})
    broker.create_topic("compacted", 1, {"cleanup.policy": "compact"})
    with Peer(lines) as peer:
        peer.send(b"PUB small a\nPUB small " + b"x" * 200 + b"\nPUB small b\nPUB compacted x\nPING\n")
        first, second, third, fourth, fifth = peer.lines(5)
        assert first == third == b"OK published"
        assert second.startswith(b"ERR MessageTooLarge: ")
        assert fourth == b"ERR InvalidRecord: every record of a compacted topic has a key"
        assert fifth == b"OK pong"
        assert texts(peer, b"HISTORY small 0") == [b"a", b"b"]


def test_a_publish_to_a_missing_topic_is_refused_where_topics_do_not_make_themselves() -> None:
    with Broker(auto_create_topics=False) as broker, Peer(broker.addresses["lines"]) as peer:
        assert peer.ask(b"PUB nosuch x") == b"ERR UnknownTopic: no topic 'nosuch'"
        assert peer.ask(b"SUB nosuch") == b"OK subscribed nosuch"
        broker.create_topic("nosuch")
        peer.send(b"PUB nosuch x\n")
        assert peer.message().text == b"x"
        assert peer.line() == b"OK published"


def test_what_was_acknowledged_survives_a_power_loss() -> None:
    with Broker("memory") as broker:
        with Peer(broker.addresses["lines"]) as peer:
            for number in range(20):
                assert peer.ask(b"PUB safe %d" % number) == b"OK published"
        broker.crash(power_loss=True)
        broker.restart()
        with Peer(broker.addresses["lines"]) as peer:
            assert texts(peer, b"HISTORY safe 0") == [b"%d" % number for number in range(20)]


def test_a_deleted_topic_that_comes_again_is_followed(broker: Broker, lines: str) -> None:
    with Peer(lines) as peer:
        peer.ask(b"SUB phoenix")
        peer.send(b"PUB phoenix 1\n")
        assert peer.message().text == b"1" and peer.line() == b"OK published"
        broker.delete_topic("phoenix")
        peer.send(b"PUB phoenix 2\n")
        found = peer.message()
        assert (found.text, found.offset) == (b"2", 1)
        assert peer.line() == b"OK published"
