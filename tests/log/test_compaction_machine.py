"""Any order of puts, deletions, transactions, compactions, faults and restarts, against the simplest model: a dict."""

from __future__ import annotations

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from headrace.log.log import Log
from headrace.records.codec import Producer
from headrace.testing.disk import SimulatedDisk
from tests.log.keyed import CONFIG, committed, compact, end_transaction, put, roll, transactional
from tests.log.kit import World, read_now

SMALL = msgspec.structs.replace(CONFIG, segment_bytes=600, delete_retention_ms=300)
KEYS = st.integers(0, 5).map(lambda number: b"k%d" % number)
VALUES = st.none() | st.integers(0, 60).map(lambda size: b"v" * size)
COMPRESSIONS = st.sampled_from(["none", "none", "gzip", "zstd"])


class CompactionMachine(RuleBasedStateMachine):
    @initialize(seed=st.integers(0, 1000), keys=st.sampled_from([2, 4, 1000]))
    def begin(self, seed: int, keys: int) -> None:
        from headrace.log.config import StoreLimits
        from headrace.records.kernel import OffsetMap

        limits = StoreLimits(compaction_bytes=keys * OffsetMap.KEY_BYTES)
        self.world = World(SimulatedDisk(seed), config=SMALL, limits=limits)
        self.log: Log = self.world.log()
        self.appended: list[tuple[int, bytes, bytes | None]] = []
        self.pending: dict[int, list[tuple[int, bytes, bytes | None]]] = {}
        self.sequences: dict[int, int] = {}
        self.epoch = 0

    # What callers do

    @rule(pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4), compression=COMPRESSIONS)
    def put(self, pairs: list[tuple[bytes, bytes | None]], compression: str) -> None:
        base = self.log.end_offset
        put(self.log, *pairs, compression=compression)
        self.appended += [(base + place, *pair) for place, pair in enumerate(pairs)]

    @rule(producer_id=st.integers(1, 3), pairs=st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=3))
    def in_transaction(self, producer_id: int, pairs: list[tuple[bytes, bytes | None]]) -> None:
        sequence = self.sequences.get(producer_id, 0)
        base = self.log.end_offset
        transactional(self.log, Producer(producer_id, self.epoch, sequence), *pairs)
        self.sequences[producer_id] = sequence + len(pairs)
        pending = self.pending.setdefault(producer_id, [])
        pending += [(base + place, *pair) for place, pair in enumerate(pairs)]

    @precondition(lambda self: self.pending)
    @rule(commit=st.booleans())
    def end_transaction(self, commit: bool) -> None:
        producer_id, pending = self.pending.popitem()
        end_transaction(self.log, Producer(producer_id, self.epoch), commit=commit)
        if commit:
            self.appended += pending

    @rule()
    def roll(self) -> None:
        if self.log.segments:
            roll(self.log, self.world)

    @rule(passed_ms=st.sampled_from([1, 150, 400]))
    def compact(self, passed_ms: int) -> None:
        self.world.clock.ms += passed_ms
        compact(self.log, self.world)
        self.check()

    @rule()
    def begin_to_compact(self) -> None:
        self.log.services.compactor.look(self.log, self.world.clock.ms)

    @precondition(lambda self: self.world.background.waiting)
    @rule()
    def work(self) -> None:
        self.world.background.work()

    @precondition(lambda self: self.world.background.results)
    @rule()
    def tell(self) -> None:
        self.world.background.tell()

    @rule(share=st.floats(0, 1))
    def read_anywhere(self, share: float) -> None:
        log = self.log
        offset = log.start_offset + int(share * (log.written_offset - log.start_offset))
        found = read_now(log, offset, 1)
        assert found.next_offset >= offset

    # What goes wrong

    @rule(keep=st.sampled_from(["none", "all", "some", "some"]))
    def power_loss(self, keep: str) -> None:
        assert self.world.sync(self.log) is None or not self.log.written_offset
        self.log.services.compactor.look(self.log, self.world.clock.ms)
        for _ in range(3):
            if self.world.background.waiting:
                self.world.background.work()
        self.world.power_loss(keep)
        self.reopen()

    @rule()
    def kill_in_the_middle(self) -> None:
        """All that was written is there."""
        self.world.crash()
        self.reopen()

    @rule()
    def restart_without_snapshot(self) -> None:
        self.world.restart()
        path = f"{self.world.folder()}/snapshot"
        if self.world.files.exists(path):
            self.world.disk.flip_bit(path, 30)
        self.reopen()

    def reopen(self) -> None:
        self.world.events.clear()
        self.log = self.world.log()
        assert "log.damage" not in self.world.kinds(), self.world.events
        self.check()

    def check(self) -> None:
        expected: dict[bytes, bytes] = {}
        for _, key, value in sorted(self.appended, key=lambda one: one[0]):
            expected.pop(key, None)
            if value is not None:
                expected[key] = value
        under_way = {offset for pending in self.pending.values() for offset, *_ in pending}
        assert committed(self.log, under_way) == expected


CompactionMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=40, report_multiple_bugs=False)
TestCompactionMachine = CompactionMachine.TestCase
