"""The search for all who want a long name: every pattern is tried, as many in a turn as its caller has time for.

Patterns may come and go meanwhile. Who had one that matches from the beginning to the end of the search is found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic

from headrace.broker.subscriptions.drawers import Entry, Owner
from headrace.broker.subscriptions.long_name import LongName

STEP = 500  # what a step costs beside the characters that it looks at


class Search(Generic[Owner]):
    def __init__(self, name: str, entries: Iterable[Entry[Owner]]) -> None:
        self.owners: dict[Owner, None] = {}
        self._steps = self._try(LongName(name), list(entries))

    def go_on(self, cost: float = float("inf")) -> bool:
        """For about so many characters. Whether there is more to do."""
        for step in self._steps:
            cost -= step + STEP
            if cost <= 0:
                return True
        return False

    def _try(self, name: LongName, entries: list[Entry[Owner]]) -> Iterator[int]:
        for entry in entries:
            if not entry.owners.keys() <= self.owners.keys() and (yield from entry.pattern.steps(name)):
                self.owners.update(entry.owners)
            yield 0
