"""How far groups are behind: in records, and in time, which is the age of the first record that they have not read.

Looked at every few seconds, one look after the other, some positions at a time: others have their turn in between. The
ends of logs are known; the record at a position has to be read, off the loop, and its time is remembered as long as the
position stays. A log that nobody has opened since the start is opened, a few at a time: of a consumer that is down this
is the only trace. What one look reads is bounded; the rest has its turn at the next.

A position may stand on the marker of a transaction, or on what compaction has emptied: then it is read on. How far
there was nothing is remembered too: up to the end, a group has read everything, whatever lies between. What could not
be read is not known, and tried again at the next look, behind what was not tried yet.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from headrace.broker.partition import Partition
from headrace.errors import DamagedRange, HeadraceError
from headrace.log.reader import FileRead, ReadResult
from headrace.records import codec, kernel

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.groups.coordinator import Groups

AT_ONCE = 500  # positions that are looked at in one turn
MAX_READS = 500  # positions whose records are looked up in one look: a hundred milliseconds of another thread
MAX_STEPS = 10  # reads for one of them, past markers and what is empty
STEP_BYTES = 64 << 10  # of each but the first: hundreds of markers
MAX_OPENINGS = 20  # logs opened in one look

Where = tuple[str, str, int]  # group, topic, partition
_Spot = tuple[bytes, int, int]  # topic id, partition, offset


class Lag(NamedTuple):
    records: int
    since_ms: int | None  # the time of the first record that was not read; None: not known (yet)
    is_over: bool = False  # there is none: nothing but markers, or what compaction emptied

    def seconds(self, now_ms: int) -> float | None:
        if not self.records or self.is_over:
            return 0.0
        return None if self.since_ms is None or self.since_ms < 0 else max(0, now_ms - self.since_ms) / 1000


class Found(NamedTuple):
    """From a spot on: the first record's time, or how far there is none."""

    since_ms: int | None
    empty_to: int


class _Wish:
    """A spot that is to be read, from where on, and who stands there."""

    __slots__ = ("at", "partition", "spot", "steps", "who")

    def __init__(self, spot: _Spot, partition: Partition, at: int) -> None:
        self.spot, self.partition, self.at = spot, partition, at
        self.steps = 0
        self.who: list[Where] = []


class _Look:
    """What one look has seen so far."""

    def __init__(self) -> None:
        self.lags: dict[Where, Lag] = {}
        self.found: dict[_Spot, Found] = {}
        self.wanted: dict[_Spot, _Wish] = {}
        self.failed: dict[_Spot, _Wish] = {}  # wanted too, but they had their turn in vain
        self.closed: dict[Partition, None] = {}


class LagWatch:
    def __init__(self, broker: Broker, groups: Groups) -> None:
        self._broker, self._groups = broker, groups
        self.lags: dict[Where, Lag] = {}
        self._found: dict[_Spot, Found] = {}
        self._failed: set[_Spot] = set()
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
        if not self._is_looking:
            self._is_looking = True
            self._walk(_Look(), self._places())

    def _places(self) -> Iterator[tuple[str, str, int, int]]:
        """Groups, topics, partitions and offsets, also while some come and go."""
        for hosted in list(self._groups.hosted.values()):
            for name, indexes in hosted.positions.topics():
                for index in indexes:
                    position = hosted.positions.get(name, index)
                    if position is not None:
                        yield hosted.group.id, name, index, position.offset

    def _walk(self, look: _Look, places: Iterator[tuple[str, str, int, int]]) -> None:
        """Some at a time."""
        for _ in range(AT_ONCE):
            place = next(places, None)
            if place is None:
                self._walked(look)
                return
            self._see(look, *place)
        self._broker.timers.after(0, partial(self._walk, look, places))

    def _see(self, look: _Look, group: str, name: str, index: int, committed: int) -> None:
        topic = self._broker.topic(name)
        if topic is None or index >= len(topic.partitions):
            return
        partition = topic.partitions[index]
        log = partition.log
        if log is None:
            look.closed[partition] = None
            return
        offset, end = max(committed, log.start_offset), partition.high_watermark
        spot, where = (topic.image.topic_id, index, offset), (group, name, index)
        found = self._found.get(spot) if offset < end else None
        look.lags[where] = _lag(max(0, end - offset), found, end)
        if found is not None:
            look.found[spot] = found
        if offset < end and (found is None or (found.since_ms is None and found.empty_to < end)):
            wanted = look.failed if spot in self._failed else look.wanted
            wish = wanted.get(spot)
            if wish is None and len(wanted) < MAX_READS:
                wish = wanted[spot] = _Wish(spot, partition, offset if found is None else found.empty_to)
            if wish is not None:
                wish.who.append(where)

    def _walked(self, look: _Look) -> None:
        self.lags, self._found = look.lags, look.found
        for partition in list(look.closed)[:MAX_OPENINGS]:
            if partition.error is None:
                partition.when_opened(lambda error: None)
        wishes = [*look.wanted.values(), *look.failed.values()][:MAX_READS]
        self._failed.intersection_update(look.failed)
        self._read_next(wishes[::-1])

    def _read_next(self, wishes: list[_Wish]) -> None:
        while wishes:
            wish = wishes[-1]
            log = wish.partition.log
            wish.steps += 1
            try:
                if log is None:
                    raise HeadraceError("closed meanwhile")
                found = log.read(wish.at, STEP_BYTES if wish.steps > 1 else 1, up_to=wish.partition.high_watermark)
            except DamagedRange as hole:
                self._came(wishes, Found(None, hole.next_offset))
            except HeadraceError:
                self._came(wishes, None)
            else:
                self._broker.background.run(partial(_look_up, found, wish.at), partial(self._read, wishes))
                return
        self._is_looking = False

    def _read(self, wishes: list[_Wish], found: Found | None, error: BaseException | None) -> None:
        self._came(wishes, Found(None, error.next_offset) if isinstance(error, DamagedRange) else found)
        self._read_next(wishes)

    def _came(self, wishes: list[_Wish], found: Found | None) -> None:
        """What a read for the last of the wishes brought; None: it failed."""
        wish = wishes[-1]
        if found is None:
            self._failed.add(wish.spot)
            wishes.pop()
            return
        end = wish.partition.high_watermark
        is_further = found.empty_to > wish.at
        wish.at = found.empty_to
        self._found[wish.spot] = found
        for where in wish.who:
            if where in self.lags:  # known from now on, not only after the next look
                self.lags[where] = _lag(self.lags[where].records, found, end)
        if found.since_ms is not None or wish.at >= end:
            self._failed.discard(wish.spot)
            wishes.pop()
        elif wish.steps >= MAX_STEPS or not is_further:
            self._failed.add(wish.spot)
            wishes.pop()


def _lag(records: int, found: Found | None, end: int) -> Lag:
    if found is None:
        return Lag(records, None)
    return Lag(records, found.since_ms, is_over=found.since_ms is None and found.empty_to >= end)


def _look_up(found: ReadResult | FileRead, offset: int) -> Found:
    """Off the loop: the first record at or after the offset, within what was found."""
    result = found.run() if isinstance(found, FileRead) else found
    for piece in result.pieces:
        for header, body in codec.split(piece, check_crc=False):
            if header.is_control or header.next_offset <= offset:
                continue
            records = kernel.decode_records(
                codec.records_bytes(header, body),
                header.record_count,
                header.base_offset,
                header.base_timestamp,
                header.max_timestamp if header.is_log_append_time else None,
            )
            for record in records:
                if record.offset >= offset:
                    return Found(record.timestamp_ms, offset)
    return Found(None, max(offset, result.next_offset))
