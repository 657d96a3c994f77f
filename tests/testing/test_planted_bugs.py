"""Classic bugs, planted on purpose in the real node: the simulation must find each within a few seeds."""

import contextlib

import pytest

from headrace.doors.kafka.api.produce import Part, Pending
from headrace.log.durability import Durability
from headrace.log.index import decode_index
from headrace.log.log import Log
from headrace.log.mending import save_index
from headrace.log.producers import Producers
from headrace.log.rescan import Rescan
from headrace.log.writing import read_whole
from headrace.testing.machine import SimulatedMachine
from headrace.testing.simulation import Options, SimulationFailed, run

OPTIONS = Options(kinds="power,kill", duration_s=3.0)
SEEDS = range(25)


def found():
    """The first broken promise, as the simulation tells it."""
    for seed in SEEDS:
        try:
            run(seed, SimulatedMachine, OPTIONS)
        except SimulationFailed as failure:
            return str(failure)
    return None


def test_without_a_bug_these_seeds_pass():
    for seed in SEEDS[:5]:
        run(seed, SimulatedMachine, OPTIONS)


def test_acknowledging_before_the_sync_is_found(monkeypatch):
    honest = Durability.when_synced

    def hasty(self, end_offset, done):
        honest(self, end_offset, lambda error: None)
        done(None)

    monkeypatch.setattr(Durability, "when_synced", hasty)
    assert found()


def test_trusting_the_index_over_the_log_is_found(monkeypatch):
    """The index says that batches are there, and opening believes it instead of walking over the log."""
    honest_flush, honest_scan = Log.flush, Rescan._scan

    def flush(self):
        honest_flush(self)
        if self.segments and (index := self.segments[-1].index) is not None:
            segment = self.segments[-1]
            index.add(segment.next_offset - segment.base, segment.size, segment.max_timestamp)
            save_index(self.services.files, segment, index.encode(segment.base, segment.size))

    def scan(self, segment, following):
        with contextlib.suppress(OSError):
            index = decode_index(read_whole(self.files, segment.path(".index")), segment.base, 0, "")
            if index is not None:
                segment.index, segment.size = index, index.positions[-1]
                self.expected = segment.base + index.offsets[-1]
        return honest_scan(self, segment, following)

    monkeypatch.setattr(Log, "flush", flush)
    monkeypatch.setattr(Rescan, "_scan", scan)
    assert found()


def test_keeping_a_torn_tail_is_found(monkeypatch):
    def keep(self, segment, position, end, why):
        segment.size = end
        return True

    monkeypatch.setattr(Rescan, "_cut", keep)
    assert found()


def test_forgetting_producers_at_a_restart_is_found(monkeypatch):
    monkeypatch.setattr(Producers, "note", lambda self, producer_id, *args: (producer_id, None, None))
    monkeypatch.setattr(Producers, "load", lambda self, *saved: None)
    assert "stands twice" in (found() or "")


def test_answering_a_refused_write_as_if_it_were_kept_is_found(monkeypatch):
    """A full disk, and nobody looks at the error, nor whether the batch is there."""
    honest = Pending.flushed
    monkeypatch.setattr(Pending, "flushed", lambda self, failed: honest(self, None))
    monkeypatch.setattr(Part, "is_written", True)
    for seed in SEEDS:
        try:
            run(seed, SimulatedMachine, Options(kinds="full", duration_s=3.0))
        except SimulationFailed:
            return
    pytest.fail("not found")
