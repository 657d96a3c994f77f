"""Subscriptions by patterns: who gets what, once, counted, and what it costs."""

from __future__ import annotations

import random

import pytest

from headrace.broker.broker import NewTopic
from headrace.broker.subscriptions.pattern import Pattern
from headrace.broker.subscriptions.run import Run
from headrace.broker.subscriptions.subscription import LEFT_IN_A_TURN, RESUMED_IN_A_TURN, PatternSubscription
from headrace.records.codec import BatchOptions, Producer
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


@pytest.mark.parametrize("seed", range(10))
async def test_no_room_is_no_room_for_any_topic_and_all_of_them_are_read_on(seed: int) -> None:
    node, chance = Node(), random.Random(seed)
    count = 2 * RESUMED_IN_A_TURN + 20
    partitions = [await node.partition(f"t{number}") for number in range(count)]

    class Fickle(Reader):
        is_full = False
        got: dict[str, list[bytes | None]]

        def deliver(self, run: Run) -> bool:
            assert not self.is_full, "nothing is delivered to who has no room"
            super().deliver(run)
            self.got.setdefault(run.topic.name, []).extend(record.value for record in run.records)
            self.is_full = chance.random() < 0.3
            if self.is_full and chance.random() < 0.2:
                self.go_on()
            return not self.is_full

        def go_on(self) -> None:
            self.is_full = False
            held.resume()

    reader = Fickle()
    reader.got = {}
    held = node.broker.subscriptions.patterns(reader)
    held.add("t*")
    wanted: dict[str, list[bytes]] = {}
    for number in range(1_500):
        partition = chance.choice(partitions)
        value = b"%d" % number
        wanted.setdefault(partition.topic.name, []).append(value)
        publish(node, partition, value)
        if reader.is_full and chance.random() < 0.05:
            reader.go_on()
        if chance.random() < 0.1:
            await settle(node, turns=1)
    for _ in range(3_000):
        if reader.is_full:
            reader.go_on()
        await settle(node, turns=1)
        if not held.away:
            break
    assert reader.got == wanted
    assert reader.losses == []


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
    assert not feeds, "before something is published they cost nothing"
    publish(node, await node.partition("t7"), b"x")
    assert all(reader.values == [b"x"] for reader in readers)
    for reader in readers[1:]:
        reader.deliver = lambda run: True  # type: ignore[method-assign]
    for number in range(1_000):
        publish(node, await node.partition(f"t{number}"), b"y")
    assert len(feeds) == 1_000
    assert sum(len(feed._places) for feed in feeds.values()) == 1_000
    assert readers[0].values == [b"x"] + [b"y"] * 1_000


async def test_no_topic_is_looked_at_when_patterns_come_and_go(monkeypatch: pytest.MonkeyPatch) -> None:
    node = Node()
    for number in range(500):
        node.broker.memory_topics.get_or_create(f"t{number}/x")

    def never(*_: object) -> None:
        raise AssertionError("it was looked at")

    monkeypatch.setattr(node.broker, "topics", never)
    monkeypatch.setattr(Pattern, "matches", never)
    held = node.broker.subscriptions.patterns(Reader())
    for number in range(500):
        held.add(f"t{number}*")
        held.add(f"*{number}/*")
        held.add("*" + "?" * number)
    for number in range(250):
        held.remove(f"t{number}*")
        held.remove(f"*{number}/*")
    held.close()
    await settle(node, lambda: not node.broker.subscriptions.is_gathering)
    assert not node.broker.subscriptions._index
    assert not node.broker.subscriptions.is_gathering


async def test_what_a_transaction_wrote_comes_if_it_is_committed_after_the_pattern_was_added() -> None:
    """As it does for one who subscribed to the topic itself."""
    node = Node()
    partition = await node.partition("t")
    publish(node, partition, b"before")
    options = BatchOptions(producer=Producer(7, 0, 0), is_transactional=True)
    publish(node, partition, b"within", options=options)
    by_name, by_pattern = Reader(), Reader()
    node.broker.subscriptions.subscribe("t", by_name)
    node.broker.subscriptions.patterns(by_pattern).add("*")
    publish(node, partition, b"after")
    partition.append_marker(7, 0, 0, True, node.world.clock.now_ms())
    node.broker.flush()
    assert by_pattern.values == by_name.values == [b"within", b"after"]


async def test_nothing_that_was_published_between_an_unsubscribe_and_the_next_subscribe_comes() -> None:
    node = Node()
    quick, slow = Reader(), Reader(room=1)
    held, slowly = node.broker.subscriptions.patterns(quick), node.broker.subscriptions.patterns(slow)
    partition = await node.partition("t/x")
    for subscription in (held, slowly):
        subscription.add("t/*")
    publish(node, partition, b"1")
    publish(node, partition, b"2")  # the slow one has no room for it
    for subscription in (held, slowly):
        subscription.remove("t/*")
    publish(node, partition, b"3")
    for subscription in (held, slowly):
        subscription.add("t/*")
    slow.room = None
    slowly.resume()
    publish(node, partition, b"4")
    await settle(node, turns=10)
    assert quick.values == [b"1", b"2", b"4"]
    assert slow.values == [b"1", b"4"]


async def test_a_log_that_is_opened_by_the_first_publisher_is_followed_from_there() -> None:
    node = Node()
    publish(node, await node.partition("t"), b"old")
    node.power_loss()
    node.world.background.drain()
    reader = Reader()
    node.broker.subscriptions.patterns(reader).add("?")
    await settle(node, turns=10)
    topic = node.broker.topic("t")
    assert topic is not None
    assert topic.partitions[0].log is None, "nobody opened it for a pattern"
    publish(node, await node.partition("t"), b"new")
    assert reader.values == [b"new"]


async def test_who_leaves_with_many_patterns_and_places_does_so_bit_by_bit_and_gets_nothing_more() -> None:
    node = Node()
    slow, other = Reader(room=0), Reader()
    held = node.broker.subscriptions.patterns(slow)
    node.broker.subscriptions.patterns(other).add("*")
    count = 3 * LEFT_IN_A_TURN
    partitions = [await node.partition(f"t{number}") for number in range(count)]
    for number in range(count):
        held.add(f"t{number}*")
        held.add(f"t{number}")
    for partition in partitions:
        publish(node, partition, b"1")
    assert (len(slow.values), len(held.away)) == (1, count)
    slow.room = None
    held.close()
    assert len(held) == 2 * count - LEFT_IN_A_TURN
    assert node.broker.subscriptions.matching("t599") == [held_by for held_by in _all(node) if held_by is not held]
    for partition in partitions:
        publish(node, partition, b"2")
    held.resume()
    await settle(node, lambda: not held.away and not len(held))
    assert len(slow.values) == 1
    assert len(other.values) == 2 * count
    assert len(node.broker.subscriptions._index) == 1


def _all(node: Node) -> list[PatternSubscription]:
    return list(node.broker.subscriptions._index.owners("nothing else matches"))


async def test_when_the_last_pattern_is_gone_nothing_is_left_of_topics_that_are_silent() -> None:
    node = Node()
    held = node.broker.subscriptions.patterns(Reader())
    held.add("*")
    partitions = [await node.partition(f"t{number}") for number in range(250)]
    for partition in partitions:
        publish(node, partition, b"1")
    assert len(node.broker.subscriptions._feeds) == 250
    held.remove("*")
    await settle(node, lambda: not node.broker.subscriptions._feeds)
    assert not any(partition._waiters for partition in partitions)
    assert not node.broker.subscriptions.is_gathering
