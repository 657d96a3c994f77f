"""The audience of a feed: all whose patterns match the topic's name, as one subscriber.

So a topic costs one place, not one for each pattern or connection. Who they are is asked with each run: patterns come
and go without a word to the topics that they match. Who has no room gets a place of its own, as any other subscriber,
and comes back when it has caught up: a member of the audience is either in it or has a place. No room is no room for
any topic: until it has some again, it gets nothing but what lies in memory alone, which it may lose.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from headrace.broker.subscriptions.place import Place, State
from headrace.broker.subscriptions.run import Run

if TYPE_CHECKING:
    from headrace.broker.subscriptions.feed import Feed
    from headrace.broker.subscriptions.index import PatternIndex
    from headrace.broker.subscriptions.subscription import PatternSubscription


class Audience:
    """The subscriber of the place that all share."""

    __slots__ = ("_index", "away", "feed", "name", "place")

    def __init__(self, feed: Feed, index: PatternIndex[PatternSubscription]) -> None:
        self.feed, self._index = feed, index
        self.name = feed.partition.topic.name
        self.away: dict[PatternSubscription, Place] = {}  # those with places of their own
        self.place = feed.add_first(self)
        feed.audience = self

    @property
    def members(self) -> Collection[PatternSubscription]:
        return self._index.owners(self.name)

    def deliver(self, run: Run) -> bool:
        away, is_memory = self.away, run.topic.config.is_memory
        for member in self.members:
            if member in away or member.is_closed:
                continue
            if member.is_full and not is_memory:
                self._send_away(member, run.first_offset, State.FULL)
                continue
            member.is_resumed = False
            if not member.subscriber.deliver(run) and not member.is_resumed and not member.is_closed:
                member.is_full = True
                self._send_away(member, run.next_offset, State.FULL)
        return True

    def lost(self, topic: str, count: int) -> None:
        for member in self.members:
            if member not in self.away and not member.is_closed:
                member.subscriber.lost(topic, count)

    def came_late(self, member: PatternSubscription, position: int) -> None:
        """Its pattern is new, and the feed has not come to where it begins."""
        if member not in self.away:
            self._send_away(member, position, State.BEHIND).begin_at(position)

    def _send_away(self, member: PatternSubscription, position: int, state: State) -> Place:
        place = _Away(self, member)
        self.feed.seat(place)
        place.stand_at(position, state)
        self.away[member] = member.away[self] = place
        return place

    def forget(self, member: PatternSubscription) -> None:
        place = self.away.pop(member, None)
        member.away.pop(self, None)
        if place is not None:
            place.close()

    def close(self) -> None:
        """Nobody's patterns match any more, or the topic is gone."""
        for member in list(self.away):
            self.forget(member)
        self.feed.audience = None
        self.place.close()


class _Away(Place):
    __slots__ = ("_audience", "_member")

    def __init__(self, audience: Audience, member: PatternSubscription) -> None:
        super().__init__(audience.feed, member.subscriber, None)
        self._audience, self._member = audience, member

    def deliver(self, run: Run) -> None:
        member = self._member
        if member.is_closed:  # and not forgotten yet
            self._audience.forget(member)
        elif member.is_full:  # while this was read
            if self.state is State.LIVE:
                self.feed.left_live(self)
            self.stand_at(run.first_offset, State.FULL)
        else:
            super().deliver(run)
            member.is_full |= self.state is State.FULL

    def next(self) -> None:
        if self._member.is_full and self.state is State.BEHIND:
            self.state = State.FULL
        else:
            super().next()

    def go_live(self) -> bool:
        """Back into the audience, if that is where it is itself; else it stays by itself."""
        if self._audience.place.state is not State.LIVE:
            return super().go_live()
        self._audience.forget(self._member)
        return False
