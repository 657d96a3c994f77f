"""The power goes at every single change of the disk that a log with compactions makes: no last value is lost, and no
deleted key comes back."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec
import pytest

from headrace.errors import HeadraceError
from headrace.log import compaction
from headrace.log.compaction import Compaction
from headrace.log.log import Log
from headrace.records import twin
from headrace.records.codec import Producer
from headrace.testing.disk import PowerLoss, SimulatedDisk
from tests.log.keyed import CONFIG, committed, compact, end_transaction, put, transactional
from tests.log.kit import World

QUICK = msgspec.structs.replace(CONFIG, segment_bytes=700, delete_retention_ms=500)


@dataclass
class Lived:
    """What was tried, by offset, and how far it was acknowledged as synced."""

    world: World
    appended: dict[int, tuple[bytes, bytes | None]] = field(default_factory=dict)
    synced: int = 0

    def put(self, log: Log, key: bytes, value: bytes | None, compression: str = "none") -> None:
        self.appended[log.end_offset] = (key, value)
        put(log, (key, value), compression=compression)

    def aborts(self, log: Log, key: bytes, producer: Producer) -> None:
        transactional(log, producer, (key, b"never"))
        end_transaction(log, producer, commit=False)

    def sync(self, log: Log) -> None:
        end = log.written_offset
        log.when_synced(end, lambda error: self._done(end, error))
        self.world.background.drain()

    def _done(self, end: int, error: HeadraceError | None) -> None:
        if error is None:
            self.synced = max(self.synced, end)

    def expected(self, end: int) -> dict[bytes, bytes]:
        found: dict[bytes, bytes] = {}
        for offset, (key, value) in sorted(self.appended.items()):
            if offset < end:
                found.pop(key, None)
                if value is not None:
                    found[key] = value
        return found


def live(lived: Lived) -> None:
    world = lived.world
    log = world.log(config=QUICK)
    for turn in range(5):
        for number in range(6):
            lived.put(log, b"k%d" % number, b"%d" % turn + b"." * 50, "lz4" if number == 3 else "none")
        lived.put(log, b"k%d" % turn, None)
        lived.aborts(log, b"k5", Producer(8, 0, turn))
        lived.sync(log)
        compact(log, world)
        world.clock.ms += 300
    lived.put(log, b"k0", b"back")
    lived.sync(log)
    compact(log, world)


def run_until(change: int, seed: int) -> Lived | None:
    disk = SimulatedDisk(seed, short_writes=0.1, waits=0.1)
    disk.stop_at(change)
    lived = None
    with contextlib.suppress(PowerLoss):
        lived = Lived(World(disk, config=QUICK))
        live(lived)
    return lived


def judge(lived: Lived) -> None:
    world = lived.world
    for _ in range(3):
        world.events.clear()
        log = world.log(config=QUICK)
        assert "log.damage" not in world.kinds(), world.events
        assert log.written_offset >= lived.synced
        lived.appended = {at: pair for at, pair in lived.appended.items() if at < log.written_offset}
        assert committed(log, torn(log)) == lived.expected(log.written_offset)
        there = world.files.list(world.folder()) if log.segments else []
        names = [name for name in there if name.endswith((".log", ".new"))]
        assert sorted(names) == sorted(segment.name() for segment in log.segments if segment.size)
        lived.put(log, b"k1", b"after")
        for number in range(12):
            lived.put(log, b"more%d" % number, b"x" * 60)
        lived.sync(log)
        assert lived.synced == log.written_offset
        world.clock.ms += 400
        compact(log, world)
        assert committed(log, torn(log)) == lived.expected(log.written_offset)
        world.power_loss("none")


def torn(log: Log) -> range:
    """Where a transaction is under way whose marker was lost: the coordinator would write it anew."""
    return range(log.stable_offset, log.stable_offset + (1 if log.transactions.ongoing else 0))


def broken_promises(keep: str, seed: int, every: int = 1, first: int = 1) -> Iterator[str]:
    """What the judge says of runs that end at this change of the disk, at that one, and so on."""
    whole = Lived(World(SimulatedDisk(0), config=QUICK))
    live(whole)
    assert len([kind for kind in whole.world.kinds() if kind == "log.compacted"]) >= 5
    for change in range(first, whole.world.disk.changes + 20, every):
        lived = run_until(change, seed)
        if lived is None:
            continue
        try:
            lived.world.crash() if keep == "killed" else lived.world.power_loss(keep)
            judge(lived)
        except (AssertionError, HeadraceError, OSError) as error:
            yield f"change {change}, keeping {keep}, seed {seed}: {error}"


@pytest.mark.parametrize(("keep", "seed", "every"), [("none", 0, 1), ("all", 0, 4), ("some", 1, 2), ("killed", 3, 4)])
def test_power_loss_at_every_change_of_a_compaction_loses_no_value_and_brings_none_back(keep, seed, every):
    assert list(broken_promises(keep, seed, every, 1 + seed)) == []


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_power_loss_at_every_change_with_many_seeds(seed):
    assert list(broken_promises("some", seed)) == []


def test_removing_the_old_segments_before_the_snapshot_is_caught(monkeypatch):
    honest = Log.replace_segments

    def hasty(self, old, made):
        done = honest(self, old, made)
        for segment in old:
            self.services.files.remove(segment.path())
        return done

    monkeypatch.setattr(Log, "replace_segments", hasty)
    assert next(broken_promises("some", 1, 3), None)


def test_a_new_segment_that_was_not_synced_is_caught(monkeypatch):
    honest = SimulatedDisk.datasync

    def lazy(self, handle):
        if not self._handles[handle][1].endswith(".log.new"):
            honest(self, handle)

    monkeypatch.setattr(SimulatedDisk, "datasync", lazy)
    assert next(broken_promises("none", 0, 3), None)


def test_tombstones_that_go_before_what_they_delete_are_caught(monkeypatch):
    """The newest segments first, and no time for tombstones."""
    honest = Compaction._next_group

    def backwards(self):
        self._waiting.sort(key=lambda segment: -segment.base)
        honest(self)

    monkeypatch.setattr(Compaction, "_next_group", backwards)
    monkeypatch.setattr(compaction, "OffsetMap", Forgetful)
    assert next(broken_promises("none", 0, 3), None)


class Forgetful(twin.OffsetMap):
    def sift(self, *arguments):
        return super().sift(*arguments[:-1], True)
