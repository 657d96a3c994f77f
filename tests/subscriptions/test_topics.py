"""Subscriptions to one topic: live, replayed, full, gone and back."""

from __future__ import annotations

import pytest

from headrace.broker.broker import MorePartitions
from headrace.broker.subscriptions.cursor import RUN_BYTES
from headrace.records.codec import BatchOptions, Producer
from tests.broker.kit import Node
from tests.subscriptions.kit import Reader, publish, settle

MEMORY = {"headrace.storage": "memory"}


async def test_a_subscriber_gets_what_is_appended_from_now_on_before_the_flush_returns() -> None:
    node = Node()
    partition = await node.partition()
    publish(node, partition, b"before")
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    publish(node, partition, b"a", b"b")
    assert reader.values == [b"a", b"b"]
    assert reader.offsets == [1, 2]


async def test_all_who_are_at_the_end_get_the_same_run_and_share_what_is_made_of_it() -> None:
    node = Node()
    partition = await node.partition()
    readers = [Reader() for _ in range(5)]
    for reader in readers:
        node.broker.subscriptions.subscribe("t", reader)
    publish(node, partition, b"a", b"b")
    (run,) = {id(reader.runs[0]): reader.runs[0] for reader in readers}.values()
    made = []
    for _ in readers:
        assert run.encoded("x", lambda run: made.append(run) or b"made") == b"made"  # type: ignore[func-returns-value]
    assert made == [run]


async def test_a_topic_that_is_not_there_yet_is_followed_from_its_first_record() -> None:
    node = Node()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    partition = await node.partition()
    publish(node, partition, b"first")
    assert reader.values == [b"first"]


async def test_a_log_that_is_not_open_is_not_opened_for_who_wants_only_what_comes() -> None:
    node = Node()
    publish(node, await node.partition(), b"old")
    node.power_loss()
    node.world.background.drain()
    topic = node.broker.topic("t")
    assert topic is not None
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    await settle(node, turns=10)
    assert topic.partitions[0].log is None
    publish(node, await node.partition(), b"new")
    assert reader.values[-1:] == [b"new"]
    assert len(reader.values) == 1


@pytest.mark.parametrize("configs", [{}, MEMORY])
async def test_a_replay_goes_over_into_live_without_a_gap_or_a_repetition(configs: dict[str, str]) -> None:
    node = Node()
    await node.topic("t", configs=configs)
    partition = await node.partition()
    base = publish(node, partition, b"0")
    for value in range(1, 30):
        publish(node, partition, b"%d" % value)
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader, start=base + 10)
    assert reader.values == []
    for value in range(30, 60):
        publish(node, partition, b"%d" % value)
        await settle(node, turns=1)
    await settle(node, lambda: len(reader.values) >= 50)
    assert reader.values == [b"%d" % value for value in range(10, 60)]


async def test_a_start_inside_of_a_batch_begins_at_that_record() -> None:
    node = Node()
    partition = await node.partition()
    publish(node, partition, b"0", b"1", b"2", b"3")
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader, start=2)
    await settle(node, lambda: bool(reader.values))
    assert reader.values == [b"2", b"3"]


async def test_who_is_full_goes_on_where_it_was_and_others_do_not_wait() -> None:
    node = Node()
    partition = await node.partition()
    slow, quick = Reader(room=1), Reader()
    subscription = node.broker.subscriptions.subscribe("t", slow)
    node.broker.subscriptions.subscribe("t", quick)
    for value in range(10):
        publish(node, partition, b"%d" % value)
    assert slow.values == [b"0"]
    assert len(quick.values) == 10
    slow.room = None
    subscription.resume()
    await settle(node, lambda: len(slow.values) >= 10)
    publish(node, partition, b"10")
    assert slow.values == quick.values == [b"%d" % value for value in range(11)]
    assert slow.losses == []


async def test_a_subscriber_that_takes_one_run_at_a_time_gets_all_of_them_once() -> None:
    node = Node()
    partition = await node.partition()
    slow = Reader(room=1)
    subscription = node.broker.subscriptions.subscribe("t", slow)
    for value in range(50):
        publish(node, partition, b"%d" % value)
        slow.room = 1
        subscription.resume()
        if value % 3 == 0:
            await settle(node, turns=2)
    for _ in range(60):
        slow.room = 1
        subscription.resume()
        await settle(node, turns=2)
    assert slow.values == [b"%d" % value for value in range(50)]


async def test_one_that_resumes_while_it_is_delivered_to_is_not_forgotten() -> None:
    node = Node()
    partition = await node.partition()

    class Quick(Reader):
        def deliver(self, run: object) -> bool:
            super().deliver(run)  # type: ignore[arg-type]
            subscription.resume()
            return False

    quick = Quick()
    subscription = node.broker.subscriptions.subscribe("t", quick)
    publish(node, partition, b"a")
    publish(node, partition, b"b")
    assert quick.values == [b"a", b"b"]


async def test_what_a_ring_dropped_before_a_slow_subscriber_came_back_is_counted_as_lost() -> None:
    node = Node()
    await node.topic("t", configs={**MEMORY, "retention.bytes": "200000"})
    partition = await node.partition()
    slow = Reader(room=1)
    subscription = node.broker.subscriptions.subscribe("t", slow)
    for _ in range(20):
        publish(node, partition, b"x" * 40_000)
    slow.room = None
    subscription.resume()
    await settle(node, turns=50)
    ((name, count),) = slow.losses
    assert name == "t"
    assert len(slow.values) + count == 20
    assert count >= 10


async def test_an_old_log_is_read_from_the_disk_and_in_bounded_runs() -> None:
    node = Node()
    partition = await node.partition()
    for value in range(40):
        publish(node, partition, b"%02d" % value + b"x" * 50_000)
    node.power_loss()
    node.world.background.drain()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader, start=0)
    await settle(node, lambda: len(reader.values) >= len(reader.runs) > 0 and reader.offsets[-1:] == [39], turns=400)
    held = await node.partition()
    assert reader.offsets == list(range(held.start_offset, held.high_watermark))
    assert all(len(run.records) <= RUN_BYTES // 50_000 + 1 for run in reader.runs)


async def test_records_of_a_transaction_come_with_its_commit_and_aborted_ones_never() -> None:
    node = Node()
    partition = await node.partition()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    for producer, commit in ((7, True), (8, False)):
        options = BatchOptions(producer=Producer(producer, 0, 0), is_transactional=True)
        publish(node, partition, b"in %d" % producer, options=options)
        publish(node, partition, b"plain %d" % producer)
        assert len(reader.values) == (0 if producer == 7 else 2)
        partition.append_marker(producer, 0, 0, commit, node.world.clock.now_ms())
        node.broker.flush()
    assert reader.values == [b"in 7", b"plain 7", b"plain 8"]
    again = Reader()
    node.broker.subscriptions.subscribe("t", again, start=0)
    await settle(node, lambda: len(again.values) == 3)
    assert again.values == reader.values


async def test_all_partitions_are_followed_those_that_are_added_too() -> None:
    node = Node()
    await node.topic("t", partitions=2)
    everything, second = Reader(), Reader()
    node.broker.subscriptions.subscribe("t", everything)
    node.broker.subscriptions.subscribe("t", second, partitions=[1])
    await node.do(node.broker.add_partitions([MorePartitions("t", 3)]))
    for index in range(3):
        publish(node, await node.partition(index=index), b"%d" % index)
    assert everything.values == [b"0", b"1", b"2"]
    assert second.values == [b"1"]


async def test_a_topic_that_is_deleted_and_made_again_is_followed_from_its_first_record() -> None:
    node = Node()
    partition = await node.partition()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    publish(node, partition, b"old")
    await node.do(node.broker.delete_topics(["t"]))
    publish(node, await node.partition(), b"new")
    assert reader.values == [b"old", b"new"]


async def test_closing_ends_delivery_and_leaves_nothing_behind() -> None:
    node = Node()
    partition = await node.partition()
    readers = [Reader(), Reader(room=1), Reader()]
    held = [
        node.broker.subscriptions.subscribe("t", readers[0]),
        node.broker.subscriptions.subscribe("t", readers[1]),
        node.broker.subscriptions.subscribe("t", readers[2], start=0),
    ]
    publish(node, partition, b"a")
    for subscription in held:
        subscription.close()
        subscription.close()
    publish(node, partition, b"b")
    await settle(node, turns=10)
    assert [reader.values for reader in readers] == [[b"a"], [b"a"], []]
    assert not partition._waiters
    assert not node.broker.subscriptions._feeds
    assert not node.broker.subscriptions._names


async def test_a_subscriber_may_close_another_while_it_is_delivered_to() -> None:
    node = Node()
    partition = await node.partition()
    second = Reader()

    class Closer(Reader):
        def deliver(self, run: object) -> bool:
            other.close()
            return super().deliver(run)  # type: ignore[arg-type]

    node.broker.subscriptions.subscribe("t", Closer())
    other = node.broker.subscriptions.subscribe("t", second)
    publish(node, partition, b"a")
    assert second.values == []


async def test_a_batch_that_does_not_decode_is_left_out_and_told_of() -> None:
    node = Node()
    partition = await node.partition()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    from headrace.records.codec import Record, encode
    from headrace.records.header import read_header, reseal
    from tests.broker.kit import produce
    from tests.log.kit import START_MS

    good = encode([Record(None, b"x", (), START_MS)])
    header = read_header(good)._replace(attributes=1)  # says gzip, and is not
    produce(node, partition, reseal(header, b"not gzip"))
    publish(node, partition, b"fine")
    assert reader.values == [b"fine"]
    assert [name for name, _ in node.world.events if name == "topic.unreadable"]
