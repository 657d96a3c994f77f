"""What the tests of the log stand on: a world of one disk, one clock and a background that is stepped by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from headrace.errors import HeadraceError
from headrace.log.config import LogConfig, Staged, StoreLimits
from headrace.log.log import Log
from headrace.log.reader import FileRead
from headrace.log.store import LogStore
from headrace.log.tail import ReadResult
from headrace.ports import Files
from headrace.records.batch import BatchHeader, read_header
from headrace.records.codec import BatchOptions, Producer, Record, encode
from headrace.testing.disk import SimulatedDisk

START_MS = 1_700_000_000_000
ROOT = "/data"


class Clock:
    def __init__(self) -> None:
        self.ms = START_MS

    def now_ms(self) -> int:
        return self.ms

    def monotonic(self) -> float:
        return self.ms / 1000


class Steps:
    """A background whose work waits until the test says so. The end of the world is nobody's result."""

    def __init__(self) -> None:
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any, BaseException | None], None]]] = []
        self.results: list[Callable[[], None]] = []

    def run(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], None]) -> None:
        self.waiting.append((work, done))

    def work(self, place: int = 0) -> None:
        """One piece of work is done; its result is still on the way."""
        work, done = self.waiting.pop(place)
        try:
            result = work()
        except (OSError, HeadraceError) as error:
            failure = error
            self.results.append(lambda: done(None, failure))
        else:
            self.results.append(lambda: done(result, None))

    def tell(self, place: int = 0) -> None:
        self.results.pop(place)()

    def step(self) -> None:
        self.work()
        self.tell()

    def step_beside(self, slow: object) -> None:
        """One piece of work, while that one takes its time."""
        self.work(next(place for place, one in enumerate(self.waiting) if one is not slow))
        self.tell(-1)

    def drain(self) -> None:
        while self.waiting or self.results:
            if self.waiting:
                self.work()
            while self.results:
                self.tell()


class World:
    def __init__(
        self,
        files: Files | None = None,
        root: str = ROOT,
        limits: StoreLimits | None = None,
        config: LogConfig | None = None,
    ) -> None:
        self.files = files if files is not None else SimulatedDisk()
        self.root, self.limits = root, limits
        self.config = config or LogConfig()
        self.clock = Clock()
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.start()

    @property
    def disk(self) -> SimulatedDisk:
        assert isinstance(self.files, SimulatedDisk)
        return self.files

    def start(self) -> None:
        self.background = Steps()
        self.store = LogStore.open(self.root, self.files, self.clock, self.background, self.limits)
        self.background.drain()

    def folder(self, name: str = "a") -> str:
        return f"{self.root}/topics/{name}/0"

    def log(self, name: str = "a", config: LogConfig | None = None) -> Log:
        """Opened; one that has failed is closed first, as its owner would."""
        log_id = name.encode().ljust(16, b"-") + bytes(4)
        old = self.store.services.logs.get(self.folder(name))
        if old is not None and old.broken:
            old.close()
        return self.store.open_log(self.folder(name), log_id, config or self.config, self.on_event)

    def on_event(self, kind: str, details: dict[str, Any]) -> None:
        self.events.append((kind, details))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.events]

    def sync(self, log: Log) -> HeadraceError | None:
        """Everything that is written; the answer that a waiter got."""
        told: list[HeadraceError | None] = []
        log.when_synced(log.written_offset, told.append)
        self.background.drain()
        assert len(told) == 1
        return told[0]

    def power_loss(self, keep: str = "some") -> None:
        self.disk.power_loss(keep)  # type: ignore[arg-type]
        self.start()

    def crash(self) -> None:
        self.disk.crash()
        self.start()

    def stop(self) -> None:
        self.store.drain(lambda: None)
        self.background.drain()
        self.store.close()

    def restart(self) -> None:
        self.stop()
        self.start()


def batch(
    value: bytes = b"value",
    count: int = 1,
    timestamp_ms: int = START_MS,
    producer: Producer | None = None,
    compression: str = "none",
) -> bytearray:
    records = [Record(b"%d" % number, value, (), timestamp_ms + number) for number in range(count)]
    return encode(records, BatchOptions(compression=compression, producer=producer or Producer()))


def header_of(data: bytearray) -> BatchHeader:
    return read_header(data)


def append(log: Log, *batches: bytearray, now_ms: int = START_MS, epoch: int = 0) -> list[Staged]:
    """One flush of them all."""
    staged = [log.stage(data, read_header(data), now_ms, epoch) for data in batches]
    log.flush()
    return staged


def fill(log: Log, count: int, size: int = 100, **options: Any) -> list[bytes]:
    """That many flushes of one batch of one record; the batches as they were written."""
    written = []
    for number in range(count):
        data = batch(b"%06d" % number + b"x" * size, **options)
        append(log, data)
        written.append(bytes(data))
    return written


def wait_at_the_end(log: Log) -> None:
    """As a consumer does that has everything: from now on the newest batches stay in memory."""
    assert read_now(log, log.written_offset).size == 0


def read_now(log: Log, offset: int, max_bytes: int = 1 << 20, **options: Any) -> ReadResult:
    read = log.read(offset, max_bytes, **options)
    return read.run() if isinstance(read, FileRead) else read


def joined(result: ReadResult) -> bytes:
    data = b"".join(bytes(piece) for piece in result.pieces)
    assert len(data) == result.size
    return data


def read_all(log: Log, max_bytes: int = 1 << 20) -> bytes:
    """From the start to the end, whole batches, offsets without a gap."""
    data, offset = b"", log.start_offset
    while offset < log.written_offset:
        result = read_now(log, offset, max_bytes)
        assert result.next_offset > offset, "reading makes progress"
        data += joined(result)
        offset = result.next_offset
    return data
