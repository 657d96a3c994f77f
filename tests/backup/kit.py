"""What tests of backups of a real data directory stand on: a broker under load, and its batches as a client fetches
them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from headrace.backup.directory import DirectoryBackup
from headrace.backup.manifest import Manifest, load
from headrace.backup.pace import Pace
from headrace.backup.place import Place
from headrace.log.files import OsFiles
from headrace.node.real import RealClock
from headrace.records import codec, kernel
from headrace.testing.served import ServedBroker
from tests.support import MIB, Closed, Refused, Wire, batch_of

SMALL_SEGMENTS = {"segment.bytes": str(256 << 10)}


def back_up(data: Path | str, target: Path | str, earlier: Path | None = None, rate: int = 0) -> Manifest:
    place = Place.open(str(target))
    try:
        if earlier is not None:
            place.share(str(earlier), load(OsFiles(), str(earlier)))
        return DirectoryBackup(str(data), place, RealClock(), Pace(rate)).run()
    finally:
        place.close()


def fetched(wire: Wire, topic: str, partition: int, start: int, end: int) -> bytes:
    """The batches from `start` to `end`, to the byte, as the broker gives them out."""
    data = b""
    while start < end:
        answer = wire.fetch(topic, start, partition, max_wait_ms=0, max_bytes=MIB)
        if answer.error:
            raise Refused(f"{topic}/{partition} from {start}", answer.error)
        for piece in answer.pieces or []:
            for position, size, base_offset, next_offset, *_ in kernel.scan(piece, 0, len(piece), -1, True)[0]:
                if start <= base_offset < end:
                    data += bytes(piece[position : position + size])
                    start = next_offset
    return data


class Load:
    """Producers that write numbered records, one to each partition, until the end of the `with`. What a partition
    holds at an offset is known from the offset alone."""

    def __init__(self, broker: ServedBroker, topics: dict[str, int], pause_s: float = 0.002) -> None:
        self._broker, self._pause_s = broker, pause_s
        self._ended = threading.Event()
        self.sent: dict[tuple[str, int], int] = {(t, p): 0 for t, count in topics.items() for p in range(count)}
        self._threads = [threading.Thread(target=self._run, args=place) for place in self.sent]
        self.errors: list[BaseException] = []

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join()
        if self.errors:
            raise self.errors[0]

    def wait(self, records: int) -> None:
        while min(self.sent.values()) < records and not self.errors:
            time.sleep(0.01)

    def _run(self, topic: str, partition: int) -> None:
        wire = None
        try:
            while not self._ended.is_set():
                try:
                    wire = wire or Wire(self._broker.address)
                    self._send(wire, topic, partition)
                except (Closed, OSError):  # the broker was killed, and comes back
                    wire = None
                self._ended.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 (told to the test)
            self.errors.append(error)
        finally:
            if wire is not None:
                wire.close()

    def _send(self, wire: Wire, topic: str, partition: int) -> None:
        first = self.sent[topic, partition]
        values = [value_of(topic, partition, first + number) for number in range(10)]
        result = wire.produce(topic, batch_of(values), partition)
        assert result.error == 0, f"produce: error code {result.error}"
        # One lost by a kill before its answer came may be there all the same: the broker's word counts.
        self.sent[topic, partition] = result.base_offset + 10


def value_of(topic: str, partition: int, number: int) -> bytes:
    return f"{topic}/{partition}/{number}/".encode() * 8


def kept_records(wire: Wire, topic: str, partition: int, start: int, end: int) -> list[tuple[int, bytes | None]]:
    return [(r.offset, r.value) for r in codec.decode(fetched(wire, topic, partition, start, end))]


class Churn:
    """Topics that come and go until the end of the `with`."""

    def __init__(self, broker: ServedBroker) -> None:
        self._broker, self._ended, self.rounds = broker, threading.Event(), 0
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Churn:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        names: list[str] = []
        with Wire(self._broker.address) as wire:
            while not self._ended.is_set():
                self.rounds += 1
                names.append(f"brief-{self.rounds}")
                wire.create_topic(names[-1], 2)
                for partition in range(2):
                    assert wire.produce(names[-1], batch_of([b"brief"] * 20), partition).error == 0
                if len(names) > 3:
                    wire.delete_topic(names.pop(0))
                self._ended.wait(0.05)


@contextlib.contextmanager
def served(folder: Path, *flags: str) -> Iterator[tuple[ServedBroker, Wire]]:
    with ServedBroker(folder, *flags) as broker, Wire(broker.address) as wire:
        yield broker, wire
