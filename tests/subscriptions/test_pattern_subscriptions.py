"""Subscriptions by patterns: who gets what, once, counted, and what it costs."""

from __future__ import annotations

from headrace.broker.broker import NewTopic
from headrace.broker.subscriptions.run import Run
from tests.broker.kit import Node, produce
from tests.log.kit import batch
from tests.subscriptions.kit import Reader, publish, settle

MEMORY = {"headrace.storage": "memory"}


async def test_topics_that_match_are_followed_those_that_come_later_too() -> None:
    node = Node()
    early = await node.partition("a/early")
    reader = Reader()
    held = node.broker.subscriptions.patterns(reader)
    held.add("a/*")
    publish(node, early, b"1")
    publish(node, await node.partition("a/late"), b"2")
    publish(node, await node.partition("b/other"), b"3")
    assert reader.topics == ["a/early", "a/late"]


async def test_one_copy_comes_however_many_patterns_match() -> None:
    node = Node()
    reader, other = Reader(), Reader()
    held = node.broker.subscriptions.patterns(reader)
    for pattern in ("abc", "a?c", "a*", "*"):
        held.add(pattern)
    node.broker.subscriptions.patterns(other).add("ab*")
    publish(node, await node.partition("abc"), b"1")
    assert reader.values == other.values == [b"1"]


async def test_patterns_are_counted_and_unknown_ones_ignored() -> None:
    node = Node()
    partition = await node.partition("t")
    reader = Reader()
    held = node.broker.subscriptions.patterns(reader)
    held.add("t")
    held.add("t")
    held.remove("t")
    held.remove("never")
    publish(node, partition, b"1")
    held.remove("t")
    held.remove("t")
    publish(node, partition, b"2")
    assert reader.values == [b"1"]
    assert not partition._waiters


async def test_a_topic_that_another_pattern_still_matches_is_not_left() -> None:
    node = Node()
    partition = await node.partition("abc")
    reader = Reader()
    held = node.broker.subscriptions.patterns(reader)
    held.add("a*")
    held.add("*c")
    held.remove("a*")
    publish(node, partition, b"1")
    held.remove("*c")
    publish(node, partition, b"2")
    assert reader.values == [b"1"]


async def test_what_was_staged_before_a_pattern_was_added_is_not_for_it() -> None:
    node = Node()
    partition = await node.partition("t")
    reader, first = Reader(), Reader()
    node.broker.subscriptions.patterns(first).add("t")
    partition.append(batch(b"before"), node.world.clock.now_ms())
    node.broker.subscriptions.patterns(reader).add("t")
    publish(node, partition, b"after")
    assert reader.values == [b"after"]
    assert first.values == [b"before", b"after"]


async def test_the_brokers_own_state_is_nobodys_business() -> None:
    node = Node()
    reader = Reader()
    node.broker.subscriptions.patterns(reader).add("*")
    await node.do(node.broker.auto_create(["__consumer_offsets"]))
    assert not node.broker.subscriptions._feeds


async def test_who_has_no_room_catches_up_by_itself_and_comes_back() -> None:
    node = Node()
    partition = await node.partition("t")
    slow, quick = Reader(room=1), Reader()
    held = node.broker.subscriptions.patterns(slow)
    held.add("*")
    node.broker.subscriptions.patterns(quick).add("*")
    for value in range(20):
        publish(node, partition, b"%d" % value)
    assert (len(slow.values), len(quick.values)) == (1, 20)
    assert len(held.away) == 1
    slow.room = None
    held.resume()
    await settle(node, lambda: not held.away)
    publish(node, partition, b"20")
    assert slow.values == quick.values == [b"%d" % value for value in range(21)]


async def test_who_leaves_while_it_is_behind_is_gone() -> None:
    node = Node()
    partition = await node.partition("t")
    slow = Reader(room=1)
    held = node.broker.subscriptions.patterns(slow)
    held.add("t")
    publish(node, partition, b"1")
    publish(node, partition, b"2")
    slow.room = None
    held.remove("t")
    held.resume()
    await settle(node, turns=10)
    assert slow.values == [b"1"]
    assert not node.broker.subscriptions._feeds
    held.add("t")
    publish(node, partition, b"3")
    assert slow.values == [b"1", b"3"]
    held.close()
    publish(node, partition, b"4")
    assert slow.values == [b"1", b"3"]
    assert not partition._waiters


async def test_a_form_that_was_at_hand_is_used_and_never_for_other_records() -> None:
    node = Node()
    await node.topic("t", configs=MEMORY)
    partition = await node.partition("t")
    got: list[tuple[bool, list[bytes | None]]] = []

    class Looker(Reader):
        def deliver(self, run: Run) -> bool:
            got.append((run.is_encoded("x"), [record.value for record in run.records]))
            return True

    node.broker.subscriptions.patterns(Looker()).add("t")
    now_ms = node.world.clock.now_ms()
    for value in (b"1", b"2"):
        staged = partition.append(batch(value), now_ms)
        node.broker.subscriptions.prepared(partition, staged, "x", value)
    assert node.broker.subscriptions.flush() is None
    produce(node, partition, batch(b"3"))
    staged = partition.append(batch(b"4"), now_ms)
    partition.append(batch(b"5"), now_ms)
    node.broker.subscriptions.prepared(partition, staged, "x", b"4")
    node.broker.subscriptions.flush()
    assert got == [(True, [b"1", b"2"]), (False, [b"3"]), (True, [b"4"]), (False, [b"5"])]


async def test_a_thousand_topics_and_a_thousand_subscribers_cost_one_place_for_each_topic() -> None:
    node = Node()
    await node.do(node.broker.create_topics([NewTopic(f"t{number}", 1, configs=MEMORY) for number in range(1_000)]))
    readers = [Reader() for _ in range(1_000)]
    for reader in readers:
        node.broker.subscriptions.patterns(reader).add("t*")
    feeds = node.broker.subscriptions._feeds
    assert len(feeds) == 1_000
    assert sum(len(feed._places) for feed in feeds.values()) == 1_000
    publish(node, await node.partition("t7"), b"x")
    assert all(reader.values == [b"x"] for reader in readers)
