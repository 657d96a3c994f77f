"""Subscriptions: one subscriber to one topic, or to every topic that its patterns match.

Both belong to names, not to topics: one that is not there yet, or that is deleted and made again, is followed from its
first record on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.broker.subscriptions.place import Place, Subscriber
from headrace.broker.topic import Topic

if TYPE_CHECKING:
    from headrace.broker.subscriptions.audience import Audience
    from headrace.broker.subscriptions.subscriptions import Subscriptions


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
        self.is_resumed = False  # while it is being delivered to

    def __len__(self) -> int:
        """Different patterns."""
        return len(self._counts)

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
        count = self._counts.pop(pattern, 0)
        if count > 1:
            self._counts[pattern] = count - 1
        elif count == 1:
            self._subscriptions.pattern_removed(self, pattern)

    def resume(self) -> None:
        """The subscriber has room again."""
        self.is_resumed = True
        for place in tuple(self.away.values()):
            place.resume()

    def close(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            counts, self._counts = self._counts, {}
            for pattern in counts:
                self._subscriptions.pattern_removed(self, pattern)
            for audience in tuple(self.away):
                audience.forget(self)
