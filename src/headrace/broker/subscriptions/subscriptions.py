"""All subscriptions of a broker: finds the topics of a subscription, and the subscriptions of a topic.

There is a feed for each partition that somebody wants, and an audience for each partition of a topic whose name
matches a pattern. Topics tell of their coming, growing and going.

No topic is looked at when a pattern comes or goes, however many it matches. Before a partition is written to, it is
asked who wants it (`expect`): then the audience takes its place, or leaves. That is as if it had come with the pattern:
what was published before a pattern is written first, and between the two nothing was.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.subscriptions.audience import Audience
from headrace.broker.subscriptions.feed import Feed
from headrace.broker.subscriptions.index import PatternIndex
from headrace.broker.subscriptions.pattern import LONG, Pattern
from headrace.broker.subscriptions.place import Subscriber
from headrace.broker.subscriptions.search import Search
from headrace.broker.subscriptions.subscription import PatternSubscription, Subscription
from headrace.broker.topic import Topic
from headrace.broker.turns import Failed
from headrace.log.config import Staged

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

DISMISSED_IN_A_TURN = 100  # audiences that are left over when the last pattern is gone: below a millisecond


class Subscriptions:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._names: dict[str, dict[Subscription, None]] = {}
        self._feeds: dict[Partition, Feed] = {}
        self._audiences: dict[Partition, Audience] = {}
        self._index: PatternIndex[PatternSubscription] = PatternIndex()
        self._prepared: list[Feed] = []
        self._is_tidying = False
        self.is_gathering = False  # there are patterns, or audiences: before a write, `expect` has to be told
        self.lagging: set[Feed] = set()  # they wait for the disk, or have more than goes into a turn

    # Subscribing

    def subscribe(
        self,
        topic: str,
        subscriber: Subscriber,
        *,
        partitions: Sequence[int] | None = None,
        start: int | None = None,
    ) -> Subscription:
        """What is appended from now on; with `start` first what lies from there on: in order, no gap, nothing twice.
        `partitions`: only those. The topic need not be there yet."""
        subscription = Subscription(self, topic, subscriber, partitions)
        self._names.setdefault(topic, {})[subscription] = None
        found = self._broker.topic(topic)
        if found is not None:
            subscription.follow(found, start)
        return subscription

    def patterns(self, subscriber: Subscriber) -> PatternSubscription:
        """To all topics whose names match what is added to it."""
        return PatternSubscription(self, subscriber)

    def matching(self, name: str) -> Collection[PatternSubscription]:
        """For what no topic holds."""
        return [owner for owner in self._index.owners(name) if not owner.is_closed]

    def search(self, name: str) -> Search[PatternSubscription] | None:
        """For what no topic holds, if its name is so long that it takes more than a turn. Some may have closed."""
        return self._index.search(name) if len(name) > LONG else None

    def is_wanted(self, name: str) -> bool:
        """Somebody would get what is published there."""
        return name in self._names or bool(self.matching(name))

    # Publishing

    def expect(self, partition: Partition) -> None:
        """It is about to be written to. Whoever's patterns match its name gets that."""
        topic = partition.topic
        if topic.is_state:
            return
        audience = self._audiences.get(partition)
        if self._index.owners(topic.name):
            if audience is None:
                self._audiences[partition] = Audience(self.feed(partition), self._index)
        elif audience is not None:
            self._dismiss(audience)

    def prepared(self, partition: Partition, staged: Staged, form: str, encoded: bytes) -> None:
        """What was just staged is this in a door's form. Ends with `flush`."""
        if self.is_gathering:
            self.expect(partition)
        feed = self._feeds.get(partition)
        if feed is not None and not staged.duplicate:
            feed.prepared(staged.base_offset, staged.last_offset + 1, form, encoded)
            self._prepared.append(feed)

    def flush(self) -> Failed | None:
        """The broker's; whatever was prepared and could not be written is forgotten."""
        failed = self._broker.flush()
        for feed in self._prepared:
            feed.forget_prepared()
        self._prepared.clear()
        return failed

    # For subscriptions

    def feed(self, partition: Partition) -> Feed:
        feed = self._feeds.get(partition)
        if feed is None:
            feed = self._feeds[partition] = Feed(self._broker, partition, self)
        return feed

    def feed_closed(self, feed: Feed) -> None:
        self._feeds.pop(feed.partition, None)
        self.lagging.discard(feed)

    def closed(self, subscription: Subscription) -> None:
        of_name = self._names[subscription.name]
        del of_name[subscription]
        if not of_name:
            del self._names[subscription.name]

    def later(self, call: Callable[[], None]) -> None:
        """In another turn."""
        self._broker.timers.after(0, call)

    def pattern_added(self, subscription: PatternSubscription, text: str) -> None:
        if self._broker.dirty:  # what was published before it is not for it
            self.flush()
        if self.lagging:
            pattern = Pattern(text)
            for feed in tuple(self.lagging):
                self._begin_late(feed, subscription, pattern)
        self._index.add(text, subscription)
        self.is_gathering = True

    def _begin_late(self, feed: Feed, subscription: PatternSubscription, pattern: Pattern) -> None:
        """What the feed has yet to read was published before."""
        audience, log = self._audiences.get(feed.partition), feed.partition.log
        if audience is None or log is None or not pattern.matches(audience.name):
            return
        if subscription not in audience.members:
            audience.came_late(subscription, log.stable_offset)

    def pattern_removed(self, subscription: PatternSubscription, text: str) -> None:
        if self._broker.dirty:  # what was published before it still is
            self.flush()
        pattern = self._index.remove(text, subscription)
        if pattern is not None and not subscription.is_closed:
            for audience in tuple(subscription.away):
                if pattern.matches(audience.name) and subscription not in audience.members:
                    audience.forget(subscription)
        self._look_for_end()

    def _dismiss(self, audience: Audience) -> None:
        del self._audiences[audience.feed.partition]
        audience.close()
        self._look_for_end()

    def _look_for_end(self) -> None:
        """When there is no pattern any more, neither is an audience wanted."""
        if self._index:
            return
        self.is_gathering = bool(self._audiences)
        if self._audiences and not self._is_tidying:
            self._is_tidying = True
            self.later(self._tidy)

    def _tidy(self) -> None:
        self._is_tidying = False
        if not self._index:
            for audience in list(islice(self._audiences.values(), DISMISSED_IN_A_TURN)):
                self._dismiss(audience)

    # Topics come, grow and go

    def topic_added(self, topic: Topic) -> None:
        """It was made, or has more partitions than before: whoever waits for it gets all of it."""
        for subscription in tuple(self._names.get(topic.name, ())):
            subscription.follow(topic)

    def topic_removed(self, topic: Topic) -> None:
        for partition in topic.partitions:
            audience = self._audiences.get(partition)
            if audience is not None:
                self._dismiss(audience)
            feed = self._feeds.get(partition)
            if feed is not None:
                feed.close()
        for subscription in tuple(self._names.get(topic.name, ())):
            subscription.topic_removed()
