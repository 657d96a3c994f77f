"""Where reading starts or ends, as people say it: "start", "end", an offset, the last N records, a time."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping
from typing import Final, cast

from headrace.client.asking import Asking
from headrace.client.values import OffsetAt, Time, TopicPartition
from headrace.wire.kafka.list_offsets import EARLIEST, LATEST, MAX_TIMESTAMP
from headrace.wire.ranges import ms_of

START: Final = "start"
END: Final = "end"
LATEST_TIME: Final = "latest-time"
_NAMED: Final = {START: EARLIEST, END: LATEST, LATEST_TIME: MAX_TIMESTAMP}

# An int is an offset; below zero, that many records before the end.
Position = str | int | datetime.datetime | Time
Positions = Position | Mapping[TopicPartition, Position] | Mapping[tuple[str, int], Position]


def timestamp_of(at: Position) -> int:
    """A time in milliseconds, or Kafka's number for a named one; here an int is milliseconds."""
    if isinstance(at, str) and at in _NAMED:
        return _NAMED[at]
    if isinstance(at, Time):
        return at.ms
    if isinstance(at, datetime.datetime):
        return ms_of(at if at.tzinfo else at.astimezone())  # without a zone: here
    if isinstance(at, bool) or not isinstance(at, int):
        raise ValueError(f"{at!r} is not a position: {', '.join(_NAMED)}, a whole number, a Time or a datetime is")
    return at


def position_of(positions: Positions, where: TopicPartition, default: Position) -> Position:
    if isinstance(positions, Mapping):
        return cast(Mapping[tuple[str, int], Position], positions).get(where, default)
    return positions


async def resolve(
    asking: Asking, wanted: Mapping[TopicPartition, Position], isolation_level: int
) -> dict[TopicPartition, int]:
    """Positions as offsets. One question for each topic and kind of position; plain offsets cost none."""
    found: dict[TopicPartition, int] = {}
    times: dict[str, dict[int, int]] = {}
    last: dict[str, dict[int, int]] = {}
    for (topic, partition), position in wanted.items():
        if isinstance(position, int) and not isinstance(position, bool):
            if position >= 0:
                found[TopicPartition(topic, partition)] = position
            else:
                last.setdefault(topic, {})[partition] = -position
        else:
            times.setdefault(topic, {})[partition] = timestamp_of(position)
    for topic, asked in times.items():
        at = await asking.offsets(topic, asked, isolation_level)
        late = [partition for partition, offset in at.items() if offset.offset < 0]  # nothing is that young
        if late:
            at |= await _ends(asking, topic, late, LATEST, isolation_level)
        found |= {TopicPartition(topic, partition): offset.offset for partition, offset in at.items()}
    for topic, counts in last.items():
        starts = await _ends(asking, topic, counts, EARLIEST, isolation_level)
        ends = await _ends(asking, topic, counts, LATEST, isolation_level)
        for partition, count in counts.items():
            offset = max(starts[partition].offset, ends[partition].offset - count)
            found[TopicPartition(topic, partition)] = offset
    return found


async def _ends(
    asking: Asking, topic: str, partitions: Iterable[int], time: int, isolation_level: int
) -> dict[int, OffsetAt]:
    return await asking.offsets(topic, dict.fromkeys(partitions, time), isolation_level)


async def ends(asking: Asking, topic: str, partition: int, isolation_level: int) -> tuple[int, int]:
    """Where a partition begins and ends now."""
    start = await _ends(asking, topic, [partition], EARLIEST, isolation_level)
    end = await _ends(asking, topic, [partition], LATEST, isolation_level)
    return start[partition].offset, end[partition].offset
