"""What a consumer of a group may be told, beside what every consumer may."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from headrace.client.assignors import ASSIGNORS, COOPERATIVE, RANGE
from headrace.client.consumer import ConsumerOptions
from headrace.client.values import TopicPartition

HEARTBEATS: Final = 3  # in a session at the least, so that one that is lost is not the end
HEARTBEAT_S: Final = 3.0  # Kafka's; more often costs the coordinator, and a rebalance is learnt of by them

Partitions = tuple[TopicPartition, ...]
Callback = Callable[[Partitions], Awaitable[None] | None]
Wanted = str | re.Pattern[str]  # a topic, or all those whose whole name matches


class GroupOptions(ConsumerOptions, frozen=True, kw_only=True):
    group: str
    instance: str | None = None
    """A name of the member's own: who joins again with it within the session gets its partitions back at once."""
    auto_commit: bool = True
    """Commits what the program has come back for: every so often, when partitions are given up, and at the end."""
    commit_interval: float = 5.0
    """Seconds between two automatic commits."""
    session_timeout: float = 45.0
    """Seconds without a heartbeat after which the group goes on without the member."""
    handling_timeout: float = 300.0
    """Seconds that the program may be busy with what it took; then the member leaves, and others get its partitions.
    As long a rebalance waits for it."""
    assignors: Sequence[str] = (RANGE, COOPERATIVE)
    """How partitions may be shared out, what is liked best first; members need one in common."""
    look_interval: float = 60.0
    """Seconds between two looks for new partitions, and new topics of a pattern."""
    on_assigned: Callback | None = None
    on_revoked: Callback | None = None
    """Before partitions are given up: the last moment to commit."""
    on_lost: Callback | None = None
    """After the group went on without the member: nothing can be committed any more."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.group:
            raise ValueError("a group has a name")
        if self.partitions is not None:
            raise ValueError("a group gives out partitions by itself: leave `partitions`, or `group`, out")
        if not self.assignors or isinstance(self.assignors, str) or set(self.assignors) - set(ASSIGNORS):
            raise ValueError(f"assignors are a list of {', '.join(ASSIGNORS)}, not {self.assignors!r}")
        if min(self.session_timeout, self.handling_timeout, self.commit_interval, self.look_interval) <= 0:
            raise ValueError("timeouts and intervals are more than 0 seconds")

    @property
    def heartbeat_s(self) -> float:
        return min(HEARTBEAT_S, self.session_timeout / HEARTBEATS)
