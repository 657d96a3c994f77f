"""Deduplication by id: a repeated id stores nothing and is answered with the place of the first."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headrace.broker.alteration import Alteration, Change, Op
from headrace.broker.dedup import window as windows
from headrace.broker.dedup.window import Window, id_of
from headrace.broker.partition import Partition
from headrace.broker.publishing import Published
from headrace.errors import DiskFull, HeadraceError, OutOfOrderSequence, StorageFailed, Unsettled
from headrace.records.codec import BatchOptions, Producer, Record, encode
from tests.broker.kit import Node, Told, produce, published, settle, values
from tests.log.kit import START_MS

MINUTE = "60000"


def named(name: str, value: str = "", **fields: Any) -> Record:
    return Record(None, (value or name).encode(), (("id", name.encode()),), **fields)


async def topic_with_window(node: Node, **wish: Any) -> Partition:
    configs = {"headrace.dedup.window.ms": MINUTE, **wish.pop("configs", {})}
    await node.topic(configs=configs, **wish)
    return await node.partition()


def places(told: Told) -> list[tuple[int, bool]]:
    return [(one.offset, one.duplicate) for one in told if isinstance(one, Published)]


async def test_a_repeated_id_stores_nothing_and_is_answered_with_the_first_place() -> None:
    node = Node()
    partition = await topic_with_window(node)
    told = await published(node, "t", named("a"), named("b"), named("a", "again"))
    told += await published(node, "t", named("b", "again"), named("c"))
    assert places(told) == [(0, False), (1, False), (0, True), (1, True), (2, False)]
    assert values(partition) == [b"a", b"b", b"c"]
    assert node.broker.deduplication.duplicates == 2


async def test_without_a_window_or_an_id_nothing_is_left_out() -> None:
    node = Node()
    await node.topic("plain")
    assert places(await published(node, "plain", named("a"), named("a"))) == [(0, False), (1, False)]
    await topic_with_window(node)
    nameless = [Record(value=b"x"), Record(value=b"x"), Record(value=b"x", headers=(("id", b""),))]
    assert places(await published(node, "t", *nameless, nameless[2])) == [(n, False) for n in range(4)]


async def test_the_id_given_beside_the_record_counts_too() -> None:
    node = Node()
    await topic_with_window(node)
    first = await published(node, "t", Record(value=b"x"), message_id="m")
    again = await published(node, "t", Record(value=b"y"), message_id="m")
    assert places(first + again) == [(0, False), (0, True)]


async def test_after_the_window_an_id_may_come_again() -> None:
    node = Node()
    await topic_with_window(node)
    await published(node, "t", named("a"))
    node.world.clock.ms += 59_999
    assert places(await published(node, "t", named("a"))) == [(0, True)]
    node.world.clock.ms += 1
    assert places(await published(node, "t", named("a"))) == [(1, False)]


async def test_a_stretch_of_records_is_answered_in_its_order() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("b"))
    runs: list[Any] = []
    node.broker.publishing.publish_run("t", [named("a"), named("b"), named("c"), named("a")], runs.append)
    await settle(node)
    assert places(list(runs[0])) == [(1, False), (0, True), (2, False), (1, True)]
    assert values(partition) == [b"b", b"a", b"c"]


async def test_the_first_may_be_in_another_partition() -> None:
    node = Node()
    await topic_with_window(node, partitions=3)
    (first,) = await published(node, "t", named("a"), partition=2)
    (again,) = await published(node, "t", named("a"), partition=0)
    assert again == Published(2, 0, START_MS, True) and first == Published(2, 0, START_MS)


@pytest.mark.parametrize("how", ["crash", "power_loss", "restart"])
async def test_ids_survive_a_restart(how: str) -> None:
    node = Node()
    await topic_with_window(node, partitions=2)
    await published(node, "t", *(named(str(number)) for number in range(20)))
    getattr(node.world, how)()
    node.start()
    told = await published(node, "t", *(named(str(number)) for number in range(25)))
    assert sorted(one.duplicate for one in told if isinstance(one, Published)) == [False] * 5 + [True] * 20


async def test_what_the_power_took_may_come_again() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("synced"))
    told: Told = []
    node.broker.publishing.publish("t", named("lost"), told.append, acks=1)
    node.broker.publishing.end_turn()
    assert places(told) == [(1, False)]
    node.power_loss()
    partition = await node.partition()
    told = await published(node, "t", named("synced"), named("lost"))
    assert places(told) == [(0, True), (1, False)]
    assert values(partition) == [b"synced", b"lost"]


async def test_after_a_restart_the_window_still_ends() -> None:
    node = Node()
    await topic_with_window(node)
    await published(node, "t", named("a"))
    node.world.clock.ms += 30_000
    await published(node, "t", named("b"))
    node.power_loss()
    node.world.clock.ms += 40_000
    assert places(await published(node, "t", named("a"), named("b"))) == [(2, False), (1, True)]


async def test_a_duplicate_is_acknowledged_only_when_the_first_has_reached_the_level() -> None:
    node = Node()
    await topic_with_window(node)
    await published(node, "t", named("opens"))
    first: Told = []
    again: Told = []
    node.broker.publishing.publish("t", named("a"), first.append, acks=1)
    node.broker.publishing.end_turn()
    node.broker.publishing.publish("t", named("a"), again.append, acks="all")
    node.broker.publishing.end_turn()
    assert places(first) == [(1, False)] and not again
    node.world.background.drain()
    assert places(again) == [(1, True)]


async def test_a_duplicate_of_what_cannot_be_synced_is_not_acknowledged() -> None:
    node = Node()
    await topic_with_window(node, partitions=2)
    await published(node, "t", named("opens"))
    node.broker.publishing.publish("t", named("a"), lambda _: None, acks=1, partition=1)
    node.broker.publishing.end_turn()
    again: list[Any] = []
    node.broker.publishing.publish("t", named("a"), again.append, acks="all", partition=0)
    node.broker.publishing.end_turn()
    node.world.disk.fail_syncs(1)
    await settle(node)
    assert [type(one) for one in again] == [StorageFailed]


async def test_what_a_full_disk_refused_may_come_again() -> None:
    node = Node()
    await topic_with_window(node)
    await published(node, "t", named("opens"))
    node.world.disk.fill(10)
    told = await published(node, "t", named("a", "x" * 500), named("a"), named("b"))
    assert [type(one) for one in told] == [DiskFull] * 3
    node.world.disk.empty()
    assert places(await published(node, "t", named("a"), named("a"), named("b"))) == [(1, False), (1, True), (2, False)]


async def test_what_is_refused_for_itself_leaves_its_id_free() -> None:
    node = Node()
    await topic_with_window(node, configs={"max.message.bytes": "500"})
    told = await published(node, "t", named("a", "x" * 600), named("a"), named("a"))
    assert isinstance(told[0], HeadraceError)
    assert places(told) == [(0, False), (0, True)]


async def test_a_log_that_was_opened_anew_is_read_again() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("kept"))
    node.broker.publishing.publish("t", named("lost"), lambda _: None, acks=1)
    node.broker.publishing.end_turn()
    assert partition.log is not None
    partition.log.fail(StorageFailed("as if a sync had failed"))
    node.world.background.drain()
    partition.recover()
    node.world.background.drain()
    told = await published(node, "t", named("kept"), named("lost"))
    assert isinstance(told[0], Published) and told[0].duplicate
    stored = values(partition)
    assert sorted(stored) == [b"kept", b"lost"] and len(stored) == 2


async def test_a_window_can_be_opened_lengthened_and_closed_while_the_topic_is_in_use() -> None:
    node = Node()
    await node.topic()
    await published(node, "t", named("a"))

    async def window(ms: int) -> None:
        change = Change("headrace.dedup.window.ms", Op.SET, str(ms))
        assert await node.do(node.broker.alter_configs([Alteration("t", (change,))])) == [None]

    await window(60_000)
    assert places(await published(node, "t", named("a"))) == [(0, True)]
    node.world.clock.ms += 61_000
    await window(120_000)
    assert places(await published(node, "t", named("a"))) == [(0, True)]
    await window(60_000)
    assert places(await published(node, "t", named("a"))) == [(1, False)]
    await window(0)
    assert places(await published(node, "t", named("a"))) == [(2, False)]
    topic = node.broker.topic("t")
    assert topic is not None and topic.ids is None


async def test_a_memory_topic_can_have_a_window() -> None:
    node = Node()
    await topic_with_window(node, configs={"headrace.storage": "memory"})
    told = await published(node, "t", named("a"), named("a"))
    assert [one.duplicate for one in told if isinstance(one, Published)] == [False, True]


async def test_records_that_come_while_ids_are_read_back_wait_in_their_order() -> None:
    node = Node()
    await topic_with_window(node)
    await published(node, "t", *(named(str(number)) for number in range(5)))
    node.power_loss()
    told: Told = []
    for name in ("5", "0", "6", "5", "1"):
        node.broker.publishing.publish("t", named(name), told.append)
        await asyncio.sleep(0)
        if node.world.background.waiting:
            node.world.background.step()
    await settle(node)
    assert places(told) == [(5, False), (0, True), (6, False), (5, True), (1, True)]


# The window itself


def test_ids_are_bounded_and_that_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(windows, "MAX_IDS", 100)
    window = Window(1000)
    for number in range(1000):
        window.note(b"%d" % number, 0, number, 5, 5)
        assert len(window) <= 100
    assert window.is_cut
    assert window.first(b"999", 5) is not None and window.first(b"0", 5) is None


def test_a_window_forgets_with_time_and_is_not_cut_by_that() -> None:
    window = Window(1000)
    for number in range(5000):
        window.note(b"%d" % number, 0, number, number, number)
        assert len(window) <= 2001
    assert not window.is_cut
    assert [window.first(b"%d" % number, 4999) is not None for number in (3999, 4000, 4999)] == [False, True, True]


def test_a_long_id_is_remembered_by_its_digest() -> None:
    first, second = id_of((("id", b"x" * 1_000_000),)), id_of((("id", b"x" * 999_999),))
    assert first is not None and second is not None and first != second
    assert len(first) == len(second) == 64
    assert id_of((("id", None),)) is None and id_of((("other", b"x"), ("id", b"y"), ("id", b"z"))) == b"y"


# A producer's batches


def batch_of(*names: str, **options: Any) -> bytearray:
    return encode([named(name, timestamp_ms=START_MS) for name in names], BatchOptions(**options))


async def test_a_batch_that_is_known_as_a_whole_is_answered_with_its_first_offset() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("z"))
    assert produce(node, partition, batch_of("a", "b", "c")) == 1
    assert produce(node, partition, batch_of("a", "b", "c")) == 1
    assert produce(node, partition, batch_of("b")) == 2
    assert values(partition) == [b"z", b"a", b"b", b"c"]


@pytest.mark.parametrize("compression", ["none", "gzip", "zstd", "lz4", "snappy"])
async def test_a_batch_loses_what_is_known_and_keeps_the_places_of_the_rest(compression: str) -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("b"))
    assert produce(node, partition, batch_of("a", "b", "c", "a", "d", compression=compression)) == 1
    page = await node.do(node.broker.reading.page(partition, 0, max_records=99))
    assert [(record.offset, record.value) for record in page.records] == [(0, b"b"), (1, b"a"), (3, b"c"), (5, b"d")]
    assert places(await published(node, "t", named("c"), named("e"))) == [(3, True), (6, False)]


async def test_an_idempotent_producers_sequence_goes_on_over_what_is_left_out() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("a"), named("b"))
    for sequence, names in ((0, "ab"), (2, "bc"), (4, "d")):
        produce(node, partition, batch_of(*names, producer=Producer(7, 0, sequence)))
    page = await node.do(node.broker.reading.page(partition, 0, max_records=99))
    assert [record.value for record in page.records] == [b"a", b"b", b"c", b"d"]
    with pytest.raises(OutOfOrderSequence):
        produce(node, partition, batch_of("e", producer=Producer(7, 0, 9)))
    produce(node, partition, batch_of("e", producer=Producer(7, 0, 5)))


async def test_an_idempotent_producers_repeated_batch_is_answered_as_before() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("a"))
    mixed = batch_of("a", "b", producer=Producer(7, 0, 0))
    first = produce(node, partition, bytearray(mixed))
    assert produce(node, partition, bytearray(mixed)) == first
    known = batch_of("a", producer=Producer(7, 0, 2))
    assert produce(node, partition, bytearray(known)) == 0
    end = partition.high_watermark
    produce(node, partition, bytearray(known))
    assert partition.high_watermark == end


async def test_the_sequence_goes_on_after_a_power_loss_too() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("a"))
    produce(node, partition, batch_of("b", "a", producer=Producer(7, 0, 0)))
    produce(node, partition, batch_of("a", "b", producer=Producer(7, 0, 2)))  # an empty one at the end of the log
    assert partition.log is not None
    partition.log.sync_soon()
    node.world.background.drain()
    node.power_loss()
    partition = await node.partition()
    assert partition.high_watermark == 5
    await published(node, "t", named("opens"))
    with pytest.raises(OutOfOrderSequence):
        produce(node, partition, batch_of("c", producer=Producer(7, 0, 5)))
    produce(node, partition, batch_of("c", "b", producer=Producer(7, 0, 4)))
    page = await node.do(node.broker.reading.page(partition, 0, max_records=99))
    assert [record.value for record in page.records] == [b"a", b"b", b"opens", b"c"]


async def test_transactions_are_left_alone() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("a"))
    produce(node, partition, batch_of("a", "b", producer=Producer(7, 0, 0), is_transactional=True))
    partition.append_marker(7, 0, 0, False, START_MS)
    node.broker.flush()
    assert places(await published(node, "t", named("b"))) == [(4, False)]


async def test_a_batch_whose_firsts_are_elsewhere_and_unsynced_is_to_come_again() -> None:
    node = Node()
    await topic_with_window(node, partitions=2)
    await published(node, "t", named("opens"))
    zero, one = await node.partition("t", 0), await node.partition("t", 1)
    produce(node, one, batch_of("a"))
    with pytest.raises(Unsettled):
        produce(node, zero, batch_of("a"))
    node.world.background.drain()
    before = zero.high_watermark
    assert produce(node, zero, batch_of("a")) == -1
    assert zero.high_watermark == before


async def test_what_a_full_disk_refused_of_a_batch_may_come_again() -> None:
    node = Node()
    partition = await topic_with_window(node)
    await published(node, "t", named("opens"))
    node.world.disk.fill(10)
    with pytest.raises(DiskFull):
        produce(node, partition, batch_of("a", "b", "c"))
    node.world.disk.empty()
    assert produce(node, partition, batch_of("a", "b", "c")) == 1
