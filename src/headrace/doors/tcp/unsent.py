"""Answers that clients have not taken yet: one budget for all connections of a door.

Up to the budget, a Fetch gets what it asks for. Past it, a Fetch gets little, so that quick clients go on while slow
ones hold the memory, and whoever took nothing at all for a while is closed, the longest first. At twice the budget a
Fetch gets nothing: that is the bound. What is being read from disk for an answer counts as unsent.
"""

from __future__ import annotations

from typing import Protocol

LITTLE_BYTES = 64 << 10  # of records in an answer when memory is short (or one batch, when that is larger)
PATIENCE_S = 5.0  # a client that lives takes something in this time, however slow its network


class Receiver(Protocol):
    def unsent_bytes(self) -> int: ...


class Unsent:
    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.reading_bytes = 0
        self._slow: dict[Receiver, tuple[int, float]] = {}  # what it had not taken at the last look, and since when

    def room(self, plenty_bytes: int) -> int:
        """How much an answer may hold that is made now."""
        if not self._slow and not self.reading_bytes:
            return plenty_bytes
        held = self.held_bytes()
        if held <= self.budget_bytes:
            return plenty_bytes
        return min(plenty_bytes, LITTLE_BYTES) if held <= 2 * self.budget_bytes else 0

    def held_bytes(self) -> int:
        return self.reading_bytes + sum(receiver.unsent_bytes() for receiver in self._slow)

    def slow(self, receiver: Receiver, now: float) -> None:
        if receiver not in self._slow:
            self._slow[receiver] = receiver.unsent_bytes(), now

    def gone(self, receiver: Receiver) -> None:
        """It took everything, or left."""
        self._slow.pop(receiver, None)

    def look(self, receiver: Receiver, now: float) -> None:
        """Now and then, for every connection: little that is unsent is not told to us otherwise."""
        unsent = receiver.unsent_bytes()
        if not unsent:
            self.gone(receiver)
            return
        before, since = self._slow.get(receiver, (unsent, now))
        self._slow[receiver] = (unsent, now) if unsent < before else (unsent, since)

    def still_s(self, receiver: Receiver, now: float) -> float:
        """For how long it has taken nothing of what waits for it."""
        return now - self._slow.get(receiver, (0, now))[1]

    def hopeless(self, now: float) -> list[Receiver]:
        """Those to close so that the budget is kept."""
        excess = self.held_bytes() - self.budget_bytes
        found: list[Receiver] = []
        for receiver, (unsent, since) in sorted(self._slow.items(), key=lambda item: item[1][1]):
            if excess <= 0 or now - since < PATIENCE_S:
                break
            found.append(receiver)
            excess -= unsent
        return found
