"""The audience of a feed: all whose patterns match the topic's name, as one subscriber.

So a topic costs one place, not one for each pattern or connection. Who has no room gets a place of its own, as any
other subscriber, and comes back when it has caught up: a member of the audience is either in it or has a place.
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

    __slots__ = ("_index", "_members", "_version", "away", "feed", "name", "place")

    def __init__(self, feed: Feed, index: PatternIndex[PatternSubscription]) -> None:
        self.feed, self._index = feed, index
        self.name = feed.partition.topic.name
        self.away: dict[PatternSubscription, Place] = {}  # those with places of their own
        self._members: Collection[PatternSubscription] = ()
        self._version = -1
        self.place = feed.add(self, None)
        feed.audience = self

    @property
    def members(self) -> Collection[PatternSubscription]:
        index = self._index
        if self._version != index.version:
            self._members, self._version = index.owners(self.name), index.version
        return self._members

    def deliver(self, run: Run) -> bool:
        away = self.away
        for member in tuple(self.members):
            if member in away or member.is_closed:
                continue
            member.is_resumed = False
            if not member.subscriber.deliver(run) and not member.is_resumed and not member.is_closed:
                self._send_away(member, run.next_offset, State.FULL)
        return True

    def lost(self, topic: str, count: int) -> None:
        for member in tuple(self.members):
            if member not in self.away:
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

    def go_live(self) -> bool:
        """Back into the audience, if that is where it is itself; else it stays by itself."""
        if self._audience.place.state is not State.LIVE:
            return super().go_live()
        self._audience.forget(self._member)
        return False
