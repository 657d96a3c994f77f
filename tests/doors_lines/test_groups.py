"""Groups of the lines protocol: who gets what, in which order, once or until it is acknowledged."""

from __future__ import annotations

import time

from headrace.testing.broker import Broker
from tests.doors_lines.kit import ID, Peer, peers


def publish(publisher: Peer, topic: bytes, *texts: bytes) -> None:
    for text in texts:
        assert publisher.ask(b"PUB %b %b" % (topic, text)) == b"OK published"


def test_members_take_turns_as_captured_and_a_plain_subscriber_gets_all(lines: str) -> None:
    with peers(lines, 4) as (a, b, c, publisher):
        assert a.ask(b"SUB robin") == b"OK subscribed robin"
        assert b.ask(b"SUB robin g1") == b"OK subscribed robin in group g1"
        assert c.ask(b"SUB robin g1") == b"OK subscribed robin in group g1"
        publish(publisher, b"robin", b"1", b"2", b"3", b"4")
        assert a.texts(4) == [b"1", b"2", b"3", b"4"]
        assert b.texts(2) == [b"1", b"3"]
        assert c.texts(2) == [b"2", b"4"]
        assert a.is_quiet() and b.is_quiet() and c.is_quiet()


def test_pipelined_messages_take_turns_too(lines: str) -> None:
    with peers(lines, 4) as (*members, publisher):
        for member in members:
            member.ask(b"SUB turns g")
        publisher.send(b"".join(b"PUB turns %d\n" % number for number in range(30)))
        for place, member in enumerate(members):
            assert member.texts(10) == [b"%d" % number for number in range(place, 30, 3)]


def test_each_group_gets_every_message_by_itself(lines: str) -> None:
    with peers(lines, 3) as (one, other, publisher):
        one.ask(b"SUB apart g1")
        other.ask(b"SUB apart g2")
        publish(publisher, b"apart", b"1", b"2", b"3")
        assert one.texts(3) == other.texts(3) == [b"1", b"2", b"3"]


def test_joining_a_group_twice_counts_once(lines: str) -> None:
    with peers(lines, 3) as (twice, once, publisher):
        for _ in range(3):
            assert twice.ask(b"SUB twice g") == b"OK subscribed twice in group g"
        once.ask(b"SUB twice g")
        publish(publisher, b"twice", b"1", b"2", b"3", b"4")
        assert twice.texts(2) == [b"1", b"3"]
        assert once.texts(2) == [b"2", b"4"]
        twice.socket.close()
        for number in range(5, 9):  # nothing goes to who has left
            publish(publisher, b"twice", b"%d" % number)
        got = once.texts(1)  # the first may have gone out to it just before
        while got[-1] != b"8":
            got += once.texts(1)
        assert got in ([b"5", b"6", b"7", b"8"], [b"6", b"7", b"8"])


def test_a_plain_and_a_group_subscription_of_one_connection_both_deliver(lines: str) -> None:
    with peers(lines, 2) as (both, publisher):
        both.ask(b"SUB both")
        both.ask(b"SUB both g")
        publish(publisher, b"both", b"1")
        assert both.texts(2) == [b"1", b"1"]
        assert both.is_quiet()


def test_a_publisher_in_the_group_sees_its_message_before_the_reply(lines: str) -> None:
    with Peer(lines) as peer:
        peer.ask(b"SUB mine g")
        peer.ask(b"SUB mine h")
        peer.ask(b"SUBACK mine k")
        for number in range(20):
            peer.send(b"PUB mine %d\n" % number)
            assert peer.texts(3) == [b"%d" % number] * 3
            assert peer.line() == b"OK published"


def test_it_does_while_others_publish_too_however_close_the_messages_are(lines: str) -> None:
    with peers(lines, 2) as (peer, other):
        peer.ask(b"SUB close g")
        for number in range(300):
            peer.send(b"PUB close mine %d\n" % number)
            other.send(b"PUB close other\n")
            time.sleep(0.001)
        published, seen = 0, set()
        while published < 300:
            line = peer.line()
            if line == b"OK published":
                assert b"mine %d" % published in seen
                published += 1
            else:
                seen.add(line.split(b" ", 5)[5])


def test_a_new_group_begins_at_the_end_and_an_old_one_where_it_was(lines: str) -> None:
    with Peer(lines) as publisher:
        publish(publisher, b"where", b"1", b"2")
        with Peer(lines) as member:
            member.ask(b"SUB where g")
            assert member.is_quiet()
            publish(publisher, b"where", b"3")
            assert member.texts(1) == [b"3"]
            assert member.ask(b"QUIT") == b"OK bye"
            assert member.rest() == b""
        publish(publisher, b"where", b"4", b"5")
        with Peer(lines) as member:
            member.send(b"SUB where g\n")
            assert member.line() == b"OK subscribed where in group g"
            assert member.texts(2) == [b"4", b"5"]
            assert member.is_quiet()


def test_a_group_of_a_topic_that_is_not_there_gets_its_first_message(lines: str) -> None:
    with peers(lines, 2) as (member, publisher):
        member.ask(b"SUB unborn g")
        publish(publisher, b"unborn", b"1")
        assert member.texts(1) == [b"1"]


def test_a_group_of_several_partitions_gets_each_record_once(broker: Broker, lines: str) -> None:
    broker.create_topic("wide", 3)
    with peers(lines, 3) as (one, other, publisher):
        one.ask(b"SUB wide g")
        other.ask(b"SUB wide g")
        publish(publisher, b"wide", *(b"%d" % number for number in range(30)))
        assert sorted(one.texts(15) + other.texts(15)) == sorted(b"%d" % number for number in range(30))
        assert one.is_quiet() and other.is_quiet()


# With acknowledgement


def test_an_acknowledged_message_is_done_and_another_comes_again_when_its_client_leaves(lines: str) -> None:
    with Peer(lines) as publisher:
        with Peer(lines) as member:
            assert member.ask(b"SUBACK work g") == b"OK subscribed work in group g with acknowledgement"
            publish(publisher, b"work", b"1", b"2", b"3")
            first, second, third = (member.message() for _ in range(3))
            assert all(ID.fullmatch(one.id) for one in (first, second, third))
            assert member.ask(b"ACK " + second.id) == b"OK acknowledged " + second.id
            assert member.ask(b"ACK " + second.id) == b"ERR no message %b waits for your acknowledgement" % second.id
        with Peer(lines) as member:
            member.send(b"SUBACK work g\n")
            assert member.line().startswith(b"OK subscribed")
            assert [member.message(), member.message()] == [first, third]
            assert member.ask(b"ACK " + third.id) == b"OK acknowledged " + third.id
            assert member.ask(b"ACK " + first.id) == b"OK acknowledged " + first.id
        with Peer(lines) as member:
            member.ask(b"SUBACK work g")
            assert member.is_quiet()


def test_silence_gives_the_message_to_another() -> None:
    with Broker() as broker, peers(broker.addresses["lines"], 3) as (silent, eager, publisher):
        silent.ask(b"SUBACK quiet g")
        publish(publisher, b"quiet", b"1")
        lost = silent.message()
        eager.ask(b"SUBACK quiet g")
        silent.socket.settimeout(0.5)
        broker.clock.advance(29)
        broker.settle()
        assert eager.is_quiet()
        broker.clock.advance(2)
        broker.clock.advance(2)  # the second attempt waits a moment
        found = [peer for peer in (eager, silent) if not peer.is_quiet()]
        assert len(found) == 1 and found[0].message() == lost
        (keeper,) = found
        other = silent if keeper is eager else eager
        assert other.ask(b"ACK " + lost.id) == b"ERR no message %b waits for your acknowledgement" % lost.id
        assert keeper.ask(b"ACK " + lost.id) == b"OK acknowledged " + lost.id


def test_a_message_that_nobody_acknowledges_goes_to_the_dead_letters(lines: str) -> None:
    with Peer(lines) as publisher:
        publish(publisher, b"poison", b"0")
        for attempt in range(5):
            with Peer(lines) as member:
                member.send(b"SUBACK poison g\n")
                assert member.line().startswith(b"OK subscribed")
                if attempt == 0:
                    publish(publisher, b"poison", b"1")
                assert member.message().text == b"1"
        with Peer(lines) as reader:
            reader.ask(b"SUBACK poison g")
            assert reader.is_quiet()
            assert [one.text for one in reader.history(b"HISTORY poison.dead 5")] == [b"1"]


def test_a_group_is_with_acknowledgement_or_without_not_both(lines: str) -> None:
    with peers(lines, 2) as (one, other):
        one.ask(b"SUB mode g")
        assert one.ask(b"SUBACK mode g").startswith(b"ERR QueueModeConflict: ")
        assert other.ask(b"SUBACK mode g").startswith(b"ERR QueueModeConflict: ")
        assert other.ask(b"SUBACK mode h").startswith(b"OK ")
        assert one.ask(b"SUB mode h").startswith(b"ERR QueueModeConflict: ")


def test_a_client_holds_a_hundred_unacknowledged_messages_and_then_gets_more_as_it_acknowledges(lines: str) -> None:
    with peers(lines, 2) as (member, publisher):
        member.ask(b"SUBACK window g")
        publisher.send(b"".join(b"PUB window %d\n" % number for number in range(250)))
        publisher.lines(250)
        held = [member.message() for _ in range(100)]
        assert member.is_quiet()
        got = list(held)
        for one in got:
            member.send(b"ACK %b\n" % one.id)
            while (line := member.line()) != b"OK acknowledged " + one.id:
                _, _, own, _, _, text = line.split(b" ")
                got.append(one._replace(id=own, text=text))
        assert [one.text for one in got] == [b"%d" % number for number in range(250)]


def test_one_id_twice_is_acknowledged_twice(lines: str) -> None:
    with peers(lines, 2) as (member, publisher):
        member.ask(b"SUBACK same g")
        publish(publisher, b"same", b"--id x1 one", b"--id x1 two")
        assert member.texts(2) == [b"one", b"two"]
        assert member.ask(b"ACK x1") == member.ask(b"ACK x1") == b"OK acknowledged x1"
        assert member.ask(b"ACK x1") == b"ERR no message x1 waits for your acknowledgement"
