"""Compacted topics in a broker: settings reach the log, and time goes on for topics that nobody asks for."""

from __future__ import annotations

import errno

import pytest

from headrace.records.codec import Record, decode, encode
from headrace.testing.disk import SimulatedDisk
from tests.broker.kit import Node
from tests.log.kit import START_MS, World

DAY_MS = 24 * 3600 * 1000
COMPACT = {"cleanup.policy": "compact", "segment.bytes": "16384", "min.cleanable.dirty.ratio": "0.5"}


async def produce(node: Node, topic, rounds: int = 40, value: bytes = b"v" * 100) -> None:
    partition = await node.do(topic.partitions[0].opened())
    for turn in range(rounds):
        records = [Record(b"k%d" % key, b"%d" % turn + value, (), node.world.clock.ms) for key in range(10)]
        partition.append(encode(records), node.world.clock.ms)
        node.broker.flush()
    node.world.background.drain()


def keys_on_disk(node: Node, topic) -> list[bytes]:
    folder, files = topic.partitions[0].folder, node.world.files
    data = b""
    for name in sorted(name for name in files.list(folder) if name.endswith(".log")):
        handle = files.open(f"{folder}/{name}")
        data += files.pread(handle, 1 << 30, 256)
        files.close(handle)
    return [record.key or b"" for record in decode(data)]


def maintain(node: Node, times: int = 3) -> None:
    for _ in range(times):
        log = node.broker.topics()[0].partitions[0].log
        if log is not None:
            log.sync_soon()
        node.world.background.drain()
        node.broker.maintain()
        node.world.background.drain()


@pytest.mark.asyncio
async def test_a_compacted_topic_is_compacted_when_it_is_time():
    node = Node()
    topic = await node.topic(configs=COMPACT)
    await produce(node, topic)
    before = len(keys_on_disk(node, topic))
    maintain(node)
    after = keys_on_disk(node, topic)
    assert before == 400
    assert len(after) < 200
    assert set(after) == {b"k%d" % key for key in range(10)}
    assert "log.compacted" in node.world.kinds()


@pytest.mark.asyncio
async def test_a_topic_that_is_not_compacted_is_left_alone():
    node = Node()
    topic = await node.topic(configs={"segment.bytes": "16384"})
    await produce(node, topic)
    maintain(node)
    assert len(keys_on_disk(node, topic)) == 400


@pytest.mark.asyncio
@pytest.mark.parametrize("rounds", [40, 1])
async def test_retention_reaches_a_topic_that_nobody_has_asked_for_since_the_restart(rounds):
    node = Node()
    topic = await node.topic(configs={"segment.bytes": "16384"})
    await produce(node, topic, rounds)
    node.world.restart()
    node.start()
    topic = node.broker.topics()[0]
    maintain(node)
    assert topic.partitions[0].log is None, "nothing is due: it is not even opened"
    node.world.clock.ms += 8 * DAY_MS
    maintain(node)
    assert keys_on_disk(node, topic) == []


@pytest.mark.asyncio
async def test_compaction_reaches_a_topic_that_nobody_has_asked_for_since_the_restart():
    node = Node()
    topic = await node.topic(configs=COMPACT | {"min.compaction.lag.ms": "1000"})
    await produce(node, topic)
    node.world.restart()
    node.start()
    topic = node.broker.topics()[0]
    maintain(node)
    assert len(keys_on_disk(node, topic)) == 400
    node.world.clock.ms += 600_001
    maintain(node)
    assert len(keys_on_disk(node, topic)) < 200


@pytest.mark.asyncio
async def test_a_disk_that_does_not_answer_costs_a_cold_topic_one_round():
    world = World()
    node = Node(world)
    topic = await node.topic(configs={"segment.bytes": "16384"})
    await produce(node, topic)
    world.restart()
    node.start()
    topic = node.broker.topics()[0]
    world.clock.ms += 8 * DAY_MS
    world.disk.fail_reads(1, "snapshot")
    world.disk.fail_reads(1, ".log")
    maintain(node)
    world.disk.mend()
    world.clock.ms += 600_001
    maintain(node)
    assert keys_on_disk(node, topic) == []
    assert world.clock.ms > START_MS


class OneUnreadable(SimulatedDisk):
    """The files in one folder do not read."""

    folder = "none"

    def list(self, path: str) -> list[str]:
        if path == self.folder:
            raise OSError(errno.EIO, "input/output error", path)
        return super().list(path)


@pytest.mark.asyncio
async def test_a_cold_topic_that_does_not_read_costs_no_other_its_retention_and_is_told_once():
    disk = OneUnreadable()
    world = World(disk)
    node = Node(world)
    for name in ("a", "b", "c"):
        await produce(node, await node.topic(name), rounds=1)
    world.restart()
    node.start()
    a, b, c = node.broker.topics()
    disk.folder = b.partitions[0].folder
    for _ in range(3):
        world.clock.ms += 8 * DAY_MS
        maintain(node)
    assert (keys_on_disk(node, a), keys_on_disk(node, c)) == ([], [])
    assert world.kinds().count("log.not-read") == 1
    disk.folder = "none"
    world.clock.ms += 600_001
    maintain(node)
    assert keys_on_disk(node, b) == []
