"""What the Kafka door counts: requests by API, how long they took, errors by code, connections by how they ended."""

from __future__ import annotations

from collections.abc import Callable

from headrace.metrics import Histogram
from headrace.wire.kafka.header import JOIN_GROUP, SYNC_GROUP

SLOW_S = 1.0  # what a client notices; a sync on a tired disk, mostly
SLOW_PAUSE_S = 10.0  # between two lines in the log about it
FOR_OTHERS = frozenset({JOIN_GROUP, SYNC_GROUP})  # they wait for a group's other members, which nobody need look into


class KafkaMetrics:
    __slots__ = (
        "_monotonic",
        "_on_slow",
        "_slow",
        "_told_at",
        "closed",
        "errors",
        "opened",
        "produced",
        "refused",
        "times",
    )

    def __init__(self, monotonic: Callable[[], float], on_slow: Callable[[int, float, int], None]) -> None:
        self.produced = 0  # Produce requests, of which only a sample is timed
        # By API key: seconds from a request's last byte to its answer, without a fetch's wait for news.
        self.times: dict[int, Histogram] = {}
        self.errors: dict[tuple[int, int], int] = {}  # by API key and error code: one for each partition or topic
        self.opened = self.refused = 0
        self.closed: dict[str, int] = {}  # by cause
        self._monotonic, self._on_slow = monotonic, on_slow
        self._slow = 0
        self._told_at = -SLOW_PAUSE_S

    def done(self, api_key: int, took: float, count: int = 1) -> None:
        """So many requests, which came in one turn and therefore took as long."""
        try:
            times = self.times[api_key]
        except KeyError:
            times = self.times[api_key] = Histogram()
        times.observe(took, count)
        if took >= SLOW_S and api_key not in FOR_OTHERS:
            self._tell_of_slow(api_key, took, count)

    def _tell_of_slow(self, api_key: int, took: float, count: int) -> None:
        self._slow += count
        now = self._monotonic()
        if now - self._told_at >= SLOW_PAUSE_S:
            self._told_at = now
            self._on_slow(api_key, took, self._slow)
            self._slow = 0

    def failed(self, api_key: int, code: int) -> None:
        key = api_key, code
        self.errors[key] = self.errors.get(key, 0) + 1

    def left(self, cause: str) -> None:
        self.closed[cause] = self.closed.get(cause, 0) + 1
