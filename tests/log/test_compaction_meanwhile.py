"""What happens to a log while it is compacted goes first: deletion, a cut, a failure, a stop."""

from __future__ import annotations

import pytest

from headrace.errors import StorageFailed
from headrace.log.log import Log
from tests.log.keyed import compact, compact_all, filled, put, roll, state
from tests.log.kit import World


def begun(steps: int) -> tuple[World, Log]:
    """A compaction that has come so far: that many pieces of work, and their results."""
    world, log = filled(rounds=20)
    roll(log, world)
    put(log, (b"end", b"end"))
    world.sync(log)
    log.services.compactor.look(log, world.clock.ms)
    for _ in range(steps):
        if world.background.waiting:
            world.background.step()
    return world, log


@pytest.mark.parametrize("steps", range(8))
def test_a_log_that_is_deleted_while_it_is_compacted_is_gone(steps):
    world, log = begun(steps)
    world.store.delete_folder(world.folder())
    world.background.drain()
    assert not world.files.exists(world.folder())
    assert log.services.compactor.running is None
    assert "log.not-compacted" not in world.kinds()


@pytest.mark.parametrize("steps", range(8))
def test_an_end_that_is_cut_off_while_a_log_is_compacted_is_cut_off(steps):
    world, log = begun(steps)
    told = []
    log.truncate(50, told.append)
    world.background.drain()
    assert told == [None]
    assert log.written_offset <= 50
    assert log.cleaned_offset <= log.written_offset
    before = state(log)
    assert all(value.startswith(b"9") for value in before.values())
    put(log, (b"k1", b"after"))
    compact_all(log, world)
    world.restart()
    log = world.log()
    assert state(log) == before | {b"k1": b"after", b"end": b"end"}
    assert "log.damage" not in world.kinds()


@pytest.mark.parametrize("steps", range(8))
def test_records_that_are_deleted_while_a_log_is_compacted_stay_deleted(steps):
    world, log = begun(steps)
    log.delete_records(90)
    world.background.drain()
    assert log.start_offset == 90
    compact(log, world)
    assert state(log) == {b"k%d" % key: b"19" + b"." * 60 for key in range(5)} | {b"end": b"end"}
    world.restart()
    log = world.log()
    assert log.start_offset == 90
    assert state(log) == {b"k%d" % key: b"19" + b"." * 60 for key in range(5)} | {b"end": b"end"}


@pytest.mark.parametrize("steps", range(8))
def test_a_log_that_fails_while_it_is_compacted_is_opened_anew_when_that_has_ended(steps):
    world, log = begun(steps)
    before = state(log)
    world.disk.fail_writes(1, log.segments[-1].path())
    with pytest.raises(StorageFailed):
        put(log, (b"end", b"lost"))
    log.close()
    with pytest.raises(StorageFailed, match="still closing"):
        world.log()
    world.background.drain()
    log = world.log()
    assert state(log) == before
    compact_all(log, world)
    assert state(log) == before
    world.restart()
    assert state(world.log()) == before
    assert "log.damage" not in world.kinds()


@pytest.mark.parametrize("steps", range(8))
def test_a_compaction_that_a_stop_comes_between_asks_for_nothing_more(steps):
    world, log = begun(steps)
    before = state(log)
    world.background.work()
    world.store.close()
    world.background.tell()
    assert not world.background.waiting, "its threads have ended"
    world.start()
    log = world.log()
    assert state(log) == before
    assert not [name for name in world.files.list(world.folder()) if name.endswith(".new")]
    compact_all(log, world)
    assert state(log) == before
