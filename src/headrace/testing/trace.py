"""What happened, line by line: the proof that a seed replays.

Every delivery, disk operation, timer and acknowledgement is one line with its virtual time. The hash takes
every line; the lines themselves are kept up to a limit, the newest, for the person who looks into a failure.
Rule: nothing that differs between two interpreters may enter a line: no id(), no repr() of an object with an
address, no order taken from a set, no real time.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable

# A failure is explained by what came just before it; a run of minutes must not hold all its lines in memory.
KEPT_LINES = 20_000


class Trace:
    def __init__(self, now: Callable[[], float], kept_lines: int = KEPT_LINES) -> None:
        self.now = now
        self._hash = hashlib.sha256()
        self.lines: deque[str] = deque(maxlen=kept_lines)
        self.count = 0

    def add(self, kind: str, text: str) -> None:
        line = f"{self.now():.9f} {kind} {text}"
        self._hash.update(line.encode("utf-8", "backslashreplace") + b"\n")
        self.lines.append(line)
        self.count += 1

    @property
    def hash(self) -> str:
        return self._hash.hexdigest()
