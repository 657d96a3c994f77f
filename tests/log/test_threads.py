"""The real disk with real threads: appends, reads, syncs, rolls and retention at the same time."""

from __future__ import annotations

import queue
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from headrace.errors import OffsetOutOfRange
from headrace.log.config import LogConfig, StoreLimits
from headrace.log.files import OsFiles
from headrace.log.log import Log
from headrace.log.reader import FileRead, ReadResult
from headrace.log.store import LogStore
from headrace.records.codec import decode
from tests.log.kit import START_MS, Clock, append, batch, joined, read_all

CONFIG = LogConfig(
    segment_bytes=20_000, index_interval_bytes=1000, tail_bytes=8000, retention_bytes=100_000, retention_ms=-1
)


class WaitingFiles(OsFiles):
    """Every second read has to wait for the disk."""

    def __init__(self) -> None:
        self._chance = random.Random(1)

    def pread_nowait(self, handle: int, size: int, position: int) -> Any:
        return super().pread_nowait(handle, size, position) if self._chance.random() < 0.5 else None


class Threads:
    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(6)
        self._results: queue.Queue[Callable[[], None]] = queue.Queue()
        self._running = 0

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self._running += 1

        def both() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001  # it is told on the loop's thread
                self._results.put(lambda failure=error: done(None, failure))
            else:
                self._results.put(lambda: done(result, None))

        self._pool.submit(both)

    def poll(self, *, wait: bool = False) -> None:
        while self._running and (wait or not self._results.empty()):
            result = self._results.get(timeout=30)
            self._running -= 1
            result()


def test_readers_writers_and_the_background_do_not_disturb_each_other(tmp_path):
    background, clock, chance = Threads(), Clock(), random.Random(3)
    store = LogStore.open(str(tmp_path), WaitingFiles(), clock, background, StoreLimits(open_files=6, index_bytes=500))
    logs = [store.open_log(f"{tmp_path}/topics/t/{number}", bytes([number] * 20), CONFIG) for number in range(3)]
    synced = [0, 0, 0]
    reads: list[int] = []

    def check(log: Log, offset: int, result: ReadResult | None, error: BaseException | None) -> None:
        if isinstance(error, OffsetOutOfRange):
            assert error.start > offset, "only retention takes a record away"
            return
        assert error is None, error
        assert result is not None
        offsets = [record.offset for record in decode(joined(result))]
        assert offsets == list(range(offsets[0], result.next_offset))
        assert offsets[0] <= offset < result.next_offset
        reads.append(offset)

    for turn in range(1500):
        number = chance.randrange(3)
        log = logs[number]
        append(log, batch(b"%d" % turn * 50, chance.randint(1, 3)))
        if turn % 5 == 0:
            log.when_synced(
                log.written_offset, lambda error, n=number, end=log.written_offset: synced.__setitem__(n, end)
            )
        if turn % 40 == 0:
            log.maintain(START_MS)
        offset = chance.randint(log.start_offset, log.written_offset - 1)
        read = log.read(offset, 3000)
        if isinstance(read, FileRead):
            background.run(read.run, lambda r, e, log=log, offset=offset: check(log, offset, r, e))
        else:
            check(log, offset, read, None)
        background.poll()
    background.poll(wait=True)
    assert len(reads) > 1000
    assert all(log.failed is None and log.start_offset > 0 for log in logs)
    assert all(end <= log.synced_offset for end, log in zip(synced, logs, strict=True))
    ends = [(log.start_offset, log.written_offset, read_all(log)) for log in logs]
    done: list[bool] = []
    store.drain(lambda: done.append(True))
    background.poll(wait=True)
    assert done
    store.close()
    store = LogStore.open(str(tmp_path), OsFiles(), clock, background)
    for number, (start, end, data) in enumerate(ends):
        log = store.open_log(f"{tmp_path}/topics/t/{number}", bytes([number] * 20), CONFIG)
        assert (log.start_offset, log.written_offset) == (start, end)
        assert read_all(log) == data
    background.poll(wait=True)
    store.close()
