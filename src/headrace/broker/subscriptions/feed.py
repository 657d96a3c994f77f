"""A feed: what is new in one partition, read once for all who are at its end.

It is woken by each flush, reads from its own position to what is committed, and gives the same run to all that are
live, before whoever published is told. A subscriber that has no room leaves the live ones and goes on by itself
(place.py). So nobody waits for anybody, and a publisher for none of them.

- A log is not opened for somebody who wants only what comes: before anything can come, somebody opens it.
- A door that had the records in its subscribers' form when it appended them says so with `prepared`: then nothing is
  decoded to encode it again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headrace.broker.partition import Partition
from headrace.broker.subscriptions.cursor import RETRY_S, Cursor
from headrace.broker.subscriptions.place import Place, State, Subscriber
from headrace.broker.subscriptions.run import Run
from headrace.errors import HeadraceError
from headrace.log.log import AnyLog

if TYPE_CHECKING:
    from headrace.broker.broker import Broker
    from headrace.broker.subscriptions.audience import Audience
    from headrace.broker.subscriptions.subscriptions import Subscriptions

RUNS_IN_A_TURN = 16  # 4 MiB; there is more only when a long transaction was committed, or the disk was waited for
PREPARED_BYTES = 64 << 20  # of one run that need not be decoded: all that a turn brought

Prepared = tuple[int, int, str, bytes]  # first offset, next offset, form, the records in that form


class Feed:
    __slots__ = (
        "_ahead",
        "_cursor",
        "_is_closed",
        "_is_due",
        "_live",
        "_places",
        "_prepared",
        "_subscriptions",
        "_waiting",
        "audience",
        "broker",
        "partition",
    )

    def __init__(self, broker: Broker, partition: Partition, subscriptions: Subscriptions) -> None:
        self.broker, self.partition, self._subscriptions = broker, partition, subscriptions
        self._places: dict[Place, None] = {}
        self._live: dict[Place, None] = {}
        self._waiting: list[Place] = []  # for the log to be opened
        self._ahead: list[Place] = []
        self._cursor: Cursor | None = None  # of those that are live
        self._prepared: list[Prepared] = []
        self._is_due = self._is_closed = False
        self.audience: Audience | None = None
        partition.watch(self)

    def __repr__(self) -> str:
        return f"<feed of {self.partition!r}, {len(self._places)} places>"

    def add(self, subscriber: Subscriber, start: int | None) -> Place:
        place = Place(self, subscriber, start)
        self.seat(place)
        log = self.partition.log
        if log is not None:
            self._begin(place, log)
        else:
            self._waiting.append(place)
            if start is not None:
                self.partition.when_opened(self._opened)
        return place

    def add_first(self, subscriber: Subscriber) -> Place:
        """As `add`, but what is staged is for it: somebody is about to write that."""
        log = self.partition.log
        assert log is not None
        place = Place(self, subscriber, None)
        self.seat(place)
        self._join(place, log.stable_offset)
        return place

    def seat(self, place: Place) -> None:
        """It is one of this feed's, wherever it stands."""
        self._places[place] = None

    def prepared(self, first_offset: int, next_offset: int, form: str, encoded: bytes) -> None:
        """What was just staged is this in that form. To be forgotten after the flush: another batch may get these
        offsets when this one is refused."""
        self._prepared.append((first_offset, next_offset, form, encoded))

    def forget_prepared(self) -> None:
        self._prepared.clear()

    # The log opens

    def _opened(self, error: HeadraceError | None) -> None:
        log = self.partition.log
        if log is not None:
            waiting, self._waiting = self._waiting, []
            for place in waiting:
                self._begin(place, log)
        elif self.partition.error is None and self._waiting:
            self.retry(lambda: self.partition.when_opened(self._opened))

    def retry(self, call: Callable[[], None]) -> None:
        """The log does not open: later it may."""
        self.broker.timers.after(RETRY_S, call)

    def _begin(self, place: Place, log: AnyLog) -> None:
        if log.has_staged:  # it was published before
            self.broker.flush()
        if place.start is None:
            self._join(place, log.stable_offset)
        else:
            place.begin_at(min(max(place.start, log.start_offset), log.stable_offset))

    def _begin_waiting(self, log: AnyLog) -> None:
        """Something was appended. Who came before the log was opened gets all that came since."""
        waiting, self._waiting = self._waiting, []
        for place in waiting:
            if place.start is None:
                self._join(place, min(log.opened_at, log.stable_offset))
            else:
                place.begin_at(min(max(place.start, log.start_offset), log.stable_offset))

    def _join(self, place: Place, position: int) -> None:
        """It is live from that position on, or as soon as the feed is there."""
        cursor = self._cursor
        if cursor is not None and self._live:
            if cursor.position != position:
                self._subscriptions.lagging.add(self)
            if cursor.position < position:
                place.stand_at(position, State.AHEAD)
                self._ahead.append(place)
                return
            if cursor.position > position:
                place.begin_at(position)
                return
        else:
            if cursor is not None:
                cursor.is_closed = True
            self._cursor = Cursor(self.broker, self.partition, position, self._came, self._lost)
        if place.go_live():
            self._live[place] = None

    # For places

    def end(self, log: AnyLog) -> int:
        """How far a place reads by itself: then it joins the others."""
        cursor = self._cursor
        return log.stable_offset if cursor is None or not self._live else cursor.position

    def caught_up(self, place: Place, position: int) -> None:
        self._join(place, position)
        self._advance()

    def left_live(self, place: Place) -> None:
        del self._live[place]
        if not self._live:
            ahead, self._ahead = self._ahead, []
            for other in ahead:  # nobody is left to wait for
                self._subscriptions.lagging.add(self)
                other.begin_at(other.position)

    def leave(self, place: Place) -> None:
        self._places.pop(place, None)
        for places in (self._waiting, self._ahead):
            if place in places:
                places.remove(place)
        if place in self._live:
            self.left_live(place)
        if not self._places:
            self.close()

    def close(self) -> None:
        """Nobody is left, or the partition is gone."""
        if self._is_closed:
            return
        self._is_closed = True
        self.partition.unwatch(self)
        if self._cursor is not None:
            self._cursor.is_closed = True
        places, self._places = self._places, {}
        self._live, self._waiting, self._ahead, self._prepared = {}, [], [], []
        for place in places:
            place.end()
        self._subscriptions.feed_closed(self)

    # Delivery

    def wake(self, partition: Partition) -> None:
        log = partition.log
        if log is not None:
            if self._waiting:
                self._begin_waiting(log)
            if self._live:
                self._advance()

    def _advance(self) -> None:
        for _ in range(RUNS_IN_A_TURN):
            log, cursor = self.partition.log, self._cursor
            if log is None or cursor is None or not self._live:
                return
            if cursor.is_waiting:
                self._subscriptions.lagging.add(self)
                return
            if cursor.position > log.written_offset:  # a recovery has cut the end off
                cursor.position = min(log.opened_at, log.written_offset)
            run = self._prepared_run(cursor, log) if self._prepared else None
            run = run or cursor.next_run(log, self._end(log))
            if run is not None:
                self._deliver(run)
            elif not cursor.is_waiting:
                if self.audience is None or self.audience.place.state is State.LIVE:
                    self._subscriptions.lagging.discard(self)
                return
        self._subscriptions.lagging.add(self)
        if not self._is_due:
            self._is_due = True
            self.broker.timers.after(0, self._go_on)

    def _end(self, log: AnyLog) -> int:
        """Of the next run: whoever is ahead joins at its own position."""
        return min(log.stable_offset, *(place.position for place in self._ahead)) if self._ahead else log.stable_offset

    def _go_on(self) -> None:
        self._is_due = False
        self._advance()

    def _came(self, run: Run | None) -> None:
        """From the disk; None: the log was closed meanwhile, or part of it is lost."""
        if run is not None:
            self._deliver(run)
        elif self.partition.log is None and self.partition.error is None:
            self.partition.when_opened(self._opened_anew)
            return
        self._advance()

    def _opened_anew(self, error: HeadraceError | None) -> None:
        if error is None:
            self._advance()
        elif self._live and self.partition.error is None:
            self.retry(lambda: self._came(None))

    def _deliver(self, run: Run) -> None:
        for place in tuple(self._live):
            if place.state is State.LIVE:
                place.deliver(run)
        if self._ahead:
            met = [place for place in self._ahead if place.position <= run.next_offset]
            self._ahead = [place for place in self._ahead if place.position > run.next_offset]
            for place in met:  # who stands within the run reads its part of it by itself
                self._join(place, place.position)

    def _prepared_run(self, cursor: Cursor, log: AnyLog) -> Run | None:
        """The run of all that was prepared, if that is what comes next."""
        prepared, self._prepared = self._prepared, []
        at, form, pieces = cursor.position, prepared[0][2], []
        for first, after, own_form, encoded in prepared:
            if first != at or own_form != form:
                return None
            at = after
            pieces.append(encoded)
        if self._ahead or log.stable_offset < at:
            return None
        run = cursor.next_run(log, at, PREPARED_BYTES)
        if run is not None and run.next_offset == at:
            run.give(form, pieces[0] if len(pieces) == 1 else b"".join(pieces))
        return run

    def _lost(self, count: int) -> None:
        name = self.partition.topic.name
        for place in tuple(self._live):
            place.subscriber.lost(name, count)
