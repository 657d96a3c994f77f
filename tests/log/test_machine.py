"""Any order of appends, syncs, faults and restarts, against the simplest possible model: batches by offset."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headrace.errors import DiskFull, HeadraceError
from headrace.log.config import StoreLimits
from headrace.log.log import Log
from headrace.records.batch import read_header
from headrace.testing.disk import SimulatedDisk
from tests.log.history import CONFIG, History, Promises, check_bytes, check_duplicates
from tests.log.kit import World, joined, read_now

NAMES = st.sampled_from(["a", "b"])


class LogMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1 << 30))
    def begin(self, seed: int) -> None:
        limits = StoreLimits(snapshot_bytes=2000, open_files=2, tail_bytes=5000, index_bytes=100)
        self.world = World(SimulatedDisk(seed, short_writes=0.1, waits=0.1, forgets=0.3), limits=limits)
        self.history = History(self.world)
        self.is_full = False
        self.history.open_all()

    # What callers do

    @rule(name=NAMES, count=st.integers(1, 4), records=st.integers(1, 3), size=st.sampled_from([10, 90, 700, 5000]))
    def append(self, name: str, count: int, records: int, size: int) -> None:
        promises = self.promises(name)
        before = dict(promises.appended), promises.sequence
        try:
            self.history.append(name, count, records, size)
        except DiskFull:
            assert self.is_full
            assert self.log(name).failed is None
            promises.appended, promises.sequence = before

    @rule(name=NAMES)
    def sync(self, name: str) -> None:
        self.history.sync(name)

    @rule(name=NAMES, back=st.integers(0, 6))
    def delete_records(self, name: str, back: int) -> None:
        before = max(self.log(name).start_offset, self.log(name).written_offset - back)
        self.history.delete_records(name, before)

    @rule(name=NAMES)
    def retain(self, name: str) -> None:
        self.history.retain(name)

    @rule(name=NAMES)
    def snapshot(self, name: str) -> None:
        self.log(name).snapshot()

    @rule()
    def tick(self) -> None:
        self.world.store.tick()

    @rule(name=NAMES, back=st.integers(0, 9))
    def truncate(self, name: str, back: int) -> None:
        log, promises = self.log(name), self.promises(name)
        told: list[HeadraceError | None] = []
        end = log.written_offset
        log.truncate(max(log.start_offset, end - back), told.append)
        self.world.background.drain()
        if log.broken:  # begun, and then there was no room to end it
            assert self.is_full
            promises.synced, promises.cut_at = log.start_offset, end
            self.empty()
            self.reopen(name)
        elif log.written_offset < end:
            assert told == [None]
            self.trim(promises, log)
            promises.cut_at = log.written_offset
        else:
            assert told == [None] or self.is_full

    @rule(name=NAMES, share=st.floats(0, 1), max_bytes=st.sampled_from([1, 300, 5000]))
    def read(self, name: str, share: float, max_bytes: int) -> None:
        log, promises = self.log(name), self.promises(name)
        if log.start_offset < log.written_offset:
            offset = log.start_offset + int(share * (log.written_offset - log.start_offset - 1))
            data = joined(read_now(log, offset, max_bytes))
            header = read_header(data)
            assert header.base_offset <= offset < header.next_offset
            assert promises.appended[header.base_offset] == data[: header.size]

    # What the background does

    @precondition(lambda self: self.world.background.waiting)
    @rule(share=st.floats(0, 0.99))
    def work(self, share: float) -> None:
        self.world.background.work(int(share * len(self.world.background.waiting)))

    @precondition(lambda self: self.world.background.results)
    @rule(share=st.floats(0, 0.99))
    def tell(self, share: float) -> None:
        self.world.background.tell(int(share * len(self.world.background.results)))

    # What goes wrong

    @rule(keep=st.sampled_from(["none", "all", "some", "some"]))
    def power_loss(self, keep: str) -> None:
        self.world.power_loss(keep)
        self.next_life()

    @rule()
    def kill(self) -> None:
        self.world.crash()
        for promises in self.history.promises.values():
            promises.synced = max(promises.synced, promises.written)  # all that was written is still there
        self.next_life()

    @precondition(lambda self: not self.is_full)
    @rule()
    def restart(self) -> None:
        self.world.restart()
        self.next_life()

    @rule(name=NAMES)
    def failed_sync(self, name: str) -> None:
        self.world.background.drain()
        self.world.disk.fail_syncs(1, f"topics/{name}")
        self.history.sync(name)
        self.world.background.drain()
        if self.log(name).broken:
            self.reopen(name)
        else:
            self.world.disk.mend()

    @rule(free_bytes=st.integers(0, 3000))
    def fill(self, free_bytes: int) -> None:
        self.is_full = True
        self.world.disk.fill(free_bytes)

    @rule()
    def empty(self) -> None:
        self.is_full = False
        self.world.disk.empty()

    # Keeping count

    @invariant()
    def start_is_never_before_what_was_deleted(self) -> None:
        if hasattr(self, "history"):
            for name, promises in self.history.promises.items():
                assert self.log(name).start_offset >= promises.deleted

    def log(self, name: str) -> Log:
        return self.history.logs[name]

    def promises(self, name: str) -> Promises:
        return self.history.promises[name]

    def next_life(self) -> None:
        self.empty()
        for name in self.history.promises:
            self.reopen(name)

    def reopen(self, name: str) -> None:
        promises = self.promises(name)
        self.world.events.clear()
        log = self.history.logs[name] = self.world.log(name, CONFIG)
        assert "log.damage" not in self.world.kinds(), self.world.events
        assert log.written_offset >= promises.synced, f"{name}: {promises.synced} synced, {log.written_offset} there"
        assert log.start_offset <= max(promises.start, promises.deleted)
        self.trim(promises, log)
        check_bytes(name, log, promises)
        check_duplicates(name, log, promises)

    def trim(self, promises: Promises, log: Log) -> None:
        """What was lost is forgotten, and its producer starts a new epoch."""
        promises.appended = {at: data for at, data in promises.appended.items() if at < log.written_offset}
        promises.written = promises.synced = log.written_offset
        promises.start = max(promises.start, log.start_offset)
        promises.epoch, promises.sequence = promises.epoch + 1, 0


LogMachine.TestCase.settings = settings(max_examples=80, stateful_step_count=40, report_multiple_bugs=False)
TestLogMachine = LogMachine.TestCase
