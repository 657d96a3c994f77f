"""Publishing on a disk that fails, by seed: kills, power losses, full disks, failed syncs.

What must hold after every one of them, in words:
- a record that was acknowledged as synced is at its place after a power loss, one that was acknowledged as written
  after a kill; so is what a duplicate was answered with;
- no id is stored twice, and every record of a batch that was acknowledged is there, at whatever place;
- everybody who published in a life that went on is told, once.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

import pytest

from headrace.broker.dedup import topic_ids
from headrace.broker.dedup.window import Window
from headrace.broker.publishing import OnPublished, Published
from headrace.broker.publishing import run as run_module
from headrace.broker.publishing.parts import Parts
from headrace.errors import HeadraceError
from headrace.records.codec import encode
from headrace.records.record import Record
from headrace.testing.disk import SimulatedDisk
from tests.broker.kit import Node, settle
from tests.log.kit import START_MS, World

PARTITIONS = 2
IDS = 60  # few enough that many come again
ROUNDS = 40
LEVELS = (0, 1, "all", None)


class Story:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.node = Node(World(SimulatedDisk(seed, short_writes=0.05, waits=0.2)))
        self.life = 0
        self.waiting = 0
        self.written: dict[bytes, Published] = {}  # acknowledged in this life, or still there in the last look
        self.synced: dict[bytes, Published] = {}
        self.acknowledged = self.duplicates = 0
        self.produced = 0
        self.batches: list[list[bytes]] = []  # whose ids have to be there from then on
        self.faults: list[str] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, what: self.faults.append(str(what)))

    def publish(self, count: int) -> None:
        for _ in range(count):
            name = b"%d" % self.chance.randrange(IDS)
            acks = self.chance.choice(LEVELS)
            record = Record(name, b"x" * self.chance.choice((10, 500)), (("id", name),))
            self.waiting += 1
            self.node.broker.publishing.publish(
                "t",
                record,
                self._taker(self.life, name, acks in ("all", None)),
                acks=acks,
                partition=self.chance.choice((None, 0, 1)),
            )

    def produce(self) -> None:
        """As a Kafka producer does: a batch of some ids, new ones and known ones, at once."""
        topic = self.node.broker.topic("t")
        assert topic is not None
        partition = topic.partitions[self.chance.randrange(PARTITIONS)]
        log = partition.log
        if log is None or not self.node.broker.deduplication.of(topic).is_ready:
            return
        names = [b"%d" % self.chance.randrange(IDS) for _ in range(self.chance.randrange(1, 6))]
        records = [Record(name, b"batch", (("id", name),), START_MS) for name in names]
        try:
            staged = partition.append(encode(records), START_MS)
        except HeadraceError:
            return
        if self.node.broker.flush():
            return
        life = self.life

        def synced(error: HeadraceError | None) -> None:
            if error is None and life == self.life:
                self.produced += 1
                self.batches.append(names)

        log.when_synced(staged.last_offset + 1, synced)

    def _taker(self, life: int, name: bytes, is_synced: bool) -> OnPublished:
        def told(result: Published | HeadraceError) -> None:
            self.waiting -= 1
            if life != self.life:
                self.faults.append(f"{name!r} was told in another life")
            if isinstance(result, Published):
                self.acknowledged += 1
                self.duplicates += result.duplicate
                known = self.written.setdefault(name, result)
                if known[:2] != result[:2]:
                    self.faults.append(f"{name!r} was told two places")
                if is_synced:
                    self.synced[name] = result

        return told

    async def work(self) -> None:
        for _ in range(self.chance.randrange(6)):
            if self.chance.random() < 0.5:
                await asyncio.sleep(0)
            elif self.node.world.background.waiting:
                self.node.world.background.step()

    async def strike(self) -> None:
        how = self.chance.choice(("kill", "power", "power", "stop"))
        world = self.node.world
        await turns()
        if how == "stop":
            world.stop()
            await turns()
        self.life += 1
        self.waiting = 0
        if how == "kill":
            world.crash()
        elif how == "power":
            world.power_loss(self.chance.choice(("some", "none", "all")))
            self.written = dict(self.synced)
        else:
            world.start()
        self.node.start()
        await self.look(how)

    async def look(self, after: str) -> None:
        """What is there now, held against what was promised."""
        found: dict[bytes, tuple[int, int]] = {}
        for index in range(PARTITIONS):
            partition = await self.node.partition("t", index)
            page = await self.node.do(self.node.broker.reading.page(partition, 0, max_records=100_000))
            for record in page.records:
                assert record.key not in found, f"{record.key!r} is stored twice"
                found[record.key] = (index, record.offset)
            assert page.next_offset == page.end_offset
        for name, place in self.written.items():
            assert found.get(name) == place[:2], f"after {after}: {name!r} was promised at {place[:2]}"
        for names in self.batches:
            missing = [name for name in names if name not in found]
            assert not missing, f"after {after}: {missing} of an acknowledged batch are lost"
        # What nobody was told of may be there too, and is answered from now on.
        self.written = {name: Published(*place, 0) for name, place in found.items()}


async def run(seed: int) -> Story:
    story = Story(seed)
    node, chance = story.node, story.chance
    configs = {"headrace.dedup.window.ms": "3600000", "segment.bytes": "16384"}
    await node.topic(partitions=PARTITIONS, configs=configs)
    for _ in range(ROUNDS):
        fault = chance.random()
        if fault < 0.1:
            node.world.disk.fill(chance.randrange(2000))
        elif fault < 0.15:
            node.world.disk.fail_syncs(1, "/topics/")
        elif fault < 0.2:
            node.world.disk.fail_writes(1, "/topics/")
        story.publish(chance.randrange(12))
        if chance.random() < 0.5:
            story.produce()
        await story.work()
        if chance.random() < 0.3:
            node.world.disk.empty()
            node.world.disk.mend()
        if chance.random() < 0.3:
            await settle(node)
            node.broker.maintain()
            await settle(node)
            assert story.waiting == 0, f"{story.waiting} were never told"
        if chance.random() < 0.25:
            node.world.disk.empty()
            node.world.disk.mend()
            await story.strike()
            node = story.node
    node.world.disk.empty()
    node.world.disk.mend()
    await settle(node)
    await story.strike()
    assert not story.faults
    return story


async def turns() -> None:
    """What was only gathered belongs to the loop, which goes on from one life to the next."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("seed", range(40))
async def test_nothing_promised_is_lost_and_no_id_is_stored_twice(seed: int) -> None:
    story = await run(seed)
    assert story.acknowledged > 20


async def test_the_stories_are_worth_telling() -> None:
    stories = [await run(seed) for seed in range(100, 105)]
    assert sum(story.duplicates for story in stories) > 100
    assert sum(story.produced for story in stories) > 20
    assert all(story.life > 3 for story in stories)


# The stories find what is planted


def ids_stay_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Window, "forget", lambda *_: None)


def ids_are_not_read_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_ids._Load, "begin", lambda self: self._done(None))


def nobody_waits_for_a_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_module, "WRITTEN", 1000)
    monkeypatch.setattr(run_module, "RECEIVED", -1000)


def a_duplicate_does_not_wait_for_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Parts, "_reaches", lambda *_: None)


@pytest.mark.parametrize(
    "plant",
    [ids_stay_known, ids_are_not_read_back, nobody_waits_for_a_sync, a_duplicate_does_not_wait_for_the_first],
)
async def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        for seed in range(30):
            await run(seed)
