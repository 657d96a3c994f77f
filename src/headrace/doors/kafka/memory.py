"""Memory for frames on their way in: one budget for all connections of a door.

A frame takes memory as its bytes come, not as its length claims, so that a claim costs nothing. When the budget is
used up, connections wait in line; the first in line may always go on (the budget is passed by at most its frame), so
there is no deadlock: it ends, or it stalls and is closed.
"""

from __future__ import annotations

from collections.abc import Callable

from headrace.doors.kafka.limits import EAGER_FRAME_BYTES, FIRST_STEP_BYTES


class RequestMemory:
    def __init__(self, budget_bytes: int) -> None:
        self.budget_bytes = budget_bytes
        self.used_bytes = 0
        self._line: dict[object, Callable[[], None]] = {}

    def first_step(self, frame_bytes: int) -> int:
        """How much of a frame to make room for at once: all of a usual one while memory is plenty."""
        if frame_bytes <= EAGER_FRAME_BYTES and self.used_bytes + frame_bytes <= self.budget_bytes // 2:
            return frame_bytes
        return min(frame_bytes, FIRST_STEP_BYTES)

    def take(self, owner: object, size: int, resume: Callable[[], None]) -> bool:
        """False: `owner` has to wait; `resume` is called when it should try again."""
        first = next(iter(self._line), owner)
        if self.used_bytes + size > self.budget_bytes and first is not owner:
            self._line[owner] = resume
            return False
        if self.used_bytes + size > self.budget_bytes:
            self._line.setdefault(owner, resume)  # keeps its place at the head until it is done
        self.used_bytes += size
        return True

    def give_back(self, owner: object, size: int) -> None:
        self.used_bytes -= size
        self._line.pop(owner, None)
        # The first in line always, since all others may be waiting too; then as many as there is room for.
        for resume in list(self._line.values()):
            resume()
            if self.used_bytes >= self.budget_bytes:
                break
