"""Who holds which group: at most one consumer at a time, and only until its time is up.

`step` is the whole machine: (now, event) in, outcome out. The driver (leases.py) owns the clock; the simulation is
another driver. Time never goes back, because the driver promises it; nothing here asks what time it is.

- A lease is its consumer's until `duration_s` after it was last heard of; from that moment on anybody may have it.
- All leases last equally long, so those in the order of their last renewal are in the order of their ends: those that
  ran out are in front, and each step forgets a few of them. A table that is full of them has room again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, takewhile
from typing import NamedTuple

FORGOTTEN_AT_ONCE = 100  # leases that ran out, in one step: more than it can add, and nobody waits for it


class Place(NamedTuple):
    """What is held."""

    topic: str
    group: str


class Lease(NamedTuple):
    consumer: str
    until: float


class Heard(NamedTuple):
    """A consumer wants to have the group, or to keep it."""

    place: Place
    consumer: str


class TopicGone(NamedTuple):
    topic: str


class Granted(NamedTuple):
    until: float


class Taken(NamedTuple):
    """Another has it."""

    holder: str


class Full(NamedTuple):
    """So many are held that there is no room for one more."""

    leases: int


Outcome = Granted | Taken | Full | None


class LeaseTable:
    def __init__(self, duration_s: float, max_leases: int) -> None:
        self._duration_s, self._max_leases = duration_s, max_leases
        self._leases: dict[Place, Lease] = {}  # in the order of their ends
        self._places: dict[str, set[Place]] = {}  # by topic

    def __len__(self) -> int:
        """With those that ran out and are not forgotten yet."""
        return len(self._leases)

    def held(self, now: float) -> Iterator[tuple[Place, Lease]]:
        return ((place, lease) for place, lease in self._leases.items() if lease.until > now)

    def step(self, now: float, event: Heard | TopicGone) -> Outcome:
        self._forget_over(now)
        match event:
            case Heard(place, consumer):
                return self._heard(now, place, consumer)
            case TopicGone(topic):
                for place in self._places.pop(topic, ()):
                    del self._leases[place]
                return None

    def _heard(self, now: float, place: Place, consumer: str) -> Outcome:
        lease = self._leases.get(place)
        if lease is not None and lease.consumer != consumer and lease.until > now:
            return Taken(lease.consumer)
        if lease is None and len(self._leases) >= self._max_leases:
            return Full(len(self._leases))
        self._leases.pop(place, None)  # it goes to the end of the order
        self._leases[place] = Lease(consumer, now + self._duration_s)
        self._places.setdefault(place.topic, set()).add(place)
        return Granted(now + self._duration_s)

    def _forget_over(self, now: float) -> None:
        over = takewhile(lambda place: self._leases[place].until <= now, self._leases)
        for place in tuple(islice(over, FORGOTTEN_AT_ONCE)):
            del self._leases[place]
            of_topic = self._places[place.topic]
            of_topic.remove(place)
            if not of_topic:
                del self._places[place.topic]
