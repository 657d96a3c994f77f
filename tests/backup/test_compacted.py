"""Copies of logs that are compacted, before, after and while they are copied."""

from __future__ import annotations

import random

import pytest

from headrace.log.copying import LogCopier, survey
from headrace.log.journal import load_marks
from headrace.testing.disk import SimulatedDisk
from tests.backup.test_copying import COPY, LOG_ID, Nothing, copy
from tests.log.keyed import CONFIG, compact, compact_all, put, state
from tests.log.kit import START_MS, World


def filled(rounds: int = 12) -> World:
    world = World(config=CONFIG)
    log = world.log()
    for turn in range(rounds):
        for key in range(6):
            put(log, (b"k%d" % key, b"%d" % turn + b"." * 50))
    world.sync(log)
    return world


def opened(disk: SimulatedDisk):
    elsewhere = World(disk, root=COPY, config=CONFIG)
    log = elsewhere.log()
    assert elsewhere.kinds() == [], "there is nothing to repair in a copy"
    return elsewhere, log


def test_a_copy_of_a_compacted_log_opens_and_holds_the_same_state():
    world = filled()
    log = world.store.services.logs[world.folder()]
    compact_all(log, world)
    copied = copy(world)
    assert copied.damage == ()
    elsewhere, other = opened(world.disk)
    assert state(other) == state(log)
    assert [segment.name() for segment in other.segments] == [segment.name() for segment in log.segments]
    put(other, (b"k1", b"later"))
    compact_all(other, elsewhere)
    assert state(other)[b"k1"] == b"later"


@pytest.mark.parametrize("seed", range(30))
def test_a_copy_made_while_a_log_is_compacted_is_a_true_state_of_it(seed):
    chance = random.Random(seed)
    world = filled(4)
    log = world.store.services.logs[world.folder()]
    states = [state(log)]
    number = 0

    def meanwhile():
        nonlocal number
        if chance.random() < 0.25 and number < 60:
            number += 1
            put(log, (b"k%d" % chance.randrange(6), b"new%d" % number + b"." * 40))
            states.append(state(log))
        log.services.compactor.look(log, world.clock.ms)
        if chance.random() < 0.6 and world.background.waiting:
            world.background.work()
        while world.background.results:
            world.background.tell()
        if chance.random() < 0.1 and number < 60:
            compact(log, world)

    target = SimulatedDisk()
    copied = copy(world, meanwhile, target)
    assert copied.damage == ()
    _, other = opened(target)
    assert state(other) in states


def test_another_revision_of_a_segment_is_never_taken_for_the_one_that_was_copied_before():
    world = filled()
    log = world.store.services.logs[world.folder()]
    compact_all(log, world)
    known: dict[object, tuple[int, str]] = {}

    class Remembering(Nothing):
        def note(self, key, file, path):
            known[key] = (file.size, file.digest)

    for _ in range(2):
        copier = LogCopier(world.files, world.files, Remembering(), lambda _: None)
        mark = load_marks(world.files, f"{world.root}/synced").get(LOG_ID)
        copier.copy(survey(world.files, world.folder(), LOG_ID, mark), f"{COPY}/topics/a/0", START_MS)
        put(log, (b"k1", b"other"))
        compact_all(log, world)
    assert len(known) >= 2, "another revision of the same base is another key"
    assert len({key[:3] for key in known}) < len(known)
