"""What a client gets without asking each time: topics that it subscribed to, and groups that it is in.

One subscription for a topic and one membership for a group, however often the client asks. A plain subscription and a
membership on the same topic both deliver. A group whose clients acknowledge is another kind than one in which a message
counts as done when it is sent; the queue refuses to be both.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.broker import Broker
from headrace.broker.subscriptions.run import Run
from headrace.broker.subscriptions.subscription import Subscription
from headrace.broker.topic import check_readable
from headrace.cluster.controller import check_topic_name
from headrace.doors.lines import shown
from headrace.doors.lines.membership import LinesMember
from headrace.errors import HeadraceError, LimitReached, QueueModeConflict
from headrace.wire.lines import messages
from headrace.wire.lines.commands import Subscribe

if TYPE_CHECKING:
    from headrace.doors.lines.connection import LinesConnection

MAX_SUBSCRIPTIONS = 1000  # of one connection, groups included: each costs a kilobyte


class LinesSubscriber:
    def __init__(self, connection: LinesConnection, broker: Broker) -> None:
        self._connection, self._broker = connection, broker
        self._topics: dict[str, Subscription] = {}
        self._groups: dict[tuple[str, str], LinesMember] = {}

    def subscribe(self, topic: str) -> bytes:
        """The reply."""
        try:
            if topic not in self._topics:
                self._check(topic)
                self._topics[topic] = self._broker.subscriptions.subscribe(topic, self)
        except HeadraceError as error:
            return self._refused(error)
        return messages.subscribed(topic, None, False)

    async def join(self, asked: Subscribe) -> bytes:
        """The reply."""
        assert asked.group is not None
        key = (asked.topic, asked.group)
        try:
            member = self._groups.get(key)
            if member is None:
                self._check(asked.topic)
                member = LinesMember(self._connection, asked)
                await member.join(self._broker)
                self._groups[key] = member
            elif member.acknowledges != asked.acknowledged:
                raise QueueModeConflict(f"this connection is in group {asked.group!r} the other way, SUB or SUBACK")
        except HeadraceError as error:
            return self._refused(error)
        return messages.subscribed(asked.topic, asked.group, asked.acknowledged)

    def acknowledge(self, message_id: str, reply: Callable[[bytes], None]) -> None:
        """The first that was delivered under that id and is not settled."""

        def done(error: HeadraceError | None) -> None:
            reply(messages.acknowledged(message_id) if error is None else self._refused(error))

        if not any(member.acknowledge(message_id, done) for member in self._groups.values() if member.acknowledges):
            self._connection.count_error()
            reply(messages.not_pending(message_id))

    def when_sent(self, topic: str, call: Callable[[], None]) -> None:
        """After what was published to the topic is on its way, to members of groups of which this client is one."""
        for member in self._groups.values():
            if member.topic == topic:
                call = partial(member.when_sent, call)
        call()

    @property
    def is_in_groups(self) -> bool:
        return bool(self._groups)

    def resume(self) -> None:
        """There is room again."""
        for subscription in list(self._topics.values()):
            subscription.resume()
        for member in list(self._groups.values()):
            member.resume()

    def close(self) -> None:
        for subscription in self._topics.values():
            subscription.close()
        for member in self._groups.values():
            member.leave()
        self._topics.clear()
        self._groups.clear()

    # For the broker's subscriptions

    def deliver(self, run: Run) -> bool:
        return self._connection.deliver(run.encoded(shown.FORM, shown.run_lines), len(run.records))

    def lost(self, topic: str, count: int) -> None:
        """Of a memory topic's ring, or by retention: the protocol has no word for it, so it is only counted."""
        self._connection.door.metrics.lost += count

    def _check(self, topic: str) -> None:
        check_topic_name(topic)
        check_readable(topic)
        if len(self._topics) + len(self._groups) >= MAX_SUBSCRIPTIONS:
            raise LimitReached(f"a connection has at most {MAX_SUBSCRIPTIONS} subscriptions")

    def _refused(self, error: HeadraceError) -> bytes:
        self._connection.count_error()
        return messages.failed(error)
