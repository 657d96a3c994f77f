"""Segments that came back shorter, or not at all: a hole to where the proofs end, and nothing written behind it in the
same file."""

from __future__ import annotations

import msgspec
import pytest

from headrace.log.format import SEGMENT_HEADER_BYTES
from tests.log.damaged import PLAIN, SIZE, SMALL, path, position, surviving, synced_world
from tests.log.kit import World, append, batch, fill


def test_a_missing_segment_is_a_hole():
    world, _ = synced_world(40, SMALL)
    world.background.drain()
    world.crash()
    world.files.remove(path(world, 8))
    log = world.log(config=SMALL)
    assert "log.damage" in world.kinds()
    assert surviving(log) == [n for n in range(40) if n not in range(8, 12)]


def test_a_sealed_segment_that_vanishes_while_the_log_is_open_is_a_hole():
    world, _ = synced_world(40, SMALL)
    world.restart()
    log = world.log(config=SMALL)
    world.files.remove(path(world, 8))
    assert surviving(log) == [n for n in range(40) if n not in range(8, 12)]


@pytest.mark.parametrize("lives", [1, 2, 3])
@pytest.mark.parametrize("interval_bytes", [400, 1 << 20])
@pytest.mark.parametrize("left", [0, 100, 256, 300, 1000, position(6)])
def test_a_segment_shorter_than_its_mark_is_a_hole_to_the_mark(left, interval_bytes, lives):
    """Nothing is ever written behind it in the same file, whichever life found it: its offsets would not follow."""
    config = msgspec.structs.replace(PLAIN, index_interval_bytes=interval_bytes)
    world, _ = synced_world(config=config)
    world.crash()
    world.disk.tear(path(world), left)
    for _ in range(lives - 1):
        world.log(config=config)
        world.crash()
    log = world.log(config=config)
    whole = max(0, (left - SEGMENT_HEADER_BYTES) // SIZE)
    assert log.written_offset == 20
    assert surviving(log) == list(range(whole))
    append(log, batch(), batch())
    assert surviving(log) == [*range(whole), 20, 21]
    assert world.sync(log) is None
    world.power_loss("none")
    assert surviving(world.log(config=config)) == [*range(whole), 20, 21]


@pytest.mark.parametrize("lives", [1, 2, 3])
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_last_segment_that_vanished_is_a_hole_and_nothing_is_written_behind_the_one_before(is_clean, lives):
    """Which had room left: only what came next did not fit."""
    config = msgspec.structs.replace(PLAIN, segment_bytes=1000, index_interval_bytes=1 << 20)
    world = World(config=config)
    log = world.log()
    fill(log, 3)
    append(log, batch(b"x" * 700))
    assert world.sync(log) is None
    world.background.drain()
    assert [segment.base for segment in log.segments] == [0, 3]
    (world.restart if is_clean else world.crash)()
    world.files.remove(path(world, 3))
    for _ in range(lives - 1):
        world.log()
        world.crash()
    log = world.log()
    assert (surviving(log), log.written_offset) == ([0, 1, 2], 4)
    append(log, batch())
    append(log, batch())
    assert world.sync(log) is None
    for _ in range(2):
        assert surviving(log) == [0, 1, 2, 4, 5]
        world.crash()
        log = world.log()


def test_all_files_gone_is_a_hole_to_the_mark():
    world, _ = synced_world()
    world.crash()
    for name in world.files.list(world.folder()):
        world.files.remove(f"{world.folder()}/{name}")
    log = world.log(config=PLAIN)
    assert (log.start_offset, log.written_offset) == (0, 20)
    append(log, batch())
    assert surviving(log) == [20]
