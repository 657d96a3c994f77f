"""How far groups are behind: in records, and in time, which is the age of the first record that they have not read.

Looked at every few seconds, one look after the other. The ends of logs are known; the record at a position has to be
read, off the loop, and its time is remembered as long as the position stays. A log that nobody has opened since the
start is opened, a few at a time: of a consumer that is down this is the only trace. What one look reads is bounded; the
rest has its turn at the next.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import Partition
from headrace.errors import HeadraceError
from headrace.log.log import AnyLog
from headrace.log.reader import FileRead, ReadResult
from headrace.records import codec

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.groups.coordinator import Groups

MAX_READS = 500  # records looked up in one look: a hundred milliseconds of another thread
MAX_OPENINGS = 20  # logs opened in one look

Where = tuple[str, str, int]  # group, topic, partition
_Spot = tuple[bytes, int, int]  # topic id, partition, offset


class Lag(NamedTuple):
    records: int
    since_ms: int | None  # the time of the first record that was not read; None: not known (yet)

    def seconds(self, now_ms: int) -> float | None:
        if not self.records:
            return 0.0
        return None if self.since_ms is None else max(0, now_ms - self.since_ms) / 1000


class LagWatch:
    def __init__(self, broker: Broker, groups: Groups) -> None:
        self._broker, self._groups = broker, groups
        self.lags: dict[Where, Lag] = {}
        self._times: dict[_Spot, int | None] = {}
        self._is_looking = False

    def by_topic(self, now_ms: int) -> dict[tuple[str, str], tuple[int, float | None]]:
        """Of each group and topic: records of all partitions together, and the longest time behind that is known."""
        found: dict[tuple[str, str], tuple[int, float | None]] = {}
        for (group, topic, _), lag in self.lags.items():
            records, seconds = found.get((group, topic), (0, None))
            behind_s = lag.seconds(now_ms)
            if behind_s is not None and (seconds is None or behind_s > seconds):
                seconds = behind_s
            found[group, topic] = records + lag.records, seconds
        return found

    def look(self) -> None:
        if self._is_looking:
            return
        lags: dict[Where, Lag] = {}
        times: dict[_Spot, int | None] = {}
        wanted: dict[_Spot, Partition] = {}
        closed: dict[Partition, None] = {}
        for hosted in self._groups.hosted.values():
            for name, index, position in hosted.positions:
                topic = self._broker.topic(name)
                if topic is None or index >= len(topic.partitions):
                    continue
                partition = topic.partitions[index]
                log = partition.log
                if log is None:
                    closed[partition] = None
                    continue
                offset = max(position.offset, log.start_offset)
                behind = max(0, partition.high_watermark - offset)
                spot = (topic.image.topic_id, index, offset)
                if behind and spot in self._times:
                    times[spot] = self._times[spot]
                elif behind and len(wanted) < MAX_READS:
                    wanted[spot] = partition
                lags[hosted.group.id, name, index] = Lag(behind, times.get(spot))
        self.lags, self._times = lags, times
        for partition in list(closed)[:MAX_OPENINGS]:
            if partition.error is None:
                partition.when_opened(lambda error: None)
        self._read_next(list(wanted.items()))

    def _read_next(self, wanted: list[tuple[_Spot, Partition]]) -> None:
        self._is_looking = bool(wanted)
        if wanted:
            spot, partition = wanted.pop()
            done = partial(self._read, wanted, spot)
            try:
                if partition.log is None:
                    raise HeadraceError("closed meanwhile")
                found = partition.log.read(spot[2], 1)
            except HeadraceError:
                done(None, None)
            else:
                self._broker.background.run(partial(_time_of, found, spot[2]), done)

    def _read(
        self, wanted: list[tuple[_Spot, Partition]], spot: _Spot, since_ms: int | None, error: BaseException | None
    ) -> None:
        self._times[spot] = since_ms
        if not wanted:
            self._fill_in()
        self._read_next(wanted)

    def _fill_in(self) -> None:
        """What was looked up is known from now on, not only after the next look."""
        for (group, name, index), lag in self.lags.items():
            topic = self._broker.topic(name)
            hosted = self._groups.hosted.get(group)
            position = None if hosted is None else hosted.positions.get(name, index)
            if lag.records and lag.since_ms is None and topic is not None and position is not None:
                log: AnyLog | None = topic.partitions[index].log
                offset = position.offset if log is None else max(position.offset, log.start_offset)
                since_ms = self._times.get((topic.image.topic_id, index, offset))
                self.lags[group, name, index] = Lag(lag.records, since_ms)


def _time_of(found: ReadResult | FileRead, offset: int) -> int | None:
    """Off the loop: the time of the first record at or after the offset, within what was found."""
    result = found.run() if isinstance(found, FileRead) else found
    for piece in result.pieces:
        for record in codec.decode(piece, check_crc=False):
            if record.offset >= offset:
                return record.timestamp_ms
    return None
