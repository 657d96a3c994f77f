"""The ledgers that there are, by name and in the order of names; and what is left of those that were forgotten.

- A ledger that is forgotten takes along which writes of its query were replaced. So that none of them begins again, the
  highest number of a write that was forgotten stays: a query without a ledger has to come with a higher one. It is
  kept for each partition of the state topic, as the ledger of a query without a name, which nobody can have.
- Names are kept in order all the time, so that no page has to wait until a hundred thousand of them are sorted.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.broker.transactions.events import Ledger
from headrace.broker.transactions.transaction import NONE
from headrace.wire.kafka.sink import MAX_LEDGERS

MAX_PAGE_BYTES = 1 << 20  # of names in one answer: each may have 32 KB
NOBODY = ""  # the query whose ledger holds the highest number of a write that was forgotten


class Shown(NamedTuple):
    ledger: Ledger
    open_members: int  # transactions of the query that are under way


class Page(NamedTuple):
    ledgers: Sequence[Shown]
    has_more: bool
    total: int  # of all ledgers


class Ledgers:
    def __init__(self) -> None:
        self._by_query: dict[str, Ledger] = {}
        self._order: list[str] = []
        self._floors: dict[int, int] = {}  # by partition of the state topic

    def __len__(self) -> int:
        return len(self._by_query)

    def __contains__(self, query: str) -> bool:
        return query in self._by_query

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_query)

    def get(self, query: str) -> Ledger | None:
        return self._by_query.get(query)

    def load(self, partition: int, ledgers: Sequence[Ledger]) -> None:
        """All that a partition of the state topic has."""
        for ledger in ledgers:
            if ledger.query == NOBODY:
                self.raise_floor(partition, ledger.write_epoch)
            else:
                if ledger.query not in self._by_query:
                    self._order.append(ledger.query)
                self._by_query[ledger.query] = ledger
        self._order.sort()  # of what is in order but for its end: quick

    def put(self, ledger: Ledger) -> None:
        if ledger.query not in self._by_query:
            insort(self._order, ledger.query)
        self._by_query[ledger.query] = ledger

    def remove(self, query: str) -> None:
        del self._by_query[query]
        del self._order[bisect_left(self._order, query)]

    def floor(self, partition: int) -> int:
        return self._floors.get(partition, NONE)

    def raise_floor(self, partition: int, write_epoch: int) -> int:
        """Never lower than it was; what it is then."""
        self._floors[partition] = floor = max(write_epoch, self.floor(partition))
        return floor

    def after(self, query: str) -> tuple[list[Ledger], bool]:
        """A page of them, and whether there are more."""
        at = bisect_right(self._order, query)
        names, size = [], 0
        for name in self._order[at : at + MAX_LEDGERS]:
            size += len(name.encode())
            if size > MAX_PAGE_BYTES:
                break
            names.append(name)
        return [self._by_query[name] for name in names], at + len(names) < len(self._order)
