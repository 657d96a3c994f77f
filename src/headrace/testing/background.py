"""The simulated twins of the Background and Clock ports."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from headrace.testing.disk import PowerLoss
from headrace.testing.loop import SimulatedLoop

T = TypeVar("T")

# From a fast device's fdatasync to a disk that stutters; drawn with most of the weight on the quick side.
DELAY_S = (0.000_05, 0.030)


class SimulatedBackground:
    """The work happens at one seeded moment, its result arrives at a later one: a crash fits before, between
    and after."""

    def __init__(self, loop: SimulatedLoop, delay_s: tuple[float, float] = DELAY_S) -> None:
        self._loop = loop
        self._random = loop.random_for("background")
        self.delay_s = delay_s

    def run(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        self._loop.call_later(self._delay(), self._work, work, done)

    def _work(self, work: Callable[[], T], done: Callable[[T | None, BaseException | None], None]) -> None:
        try:
            result = work()
        except (Exception, PowerLoss) as error:  # noqa: BLE001  # whatever it is, it is the caller's
            self._loop.call_later(self._delay(), done, None, error)
        else:
            self._loop.call_later(self._delay(), done, result, None)

    def _delay(self) -> float:
        low, high = self.delay_s
        return low + (high - low) * float(self._random.random() ** 4)


class SimulatedClock:
    """A machine's own idea of the time: off by a skew, fast or slow by a drift, and steppable as wall clocks
    are."""

    def __init__(self, loop: SimulatedLoop, wall_start_ms: int, skew_ms: int = 0, drift: float = 0.0) -> None:
        self._loop = loop
        self._start_ms = wall_start_ms + skew_ms
        self._rate = 1.0 + drift

    def now_ms(self) -> int:
        return self._start_ms + int(self._loop.time() * self._rate * 1000)

    def monotonic(self) -> float:
        return self._loop.time() * self._rate

    def step(self, by_ms: int) -> None:
        self._start_ms += by_ms
