"""A run of two logs whose every promise is written down, and the judge who compares them with what is left.

What was promised, in words:

- synced: a batch whose waiter was told so is there after any power loss, byte for byte, at its offset;
- written: a batch whose flush returned is there after the process was killed;
- dense: offsets have no gap, and what is read at an offset is what was appended at it, nothing else;
- deleted: once the caller was told, the log never starts before that offset again;
- once: a producer's batch that was kept is answered as a duplicate when it comes again.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field

from headrace.log.config import LogConfig
from headrace.log.log import Log
from headrace.log.walk import Walk
from headrace.records.batch import read_header
from headrace.records.codec import Producer
from headrace.testing.disk import PowerLoss, SimulatedDisk
from tests.log.kit import START_MS, World, batch, read_all

CONFIG = LogConfig(segment_bytes=1500, index_interval_bytes=300, tail_bytes=600, retention_bytes=4000, retention_ms=-1)


@dataclass
class Promises:
    appended: dict[int, bytes] = field(default_factory=dict)  # by offset, newest
    written: int = 0
    synced: int = 0
    deleted: int = 0
    start: int = 0  # the largest start that was ever seen
    cut_at: int = 0  # a cut-off end may take all that is remembered of the producers before it along
    epoch: int = 0
    sequence: int = 0


class History:
    def __init__(self, world: World, names: tuple[str, ...] = ("a", "b")) -> None:
        self.world = world
        self.promises = {name: Promises() for name in names}
        self.logs: dict[str, Log] = {}

    def open_all(self) -> None:
        for name in self.promises:
            self.logs[name] = self.world.log(name, CONFIG)

    def append(self, name: str, count: int = 1, records: int = 1, size: int = 90) -> None:
        log, promises = self.logs[name], self.promises[name]
        for _ in range(count):
            value = b"%d" % promises.sequence + b"." * size
            data = batch(value, records, producer=Producer(5, promises.epoch, promises.sequence))
            promises.sequence += records
            staged = log.stage(data, read_header(data), START_MS, 0)
            promises.appended[staged.base_offset] = bytes(data)  # tried: it may be found, or not
        log.flush()
        promises.written = log.written_offset

    def sync(self, name: str) -> None:
        log, promises = self.logs[name], self.promises[name]
        end = log.written_offset

        def done(error: object) -> None:
            if error is None:
                promises.synced = max(promises.synced, end)

        log.when_synced(end, done)

    def delete_records(self, name: str, before: int) -> None:
        log, promises = self.logs[name], self.promises[name]

        def done(error: object) -> None:
            if error is None:
                promises.deleted = max(promises.deleted, before)

        log.delete_records(before, done)
        promises.start = max(promises.start, log.start_offset)

    def retain(self, name: str) -> None:
        log = self.logs[name]
        log.apply_retention(self.world.clock.ms)
        self.promises[name].start = max(self.promises[name].start, log.start_offset)


def script(history: History) -> None:
    """Appends, syncs, rolls, snapshots, retention, deletion, a clean restart, with results that come late."""
    world = history.world
    history.open_all()
    steps = world.background
    for turn in range(6):
        history.append("a", count=2)
        history.append("b", records=3)
        history.sync("a")
        if turn % 2:
            history.sync("b")
            steps.work()
        history.append("a", size=400)
        if turn % 3 == 2:
            steps.drain()
            history.retain("a")
        elif steps.results:
            steps.tell()
    history.delete_records("b", 5)
    history.append("b", count=2, size=500)
    steps.drain()
    history.append("b")
    history.sync("b")
    steps.drain()
    world.restart()
    history.open_all()
    steps = world.background
    history.append("a", count=3)
    history.sync("a")
    history.append("b", size=1200)
    history.append("b", size=1200)
    steps.drain()
    history.retain("b")
    history.sync("b")
    steps.drain()


def changes_of_the_whole_script() -> int:
    world = World(SimulatedDisk(0))
    script(History(world))
    return world.disk.changes


def run_until(change: int, seed: int) -> History | None:
    """None when the power went before there was a store."""
    disk = SimulatedDisk(seed, short_writes=0.1, waits=0.1)
    disk.stop_at(change)
    history = None
    with contextlib.suppress(PowerLoss):
        history = History(World(disk))
        script(history)
    return history


def judge(history: History, *, only_killed: bool = False) -> None:
    """Opens the logs in the next life and holds them to their promises."""
    world = history.world
    world.events.clear()
    for name, promises in history.promises.items():
        log = world.log(name, CONFIG)
        assert "log.damage" not in world.kinds(), f"nothing was damaged: {world.events}"
        assert log.written_offset >= promises.synced, (
            f"{name}: synced to {promises.synced}, there is {log.written_offset}"
        )
        if only_killed:
            assert log.written_offset >= promises.written
        assert log.synced_offset == log.written_offset
        assert promises.deleted <= log.start_offset <= max(promises.start, promises.deleted)
        check_bytes(name, log, promises)
        check_duplicates(name, log, promises)
        history.logs[name] = log
        promises.appended = {at: data for at, data in promises.appended.items() if at < log.written_offset}
        promises.epoch, promises.sequence = promises.epoch + 1, 0
        history.append(name)
        history.sync(name)
        world.background.drain()
        assert promises.synced == log.synced_offset == log.written_offset
    world.power_loss("none")
    for name, promises in history.promises.items():
        log = world.log(name, CONFIG)
        assert log.written_offset == promises.synced, f"{name}: what came after the recovery is lost"
        check_bytes(name, log, promises)
    assert "log.damage" not in world.kinds(), f"nothing was damaged: {world.events}"


def check_bytes(name: str, log: Log, promises: Promises) -> None:
    data = read_all(log, 700)
    if not data:
        assert log.start_offset == log.written_offset
        return
    first = read_header(data).base_offset
    assert first <= log.start_offset
    walk = Walk(lambda size, at: data[at : at + size], 0, len(data), first, check_crc=True)
    for at, found in walk.batches():
        kept = data[at : at + found[1]]
        assert promises.appended.get(found[2]) == kept, f"{name}: offset {found[2]} was never appended like this"
    assert (walk.why, walk.expected) == (None, log.written_offset)


def check_duplicates(name: str, log: Log, promises: Promises) -> None:
    kept = [offset for offset in promises.appended if offset < log.written_offset]
    if kept and max(kept) >= promises.cut_at:
        newest = bytearray(promises.appended[max(kept)])
        staged = log.stage(newest, read_header(newest), START_MS, 0)
        assert staged.duplicate, f"{name}: a batch that was kept is not known any more"
        assert staged.base_offset == max(kept)
