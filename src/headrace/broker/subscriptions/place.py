"""A place: how far one subscriber is in one partition.

It is in one of these states:
- waiting: for its log to be opened, to learn where it begins,
- live: at the feed's position, and gets each run as it comes,
- full: the subscriber has no room; it says when it has again,
- behind: it reads the log by itself until it has caught up with the feed, one run in a turn,
- ahead: it begins behind what the feed, which waits for the disk, has yet to read.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Protocol

from headrace.broker.subscriptions.cursor import Cursor
from headrace.broker.subscriptions.run import Run
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.broker.subscriptions.feed import Feed


class Subscriber(Protocol):
    """Who gets runs. All calls come on the loop; none before `subscribe` has returned."""

    def deliver(self, run: Run) -> bool:
        """Takes the run. False: that was the last it has room for now; `resume` when it has again."""
        ...

    def lost(self, topic: str, count: int) -> None:
        """So many records were gone before they could be delivered."""
        ...


class State(Enum):
    WAITING = "waiting"
    LIVE = "live"
    FULL = "full"
    BEHIND = "behind"
    AHEAD = "ahead"
    CLOSED = "closed"


class Place:
    __slots__ = ("_cursor", "_is_delivering", "_is_resumed", "feed", "start", "state", "subscriber")

    def __init__(self, feed: Feed, subscriber: Subscriber, start: int | None) -> None:
        """`start`: None for what is appended from now on."""
        self.feed, self.subscriber, self.start = feed, subscriber, start
        self.state = State.WAITING
        self._cursor: Cursor | None = None
        self._is_delivering = self._is_resumed = False

    def __repr__(self) -> str:
        return f"<place {self.state.value} in {self.feed.partition!r}>"

    def resume(self) -> None:
        """The subscriber has room again."""
        if self._is_delivering:
            self._is_resumed = True
        elif self.state is State.FULL:
            self.state = State.BEHIND
            self.next()

    @property
    def is_resumable(self) -> bool:
        return self._is_delivering or self.state is State.FULL

    def close(self) -> None:
        if self.state is not State.CLOSED:
            self.end()
            self.feed.leave(self)

    def end(self) -> None:
        """Nothing comes any more."""
        self.state = State.CLOSED
        if self._cursor is not None:
            self._cursor.is_closed = True

    # For the feed

    @property
    def position(self) -> int:
        """Of one that is not live."""
        assert self._cursor is not None
        return self._cursor.position

    def stand_at(self, position: int, state: State) -> None:
        """It is not live, but there."""
        self.state = state
        if self._cursor is None:
            self._cursor = Cursor(self.feed.broker, self.feed.partition, position, self._came, self._lost)
        self._cursor.position = position

    def begin_at(self, position: int) -> None:
        """It reads by itself from there."""
        self.stand_at(position, State.BEHIND)
        self._next_turn()

    def go_live(self) -> bool:
        """It has caught up. False: others get the runs for it, and it is no longer needed."""
        self.state = State.LIVE
        return True

    def deliver(self, run: Run) -> None:
        """To one that is live, or behind and just read it."""
        self._is_delivering, self._is_resumed = True, False
        has_room = self.subscriber.deliver(run) or self._is_resumed
        self._is_delivering = False
        if has_room or self.state is State.CLOSED:
            return
        if self.state is State.LIVE:
            self.feed.left_live(self)
            self.stand_at(run.next_offset, State.FULL)
        self.state = State.FULL

    # Reading by itself

    def _next_turn(self) -> None:
        self.feed.broker.timers.after(0, self.next)

    def next(self) -> None:
        """One run; the next in another turn, so that nobody waits for a subscriber that is far behind."""
        cursor, feed = self._cursor, self.feed
        if self.state is not State.BEHIND or cursor is None or cursor.is_waiting:
            return
        log = feed.partition.log
        if log is None:
            feed.partition.when_opened(self._opened_anew)
            return
        end = feed.end(log)
        if cursor.position >= end:
            feed.caught_up(self, min(cursor.position, log.written_offset))
            return
        run = cursor.next_run(log, end)
        if run is not None:
            self._came(run)
        elif not cursor.is_waiting:
            self._next_turn()

    def _came(self, run: Run | None) -> None:
        if run is not None:
            self.deliver(run)
        if self.state is State.BEHIND:
            self._next_turn()

    def _opened_anew(self, error: HeadraceError | None) -> None:
        if error is None:
            self.next()
        elif self.state is State.BEHIND and self.feed.partition.error is None:
            self.feed.retry(self.next)

    def _lost(self, count: int) -> None:
        self.subscriber.lost(self.feed.partition.topic.name, count)
