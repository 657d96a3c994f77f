"""Copies of the metadata while it changes and saves itself: always one that some entry left behind."""

from __future__ import annotations

import random

import pytest

from headrace.backup.metadata import copy_metadata
from headrace.cluster import quorum as quorums
from headrace.cluster.image import Image
from headrace.cluster.quorum import Quorum
from headrace.cluster.records import ClusterCreated, MetadataRecord, NodeRegistered, TopicCreated, TopicDeleted
from headrace.errors import BackupUnsettled
from headrace.log.config import ignore_error
from headrace.log.copying import LogCopier
from headrace.testing.disk import SimulatedDisk
from tests.backup.test_copying import Nothing, Watched
from tests.log.kit import START_MS, World

COPY = "/copy"


def summary(image: Image) -> tuple[object, ...]:
    return image.cluster_id, sorted(image.names), sorted(image.topics), image.next_producer_id, image.version


@pytest.mark.parametrize("seed", range(60))
def test_a_copy_of_the_metadata_opens_as_what_it_was_at_some_entry(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quorums, "SNAPSHOT_ENTRIES", 3)
    monkeypatch.setattr(quorums, "SEGMENT_BYTES", 600)
    chance = random.Random(seed)
    world = World()
    quorum = Quorum(world.store, world.files, world.clock, 0)
    quorum.propose(lambda _: [ClusterCreated("c", START_MS), NodeRegistered(0, 1, {})], ignore_error)
    world.background.drain()
    images = {quorum.index: summary(quorum.image)}

    def change(image: Image) -> list[MetadataRecord]:
        if image.topics and chance.random() < 0.4:
            return [TopicDeleted(chance.choice(list(image.topics)))]
        topic_id = chance.randbytes(16)
        return [TopicCreated(topic_id, topic_id.hex(), [[0]], {}, START_MS)]

    def applied(_: object) -> None:
        images[quorum.index] = summary(quorum.image)

    quorum.on_apply = applied
    for _ in range(chance.randrange(12)):
        quorum.propose(change, lambda _: None)
        world.background.drain()
    begin, often = quorum.index, chance.choice((0.02, 0.1))

    def live() -> None:
        if chance.random() < often:
            quorum.propose(change, lambda _: None)
        if chance.random() < often and world.background.waiting:
            world.background.step()

    disk = SimulatedDisk()
    source = Watched(world, live)
    copier = LogCopier(source, disk, Nothing(), lambda _: None)
    for _ in range(20):
        try:
            copied = copy_metadata(copier, source, world.root, disk, COPY, START_MS)
            break
        except BackupUnsettled:
            continue
    else:
        pytest.fail("it never settled")
    # An entry that is written and not yet synced may be in the copy: then it counts there, as after a restart.
    world.background.drain()
    there = World(disk, root=COPY)
    again = Quorum(there.store, disk, there.clock, 0)
    assert begin <= again.index <= quorum.index
    assert summary(again.image) == images[again.index] == summary(copied.image)
