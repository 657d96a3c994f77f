"""A partition of a queue as it is kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Snapshot(NamedTuple):
    """All before `end` is settled, except for what is `pending`."""

    end: int
    pending: Mapping[int, int] = {}  # offset -> attempts, in order of offsets

    @property
    def start(self) -> int:
        """All before it is settled."""
        return next(iter(self.pending), self.end)
