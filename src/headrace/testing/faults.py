"""What will go wrong in a run, and when: drawn from the seed before the run begins.

| kind | what happens |
|---|---|
| kill | the node's process dies at once; its machine lives on |
| power | the machine loses power: unsynced bytes and names may be gone, peers hear nothing |
| stop | the node is asked to stop, drains, and is started again |
| reset | some connections are reset from the middle |
| drop | a client's machine forgets its connections without a word |
| cut | the path between the node and a client is cut, in one direction or both, and healed later |
| full | the disk fills up, and is given space later |
| sync | a sync fails; the node recovers by itself, or is killed some time later, as an operator would |
| forget | the same, and some of the bytes that the sync should have brought to the disk read as they were before |
| clock | the node's wall clock is stepped |
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

# Twice what is most likely to find something.
KINDS = ("kill", "kill", "power", "power", "stop", "reset", "drop", "cut", "full", "full", "sync", "forget", "clock")


class Fault(NamedTuple):
    at_s: float
    kind: str
    lasts_s: float


def plan(rng: random.Random, duration_s: float, kinds: Sequence[str], most: int) -> list[Fault]:
    """In the order of their times; few in some runs, so that long undisturbed stretches are seen too."""
    count = rng.randint(0, most) if kinds else 0
    drawn = [
        Fault(
            rng.uniform(0.0, duration_s),
            rng.choice(kinds),
            rng.choice((0.01, 0.3, 3.0)) * (0.5 + rng.random()),
        )
        for _ in range(count)
    ]
    return sorted(drawn)
