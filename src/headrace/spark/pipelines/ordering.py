"""Event-time order with a bound: what a stream's state holds back, and when it lets go.

A row waits until the watermark passes its time: then nothing earlier can come any more, since Spark drops what is older
than its watermark. What is let go at once is sorted by time, rows of the same time as they came. Rows are kept whole,
as Python's own pickles: only this query's own state is ever read back. Each is kept with the names of its columns: when
the next run has a column more, rows that waited have null there, and what it does not have any more is left out.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle
from pyspark.sql.types import BinaryType, LongType, Row, StructField, StructType

if TYPE_CHECKING:
    from pyspark.sql.streaming.stateful_processor import ExpiredTimerInfo, TimerValues

HELD: Final = StructType(
    [StructField("time_us", LongType()), StructField("number", LongType()), StructField("row", BinaryType())]
)
COUNT: Final = StructType([StructField("count", LongType())])
NO_TIME: Final = -1  # a row without a time is never held back
MICROSECOND: Final = timedelta(microseconds=1)

Held = tuple[int, int, bytes]  # time, number among the rows of this key, the row


class Reorder(StatefulProcessor):
    def __init__(self, time: str, names: Mapping[str, str]) -> None:
        """`names`: of the columns that it is given and gives, and under which each is kept."""
        self._time, self._names = time, {**names}

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._held = handle.getListState("held", HELD)
        self._count = handle.getValueState("count", COUNT)

    def handleInputRows(  # noqa: N802 (Spark's name)
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: TimerValues,  # noqa: N803
    ) -> Iterator[Row]:
        held = self._kept()
        found = self._count.get()
        count = found[0] if found else 0
        for row in rows:
            whole = {kept: row[name] for name, kept in self._names.items()}
            held.append((_micros(row[self._time]), count, pickle.dumps(whole, protocol=pickle.HIGHEST_PROTOCOL)))
            count += 1
        self._count.update((count,))
        yield from self._let_go(held, timerValues.getCurrentWatermarkInMs())

    def handleExpiredTimer(  # noqa: N802
        self,
        key: Any,
        timerValues: TimerValues,  # noqa: N803
        expiredTimerInfo: ExpiredTimerInfo,  # noqa: N803
    ) -> Iterator[Row]:
        yield from self._let_go(self._kept(), timerValues.getCurrentWatermarkInMs())

    def close(self) -> None:
        """Spark's state is all that there is."""

    def _kept(self) -> list[Held]:
        if not self._held.exists():
            return []
        return [(at, number, bytes(row)) for at, number, row in self._held.get()]

    def _let_go(self, held: list[Held], watermark_ms: int) -> Iterator[Row]:
        held.sort(key=lambda one: one[:2])
        due = 0
        while due < len(held) and held[due][0] <= watermark_ms * 1000:
            due += 1
        left = held[due:]
        for timer in [*self._handle.listTimers()]:
            self._handle.deleteTimer(timer)
        if left:
            self._held.put(left)
            self._handle.registerTimer(max(left[0][0] // 1000, watermark_ms) + 1)
        else:
            self._held.clear()
        for _, _, raw in held[:due]:
            row = pickle.loads(raw)  # noqa: S301 (our own state)
            yield Row(**{name: row.get(kept) for name, kept in self._names.items()})


def _micros(at: datetime | None) -> int:
    """Since 1970. What Spark hands over without a zone is the session's local time."""
    if at is None:
        return NO_TIME
    return (at.astimezone(UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // MICROSECOND
