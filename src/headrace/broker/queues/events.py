"""What a queue's machine is told, and what it wants done. Members are known to it by numbers; partitions by theirs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from headrace.broker.queues.snapshot import Snapshot as Snapshot
from headrace.errors import HeadraceError
from headrace.records.record import Record

Place = tuple[int, int]  # partition, offset
Who = object  # somebody who waits: the driver knows how to tell him


class Delivery(NamedTuple):
    """A record on its way to a member; `attempt` is 1 for the first."""

    partition: int
    record: Record
    attempt: int


# What it is told


class Join(NamedTuple):
    member: int
    max_records: int
    max_bytes: int


class Leave(NamedTuple):
    member: int


class Full(NamedTuple):
    """It takes no more for now."""

    member: int


class Resume(NamedTuple):
    member: int


class More(NamedTuple):
    """There may be more to read."""

    partition: int


class Came(NamedTuple):
    """What was read: all records between the offsets that there are. `is_end`: nothing is behind it for now."""

    partition: int
    from_offset: int
    records: Sequence[Record]
    next_offset: int
    is_end: bool


class NotRead(NamedTuple):
    """The read failed; it is tried again."""

    partition: int


class Trimmed(NamedTuple):
    """The log begins here now."""

    partition: int
    start_offset: int


class Cut(NamedTuple):
    """The log ends here now, and did not before: what was behind is gone, other records will come."""

    partition: int
    end_offset: int


class Acknowledge(NamedTuple):
    member: int
    places: Sequence[Place]
    who: Who | None = None


class Release(NamedTuple):
    """Not done: somebody is to try again."""

    member: int
    places: Sequence[Place]
    who: Who | None = None


class Reject(NamedTuple):
    """Not done, and nobody is to try again."""

    member: int
    places: Sequence[Place]
    reason: str
    who: Who | None = None


class Renew(NamedTuple):
    """It needs longer."""

    member: int
    places: Sequence[Place]


class Reopen(NamedTuple):
    """These are to be delivered again, as if they were new."""

    places: Sequence[Place]
    who: Who | None = None


class Flush(NamedTuple):
    """Somebody wants to know when all that has happened so far is kept."""

    who: Who


class Reach(NamedTuple):
    """Somebody wants to know when what lies before these ends, by partition, has gone out, or cannot for now."""

    ends: Mapping[int, int]
    who: Who


class Saved(NamedTuple):
    partition: int
    error: HeadraceError | None = None


class Buried(NamedTuple):
    """The record is in the dead-letter topic, or why it is not."""

    partition: int
    offset: int
    error: HeadraceError | None = None


class Tick(NamedTuple):
    """Time has passed."""


Event = (
    Join
    | Leave
    | Full
    | Resume
    | More
    | Came
    | NotRead
    | Trimmed
    | Cut
    | Acknowledge
    | Release
    | Reject
    | Renew
    | Reopen
    | Flush
    | Reach
    | Saved
    | Buried
    | Tick
)


# What it wants done


class Deliver(NamedTuple):
    member: int
    deliveries: Sequence[Delivery]


class Read(NamedTuple):
    """To be answered with Came, NotRead, or first with Trimmed or Cut."""

    partition: int
    offset: int
    max_bytes: int


class Save(NamedTuple):
    """The partition has changed: to be written, by `begin_save` once the turn is over, and then told as Saved."""

    partition: int


class Bury(NamedTuple):
    """To be published to the dead-letter topic, and told as Buried when it is safe there."""

    partition: int
    record: Record
    attempts: int
    reason: str


class Drop(NamedTuple):
    """Given up, and there is no dead-letter topic."""

    partition: int
    offset: int
    attempts: int
    reason: str


class Held(NamedTuple):
    """So many of the places were the member's to settle."""

    records: int


class Tell(NamedTuple):
    who: Who
    error: HeadraceError | None


class Lost(NamedTuple):
    """So many offsets were never delivered, and cannot be read any more."""

    partition: int
    records: int


Effect = Deliver | Read | Save | Bury | Drop | Held | Tell | Lost
