"""How long steps wait for late rows. Those that go by the same time share its watermark, and with it the longest wait
that one of them names: a shorter one would drop rows that another still waits for. Whoever named the shorter one is
told, since results depend on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.spark.pipelines.settings import Deadletter, Dedup, Order, Replay, Rollup, Settings
from headrace.spark.pipelines.times import interval, seconds

Waiting = Dedup | Order | Rollup


def sharing(settings: Settings, column: Callable[[Waiting], str]) -> dict[str, list[Waiting]]:
    """The times by which more than one step goes, and these steps, the one that waits longest first."""
    found: dict[str, list[Waiting]] = {}
    for step in settings.steps:
        if not isinstance(step, Deadletter):
            found.setdefault(column(step), []).append(step)
    return {name: sorted(steps, key=_seconds, reverse=True) for name, steps in found.items() if len(steps) > 1}


def wait_of(step: Waiting) -> str:
    return step.within if isinstance(step, Dedup) else step.late


def overruled(settings: Settings) -> Iterator[str]:
    """A sentence for each step that waits longer than its own setting says."""
    for longest, *others in sharing(settings, lambda step: step.time or _own_time(settings)).values():
        for step in others:
            if _seconds(step) < _seconds(longest):
                yield (
                    f"{_name(step)} = {wait_of(step)!r} is {wait_of(longest)!r} here, as {_name(longest)}: steps"
                    " that go by the same time wait as long as the one that waits longest"
                )


def _seconds(step: Waiting) -> float:
    return seconds(interval(wait_of(step)))


def _name(step: Waiting) -> str:
    return "[dedup] within" if isinstance(step, Dedup) else f"[{type(step).__name__.lower()}] late"


def _own_time(settings: Settings) -> str:
    """The column that is the time of a record itself."""
    begin = settings.beginning
    is_raw = bool(begin.topic) if isinstance(begin, Replay) else begin.format == "raw"
    return "timestamp" if is_raw and settings.deadletter is None else "_timestamp"
