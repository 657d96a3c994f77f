"""A run's progress: one value for each micro-batch, as a line for people and as JSON lines in the pipeline's folder.

A pipeline may go on for ever, so the file does not grow for ever: the older half is left out when it is too large, and
its first line then says how much that was. What a run has done in all is counted, not kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from headrace.spark.offsets import OURS
from headrace.spark.pipelines import late

T = TypeVar("T")

PROGRESS: Final = "progress.jsonl"
FILE_BYTES: Final = 8 << 20  # about 40,000 micro-batches: more than a picture shows


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """What one micro-batch did."""

    batch: int
    at: str  # when it began, ISO
    rows: int
    seconds: float
    rows_per_s: float
    lag: int | None  # records that were there and not read yet; None: the source does not say
    state_rows: int
    state_bytes: int
    late: int  # rows that came after the watermark, left out (late.py: what that is of a rollup)
    watermark: str | None
    lost: Sequence[str] = ()  # what the log had lost before it was read; in a file, what was not told before
    windows: int = 0  # rows of a rollup whose windows are open

    @property
    def line(self) -> str:
        lag = "" if self.lag is None else f", lag {self.lag:,}"
        state = (
            f", state {self.state_rows:,} rows in {self.state_bytes / (1 << 20):.1f} MiB" if self.state_bytes else ""
        )
        left_out = f", {self.late:,} late" if self.late else ""
        return (
            f"batch {self.batch}: {self.rows:,} rows in {self.seconds:.1f} s ({self.rows_per_s:,.0f}/s)"
            f"{lag}{state}{left_out}"
        )


class LeftOut(msgspec.Struct, frozen=True):
    """Of the micro-batches whose lines are no more in the file."""

    batches_before: int
    rows_before: int


class History(msgspec.Struct, frozen=True):
    """All that is known of the micro-batches of a pipeline; of old ones only how many they were."""

    seen: list[Progress]
    left_out: LeftOut = LeftOut(0, 0)

    @property
    def batches(self) -> int:
        return self.left_out.batches_before + len(self.seen)

    @property
    def rows(self) -> int:
        return self.left_out.rows_before + sum(one.rows for one in self.seen)


def progress_of(told: Mapping[str, Any], watermark_ms: Callable[[int], int] = lambda _: 0) -> Progress:
    """From what Spark tells of a micro-batch. `watermark_ms`: of the batch of that number."""
    states = told.get("stateOperators") or []
    seconds = told.get("durationMs", {}).get("triggerExecution", 0) / 1000
    rows = told.get("numInputRows", 0)
    lags = [lag for source in told.get("sources", []) if (lag := lag_of(source)) is not None]
    return Progress(
        batch=told["batchId"],
        at=told["timestamp"],
        rows=rows,
        seconds=seconds,
        rows_per_s=rows / seconds if seconds else 0.0,
        lag=sum(lags) if lags else None,
        state_rows=sum(state.get("numRowsTotal", 0) for state in states),
        state_bytes=sum(state.get("memoryUsedBytes", 0) for state in states),
        late=_late(told, states, watermark_ms),
        watermark=(told.get("eventTime") or {}).get("watermark"),
        lost=[words for source in told.get("sources", []) for words in _lost(source.get("latestOffset"))],
        windows=sum(state.get("numRowsTotal", 0) for state in states if state.get("operatorName") == late.OPERATOR),
    )


def _late(told: Mapping[str, Any], states: Sequence[Mapping[str, Any]], watermark_ms: Callable[[int], int]) -> int:
    """As Spark counts them, one by one, where it does; those of a rollup by what it told of its windows."""
    windows = (told.get("observedMetrics") or {}).get(late.METRIC)
    own = [state for state in states if windows is None or state.get("operatorName") != late.OPERATOR]
    dropped: int = sum(state.get("numRowsDroppedByWatermark", 0) for state in own)
    if not windows or not windows.get("rows"):
        return dropped
    return dropped + late.late_rows(windows, watermark_ms(told["batchId"] - 1))


def lag_of(source: Mapping[str, Any]) -> int | None:
    """Between what was read and the latest: both are offsets by topic and partition."""
    read, latest = (_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
    if read is None or latest is None:
        return None
    return sum(max(0, end - read.get(place, end)) for place, end in latest.items())


def _offsets(found: Any) -> dict[tuple[str, str], int] | None:
    if isinstance(found, str):
        try:
            found = json.loads(found)
        except ValueError:
            return None
    if not isinstance(found, Mapping):
        return None
    try:
        return {(topic, index): int(offset) for topic in found if topic for index, offset in found[topic].items()}
    except (AttributeError, TypeError, ValueError):
        return None


def _lost(latest: Any) -> Sequence[str]:
    """None by another source than ours."""
    ours = latest.get(OURS) if isinstance(latest, Mapping) else None
    return ours.get("lost", ()) if isinstance(ours, Mapping) else ()


class Recorder(StreamingQueryListener):
    """Hears of every query of the session: writes down the micro-batches of the one of its name, says and counts
    them."""

    def __init__(self, home: Path, name: str, say: Callable[[str], None]) -> None:
        self._file, self._name, self._say = home / PROGRESS, name, say
        self.watermark_ms: Callable[[int], int] = lambda _: 0  # of the batch of that number; its checkpoint knows
        self.batches = self.rows = self.late = 0
        self._told: set[str] = set()  # of what was lost

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 (Spark's names)
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        if event.progress.name != self._name:
            return
        progress = progress_of(json.loads(event.progress.json), self.watermark_ms)
        self.batches, self.rows, self.late = self.batches + 1, self.rows + progress.rows, self.late + progress.late
        progress = msgspec.structs.replace(progress, lost=[words for words in progress.lost if words not in self._told])
        self._told.update(progress.lost)
        append(self._file, msgspec.json.encode(progress))
        self._say(progress.line)
        for words in progress.lost:
            self._say(f"lost: {words}")


def append(path: Path, line: bytes, limit: int = FILE_BYTES) -> None:
    """A line more; of a file over the limit only the newer half stays."""
    with path.open("ab") as file:
        file.write(line + b"\n")
        size = file.tell()
    if size > limit:
        whole = path.read_bytes()
        newer = whole[size // 2 :].partition(b"\n")[2]
        older = _history(whole[: len(whole) - len(newer)])
        fresh = path.with_name(f"{path.name}.new")
        fresh.write_bytes(msgspec.json.encode(LeftOut(older.batches, older.rows)) + b"\n" + newer)
        fresh.replace(path)


def recorded(home: Path) -> list[Progress]:
    """All that is written down."""
    return history(home).seen


def history(home: Path) -> History:
    try:
        return _history((home / PROGRESS).read_bytes())
    except FileNotFoundError:
        return _history(b"")


def _history(text: bytes) -> History:
    """A torn last line is left out."""
    first, *others = text.splitlines() or [b""]
    before = _decoded(first, LeftOut)
    seen = [one for line in (first, *others) if (one := _decoded(line, Progress)) is not None]
    return History(seen) if before is None else History(seen, before)


def _decoded(line: bytes, kind: type[T]) -> T | None:
    try:
        return msgspec.json.decode(line, type=kind)
    except msgspec.DecodeError:
        return None
