"""How long positions are kept. Kafka's rules:

- a position with an end of its own (old clients may give one): until then;
- of a group that has members: as long as a member reads the topic; after that, `offsets.retention.minutes` from the
  last commit;
- of a group that has none: that long after the last member left;
- of who commits without ever being a member: that long after the commit.

A group without members and positions goes too.
"""

from __future__ import annotations

from headrace.broker.groups.generation import State
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.positions import NEVER, Place, Position

MINUTE_MS = 60_000


def expired(hosted: Hosted, subscribed: set[str] | None, now_ms: int, retention_ms: int) -> list[Place]:
    """What may go now; `subscribed`: the topics that members read, None when that is not known."""
    group = hosted.group

    def is_over(topic: str, position: Position) -> bool:
        if position.expires_ms != NEVER:
            return now_ms >= position.expires_ms
        if group.protocol_type is None:
            since_ms = position.committed_ms
        elif group.state is State.EMPTY:
            since_ms = hosted.since_ms if hosted.since_ms >= 0 else position.committed_ms
        elif group.state is State.STABLE and subscribed is not None and topic not in subscribed:
            since_ms = position.committed_ms
        else:
            return False
        return now_ms - since_ms >= retention_ms

    return hosted.positions.expired(is_over)
