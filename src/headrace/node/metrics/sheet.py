"""What was read at one moment: values by metric and labels. Filled on the loop, given away whole."""

from __future__ import annotations

from itertools import accumulate
from typing import NamedTuple

from headrace.metrics import Histogram
from headrace.node.metrics.catalogue import BY_NAME

Labels = tuple[str, ...]


class Spread(NamedTuple):
    """A histogram as it was."""

    bounds: tuple[float, ...]
    counts: list[int]  # up to each bound; the last: all
    sum: float


class Sheet:
    def __init__(self) -> None:
        self.values: dict[str, list[tuple[Labels, float | Spread]]] = {}

    def put(self, name: str, value: float | None, *labels: str) -> None:
        """None: not known here."""
        if value is not None:
            self._place(name, labels).append((labels, value))

    def spread(self, name: str, histogram: Histogram, *labels: str) -> None:
        places = BY_NAME[name].places
        below = list(accumulate(histogram.counts))
        bounds = tuple(map(histogram.bound, places))
        seen = Spread(bounds, [*(below[place] for place in places), below[-1]], histogram.sum)
        self._place(name, labels).append((labels, seen))

    def _place(self, name: str, labels: Labels) -> list[tuple[Labels, float | Spread]]:
        place = self.values.get(name)
        if place is None:
            place = self.values[name] = []
            assert len(labels) == len(BY_NAME[name].labels), f"{name} takes the labels {BY_NAME[name].labels}"
        return place
