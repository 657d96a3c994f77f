"""Answers that are owed, in the order of what was asked: one that is ready waits for those before it."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class Debt:
    size: int  # of what was asked, held until it is answered
    answer: bytes | None = None


class Owed:
    def __init__(self) -> None:
        self._debts: deque[Debt] = deque()
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._debts)

    def add(self, size: int) -> Debt:
        debt = Debt(size)
        self._debts.append(debt)
        self.held_bytes += size
        return debt

    def settle(self, debt: Debt, answer: bytes) -> bytes:
        """All that can leave now."""
        assert debt.answer is None, "an answer is given once"
        debt.answer = answer
        ready = []
        while self._debts and self._debts[0].answer is not None:
            first = self._debts.popleft()
            self.held_bytes -= first.size
            assert first.answer is not None
            ready.append(first.answer)
        return b"".join(ready)
