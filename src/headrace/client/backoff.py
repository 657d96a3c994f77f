"""How long to wait before trying again: longer each time, up to a bound, and never two clients in step."""

from __future__ import annotations

import random
from typing import Final

FIRST_S: Final = 0.05
MOST_S: Final = 1.0
JITTER: Final = 0.2  # each wait is off by up to this share, so that many clients spread out


def wait_s(failures: int, first_s: float = FIRST_S, most_s: float = MOST_S) -> float:
    """After that many failures in a row."""
    if failures <= 0:
        return 0.0
    return min(first_s * 2.0 ** min(failures - 1, 30), most_s) * random.uniform(1 - JITTER, 1 + JITTER)
