"""Three classic bugs, planted on purpose: the judge of the power-loss runs must catch each of them."""

from __future__ import annotations

import contextlib

import pytest

from headrace.errors import HeadraceError
from headrace.log.durability import Durability
from headrace.log.index import decode_index
from headrace.log.log import Log
from headrace.log.rescan import Rescan
from headrace.log.segment import Segment
from headrace.log.writing import read_whole, replace_file
from headrace.testing.disk import PowerLoss, SimulatedDisk
from headrace.testing.platter import PAGE_BYTES
from tests.log.damaged import path
from tests.log.history import History, changes_of_the_whole_script, judge, run_until
from tests.log.kit import World

SEEDS = range(3)
EVERY = 3  # a third of the changes is enough to meet a bug many times


def promises_broken() -> list[str]:
    """What the judge has to say about runs that lose power everywhere."""
    found = []
    total = changes_of_the_whole_script()
    for seed in SEEDS:
        for change in range(10 + seed, total, EVERY):
            history = run_until(change, seed)
            if history is None:
                continue
            try:
                history.world.power_loss("some")
                judge(history)
            except (AssertionError, HeadraceError) as error:
                found.append(str(error))
    return found


def test_without_a_bug_the_judge_is_silent():
    assert promises_broken() == []


def test_acknowledging_before_the_sync_is_caught(monkeypatch):
    honest = Durability.when_synced

    def hasty(self, end_offset, done):
        honest(self, end_offset, lambda error: None)
        done(None)

    monkeypatch.setattr(Durability, "when_synced", hasty)
    assert any("synced to" in text for text in promises_broken())


def test_trusting_the_index_over_the_log_is_caught(monkeypatch):
    """The index says that a batch is there, and opening believes it instead of walking over the log."""
    honest_flush, honest_scan = Log.flush, Rescan._scan

    def flush(self):
        honest_flush(self)
        segment = self.segments[-1] if self.segments else None
        if segment is not None and segment.index is not None:
            segment.index.add(segment.next_offset - segment.base, segment.size, segment.max_timestamp)
            data = segment.index.encode(segment.base, segment.size)
            replace_file(self.services.files, segment.path(".index"), data, durable=True)

    def scan(self, segment: Segment, following):
        with contextlib.suppress(OSError):
            index = decode_index(read_whole(self.files, segment.path(".index")), segment.base, 0, "")
            if index is not None:
                segment.index, segment.size = index, index.positions[-1]
                self.expected = segment.base + index.offsets[-1]
                handle = self.files.open(segment.path())
                if self.files.size(handle) < segment.size:
                    self.files.truncate(handle, segment.size)
                self.files.close(handle)
        return honest_scan(self, segment, following)

    monkeypatch.setattr(Log, "flush", flush)
    monkeypatch.setattr(Rescan, "_scan", scan)
    assert promises_broken()


def keep_the_tail(self, segment, position, end, why):
    segment.size = end
    return True


def test_keeping_a_torn_tail_is_caught(monkeypatch):
    monkeypatch.setattr(Rescan, "_cut", keep_the_tail)
    assert promises_broken()


def torn_write(seed: int, *, is_cut: bool) -> History | None:
    """A batch behind a synced one, of which a part and no more reached the platter, all on one page of it; None when
    the seed tears nothing. It was being written when the power went, or was written and not synced."""
    disk = SimulatedDisk(seed)
    history = History(World(disk), ("a",))
    history.open_all()
    history.append("a")
    history.sync("a")
    history.world.background.drain()
    before = disk.contents(path(history.world))
    if is_cut:
        disk.stop_at(disk.changes + 1)
    with contextlib.suppress(PowerLoss):
        history.append("a", size=700)  # small enough for the judge to append to the same segment
    disk.power_loss("all" if is_cut else "some")
    left = disk.contents(path(history.world))
    assert len(before) + 1000 < PAGE_BYTES and left.startswith(before)
    part, whole = left[len(before) :].rstrip(b"\0"), history.promises["a"].appended[1].rstrip(b"\0")
    history.world.start()
    return history if part and part != whole and whole.startswith(part) else None


def judged(history: History) -> bool:
    try:
        judge(history)
    except (AssertionError, HeadraceError):
        return False
    return True


@pytest.mark.parametrize("is_cut", [False, True], ids=["a torn page", "a write in part"])
def test_keeping_a_torn_tail_is_caught_by_every_write_that_was_torn(monkeypatch, is_cut):
    """The test above passes on a disk that tears nothing, too."""
    seeds = [seed for seed in range(100) if torn_write(seed, is_cut=is_cut)]
    assert len(seeds) >= 3
    assert all(judged(torn_write(seed, is_cut=is_cut)) for seed in seeds)
    monkeypatch.setattr(Rescan, "_cut", keep_the_tail)
    assert not any(judged(torn_write(seed, is_cut=is_cut)) for seed in seeds)


@pytest.mark.parametrize("what", ["the snapshot before its data", "a sync that forgets the directory"])
def test_smaller_liberties_are_caught_too(monkeypatch, what):
    if what == "the snapshot before its data":
        monkeypatch.setattr(Log, "after_sync", lambda self, done: done(None))
    else:
        monkeypatch.setattr(SimulatedDisk, "sync_directory", lambda self, path: None)
    assert promises_broken()
