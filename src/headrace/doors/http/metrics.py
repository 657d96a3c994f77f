"""What the HTTP door counts."""

from __future__ import annotations

from headrace.metrics import Histogram

UNKNOWN = "unknown"  # one name for all paths that lead nowhere: a stranger invents as many as he likes


class HttpMetrics:
    def __init__(self) -> None:
        self.opened = self.refused = self.timed_out = 0
        self.requests: dict[tuple[str, str, int], int] = {}  # by method, route and status
        self.times: dict[str, Histogram] = {}  # by route

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        key = method, route, status
        self.requests[key] = self.requests.get(key, 0) + 1
        self.times.setdefault(route, Histogram()).observe(seconds)
