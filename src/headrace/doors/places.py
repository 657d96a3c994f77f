"""Places for connections, of all doors together. Each connection is an open file, and the log needs some of those
too: a door has a limit of its own, and beyond that, nobody gets in when the places are taken."""

from __future__ import annotations

UNBOUNDED = 1 << 30


class Places:
    def __init__(self, count: int = UNBOUNDED) -> None:
        self.count = count
        self.taken = 0

    def take(self) -> None:
        """Whoever came, came: his file is open until he is gone."""
        self.taken += 1

    def leave(self) -> None:
        self.taken -= 1

    @property
    def is_crowded(self) -> bool:
        """More are there than there are places for: the one who came last has to go."""
        return self.taken > self.count
