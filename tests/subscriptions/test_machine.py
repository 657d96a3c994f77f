"""Many subscribers on one partition, at any speed, while records come, the disk makes them wait, transactions are open,
and the log is closed and opened again: each gets every committed record once, in order, from where it began.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from headrace.broker.partition import Partition
from headrace.broker.subscriptions import cursor, feed
from headrace.broker.subscriptions.run import Run
from headrace.broker.subscriptions.subscription import PatternSubscription, Subscription
from headrace.errors import HeadraceError, StorageFailed
from headrace.ports import Buffer
from headrace.records.codec import BatchOptions, Producer, Record, encode
from tests.broker.kit import Node
from tests.log.kit import START_MS
from tests.subscriptions.kit import Reader, publish


class Fickle(Reader):
    """Has room for as many runs as it likes; resumes later, or while it is delivered to."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self.chance, self.is_full = chance, False
        self.subscription: Subscription | PatternSubscription | None = None
        self.begins_at = 0

    def deliver(self, run: Run) -> bool:
        assert not self.is_full, "nothing is delivered to who has no room"
        super().deliver(run)
        self.is_full = self.chance.random() < 0.3
        if self.is_full and self.chance.random() < 0.2:
            self.resume()
        return not self.is_full

    def resume(self) -> None:
        self.is_full = False
        if self.subscription is not None:
            self.subscription.resume()


class Script:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.node = Node()
        self.readers: list[Fickle] = []
        self.committed: dict[int, bytes] = {}
        self.pending: dict[int, dict[int, bytes]] = {}  # producer -> what its open transaction wrote
        self.number = 0
        files = self.node.world.files
        from_memory = files.pread_nowait

        def pread_nowait(handle: int, size: int, position: int) -> Buffer | None:
            return None if self.chance.random() < 0.5 else from_memory(handle, size, position)

        files.pread_nowait = pread_nowait  # type: ignore[method-assign]

    async def run(self) -> None:
        self.partition = await self.node.partition()
        steps = [self.publish] * 8 + [self.subscribe] * 2 + [self.resume] * 6 + [self.turn] * 6
        steps += [self.transact] * 2 + [self.finish] * 2 + [self.evict] * 3 + [self.leave, self.fail]
        for _ in range(400):
            await self.chance.choice(steps)()
        for producer in list(self.pending):
            self.end(producer, True)
        for _ in range(300):
            for reader in self.readers:
                if reader.is_full:
                    reader.resume()
            self.node.world.background.drain()
            await asyncio.sleep(0)
        for reader in self.readers:
            wanted = {at: value for at, value in self.committed.items() if at >= reader.begins_at}
            assert reader.offsets == sorted(wanted)
            assert reader.values == [wanted[at] for at in reader.offsets]
            assert reader.losses == []

    def own(self) -> Partition:
        assert self.partition.log is not None
        return self.partition

    async def publish(self) -> None:
        values = [b"%d" % (self.number + at) for at in range(self.chance.choice([1, 2, 30]))]
        values = [value + b"." * self.chance.choice([0, 0, 3000]) for value in values]
        self.number += len(values)
        base = publish(self.node, self.own(), *values)
        self.committed |= {base + at: value for at, value in enumerate(values)}

    async def transact(self) -> None:
        producer = self.chance.choice([1, 2, 3])
        if producer in self.pending:
            return
        options = BatchOptions(producer=Producer(producer, 0, -1), is_transactional=True)
        values = [b"t%d" % (self.number + at) for at in range(3)]
        self.number += 3
        batch = encode([Record(None, value, (), START_MS) for value in values], options)
        staged = self.own().append_own(batch, self.node.world.clock.now_ms())
        self.node.broker.flush()
        self.pending[producer] = {staged.base_offset + at: value for at, value in enumerate(values)}

    async def finish(self) -> None:
        if self.pending:
            self.end(self.chance.choice(list(self.pending)), self.chance.random() < 0.5)

    def end(self, producer: int, commit: bool) -> None:
        wrote = self.pending.pop(producer)
        self.own().append_marker(producer, 0, 0, commit, self.node.world.clock.now_ms())
        self.node.broker.flush()
        if commit:
            self.committed |= wrote

    async def subscribe(self) -> None:
        if len(self.readers) > 12:
            return
        reader = Fickle(self.chance)
        log = self.own().log
        assert log is not None
        kind = self.chance.randrange(3)
        subscriptions = self.node.broker.subscriptions
        if kind == 0:
            reader.begins_at = self.chance.randrange(log.stable_offset + 1)
            reader.subscription = subscriptions.subscribe("t", reader, start=reader.begins_at)
        elif kind == 1:
            reader.begins_at = log.stable_offset
            reader.subscription = subscriptions.subscribe("t", reader)
        else:
            reader.begins_at = log.stable_offset
            held = reader.subscription = subscriptions.patterns(reader)
            held.add("t")
            held.add("*")
        self.readers.append(reader)

    async def leave(self) -> None:
        if self.readers and self.chance.random() < 0.3:
            gone = self.readers.pop(self.chance.randrange(len(self.readers)))
            assert gone.subscription is not None
            gone.subscription.close()

    async def resume(self) -> None:
        full = [reader for reader in self.readers if reader.is_full]
        if full:
            self.chance.choice(full).resume()

    async def turn(self) -> None:
        background = self.node.world.background
        if background.waiting and self.chance.random() < 0.7:
            background.work()
        if background.results and self.chance.random() < 0.7:
            background.tell()
        await asyncio.sleep(0)

    async def fail(self) -> None:
        """The log fails, and is opened anew by whoever comes next."""
        if self.chance.random() < 0.5:
            log = self.own().log
            assert log is not None
            log.sync_now()
            self.node.world.background.drain()
            log.fail(StorageFailed("the disk says so"))
            if self.chance.random() < 0.5:
                await self.resume()
            self.partition.recover()
            if self.chance.random() < 0.5:
                await self.resume()
            self.partition = await self.node.partition()

    async def evict(self) -> None:
        """What is in memory goes, so that the disk is read."""
        log = self.own().log
        assert log is not None
        log._tail.clear(log.written_offset)


@pytest.mark.parametrize("seed", range(40))
async def test_everybody_gets_every_committed_record_once_and_in_order(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cursor, "RETRY_S", 0.0)
    monkeypatch.setattr(feed, "RETRY_S", 0.0)
    await Script(seed).run()


async def test_a_log_that_was_recovered_goes_on_where_its_subscribers_are() -> None:
    node = Node()
    partition = await node.partition()
    reader = Reader()
    node.broker.subscriptions.subscribe("t", reader)
    publish(node, partition, b"a")
    assert partition.log is not None
    partition.log.sync_now()
    node.world.background.drain()
    partition.log.fail(HeadraceError("the disk says so"))
    partition.recover()
    assert partition.log is None
    partition = await node.partition()
    publish(node, partition, b"b")
    assert reader.values == [b"a", b"b"]


async def test_a_read_that_failed_goes_on_when_the_log_is_open_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cursor, "RETRY_S", 0.01)
    node = Node()
    partition = await node.partition()
    reader, ahead = Reader(room=1), Reader()
    subscription = node.broker.subscriptions.subscribe("t", reader)
    publish(node, partition, b"a")
    publish(node, partition, b"b")
    log = partition.log
    assert log is not None
    log.sync_now()
    node.world.background.drain()
    log.fail(StorageFailed("the disk says so"))
    reader.room = None
    subscription.resume()  # and finds a log that has failed
    node.broker.subscriptions.subscribe("t", ahead)
    partition.recover()
    for _ in range(50):
        node.world.background.drain()
        await asyncio.sleep(0.002)
    assert reader.values == [b"a", b"b"]
    publish(node, await node.partition(), b"c")
    assert reader.values == [b"a", b"b", b"c"]
    assert ahead.values == [b"c"]
