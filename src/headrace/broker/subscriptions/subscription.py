"""Subscriptions: one subscriber to one topic, or to every topic that its patterns match.

Both belong to names, not to topics: one that is not there yet, or that is deleted and made again, is followed from its
first record on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from headrace.broker.subscriptions.place import Place, Subscriber
from headrace.broker.topic import Topic

if TYPE_CHECKING:
    from headrace.broker.subscriptions.audience import Audience
    from headrace.broker.subscriptions.subscriptions import Subscriptions

LEFT_IN_A_TURN = 200  # patterns of who closes, and places: about a millisecond
RESUMED_IN_A_TURN = 50  # places, each of which reads a run
TRIES = 64  # of patterns, which cost what it takes to add one


class Subscription:
    def __init__(
        self, subscriptions: Subscriptions, name: str, subscriber: Subscriber, partitions: Sequence[int] | None
    ) -> None:
        self._subscriptions, self.name, self.subscriber = subscriptions, name, subscriber
        self._partitions = partitions
        self._places: dict[int, Place] = {}
        self.is_closed = False

    def follow(self, topic: Topic, start: int | None = None) -> None:
        """All partitions that it wants and has no place in yet."""
        for partition in topic.partitions:
            index = partition.index
            if index not in self._places and (self._partitions is None or index in self._partitions):
                self._places[index] = self._subscriptions.feed(partition).add(self.subscriber, start)

    def topic_removed(self) -> None:
        """The feeds are closed already."""
        self._places.clear()

    def resume(self) -> None:
        """The subscriber has room again."""
        for place in tuple(self._places.values()):
            place.resume()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._subscriptions.closed(self)
            for place in self._places.values():
                place.close()
            self._places.clear()


class PatternSubscription:
    """Each record comes once, however many patterns match. Patterns are counted: two times added, two times removed."""

    def __init__(self, subscriptions: Subscriptions, subscriber: Subscriber) -> None:
        self._subscriptions, self.subscriber = subscriptions, subscriber
        self._counts: dict[str, int] = {}
        self.away: dict[Audience, Place] = {}  # where it has a place of its own, because it had no room
        self.is_closed = False
        self.is_full = False  # the subscriber has no room, wherever it found that
        self.is_resumed = False  # while it is being delivered to
        self._is_resuming = False

    def __len__(self) -> int:
        """Different patterns."""
        return len(self._counts)

    @property
    def cost(self) -> int:
        """Of adding or removing a pattern now, for who bounds what it does in a turn: 1 is the least."""
        return 1 + (len(self.away) + len(self._subscriptions.lagging)) // TRIES

    def __contains__(self, pattern: str) -> bool:
        return pattern in self._counts

    def add(self, pattern: str) -> None:
        if self.is_closed:
            return
        count = self._counts[pattern] = self._counts.get(pattern, 0) + 1
        if count == 1:
            self._subscriptions.pattern_added(self, pattern)

    def remove(self, pattern: str) -> None:
        """One that was never added is no error."""
        if self.is_closed:
            return
        count = self._counts.pop(pattern, 0)
        if count > 1:
            self._counts[pattern] = count - 1
        elif count == 1:
            self._subscriptions.pattern_removed(self, pattern)

    def resume(self) -> None:
        """The subscriber has room again."""
        self.is_resumed, self.is_full = True, False
        self._resume_some()

    def _resume_some(self) -> None:
        """Until there is no room again; then others are first the next time. More than some go on in another turn."""
        self._is_resuming = False
        waiting = [audience for audience, place in self.away.items() if place.is_resumable]
        for audience in waiting[:RESUMED_IN_A_TURN]:
            place = self.away.pop(audience, None)
            if place is not None:
                self.away[audience] = place
                place.resume()
            if self.is_full or self.is_closed:
                return
        if len(waiting) > RESUMED_IN_A_TURN and not self._is_resuming:
            self._is_resuming = True
            self._subscriptions.later(self._resume_some)

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            self._take_leave()

    def _take_leave(self) -> None:
        """Nothing is delivered to it already; its patterns and places go some in a turn."""
        for pattern in list(islice(self._counts, LEFT_IN_A_TURN)):
            del self._counts[pattern]
            self._subscriptions.pattern_removed(self, pattern)
        for audience in list(islice(self.away, LEFT_IN_A_TURN)):
            audience.forget(self)
        if self._counts or self.away:
            self._subscriptions.later(self._take_leave)
