"""The coordinator of groups: what members and others ask of the groups of this node, and the positions they keep.

Nothing is told before it is kept: an assignment, a position, a deletion count when they are synced.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from headrace.broker.groups.events import (
    Beaten,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Left,
    Sync,
    Synced,
    Tell,
)
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.hosting import TOPIC, Hosting, call
from headrace.broker.groups.lag import LagWatch
from headrace.broker.groups.positions import Commit, Place, Tally
from headrace.broker.groups.retention import MINUTE_MS, expired
from headrace.broker.groups.settings import MAX_POSITIONS, MAX_TEXT_BYTES, GroupSettings
from headrace.errors import (
    CommitTooLarge,
    HeadraceError,
    InvalidSessionTimeout,
    LimitReached,
    MessageTooLarge,
    NotCoordinator,
)
from headrace.log.config import Done
from headrace.records.codec import Producer

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

NO_SEQUENCE = -1
MAX_BASE = 1_000  # characters of a client's name at the beginning of a member's id, which has a bound of its own
EXPIRED_AT_ONCE = 500  # groups whose positions are looked at in one turn


class Groups(Hosting):
    def __init__(self, broker: Broker, settings: GroupSettings) -> None:
        super().__init__(broker, settings)
        self.lag = LagWatch(broker, self)
        self.our_name: Callable[[str], str] = str  # of a topic that a member names; a door may know other names
        self._order = count(1 << 62)  # after all that a replay counts
        self._in_flight: dict[int, Flight] = {}  # commits that are being kept
        self._flying = 0  # positions of them
        self._retention_at = broker.clock.monotonic()
        self.committed = self.expired = 0  # positions, since the start

    # Time

    def maintain(self) -> None:
        """What comes due with time; the driver calls it every few seconds."""
        self.lag.look()
        self._bury_again()
        now = self._broker.clock.monotonic()
        if now - self._retention_at >= self.settings.retention_check_ms / 1000:
            self._retention_at = now
            self._expire(list(self.hosted.values()))

    def catch_up(self) -> None:
        """For a driver that moves the clock: timers may not have seen it."""
        for hosted in list(self.hosted.values()):
            self._wake(hosted)

    def _expire(self, hosted: list[Hosted]) -> None:
        """Some at a time: others have their turn in between."""
        now_ms, retention_ms = self._broker.clock.now_ms(), self.settings.retention_minutes * MINUTE_MS
        for one in hosted[:EXPIRED_AT_ONCE]:
            over = expired(one, self.subscribed(one), now_ms, retention_ms)
            if over:
                self.expired += len(over)
                self._broker.on_event("group.expired", {"group": one.group.id, "positions": len(over)})
                self.forget_positions(one, over, partial(self._delete_idle, one))
            else:
                self._delete_idle(one, None)
        if hosted[EXPIRED_AT_ONCE:]:
            self._broker.timers.after(0, partial(self._expire, hosted[EXPIRED_AT_ONCE:]))

    def _delete_idle(self, hosted: Hosted, error: HeadraceError | None) -> None:
        if error is None and hosted.is_idle and self.hosted.get(hosted.group.id) is hosted:
            self.delete(hosted, lambda error: None)

    def subscribed(self, hosted: Hosted) -> set[str] | None:
        """The topics that its members read, as we call them; None: not known."""
        topics = hosted.group.subscribed_topics()
        return None if topics is None else set(map(self.our_name, topics))

    def partition_for(self, group_id: str) -> int:
        """Of the topic that keeps them: where that group is."""
        return self.state.partition_for(group_id)

    # Members

    def join(self, group_id: str, event: Join) -> None:
        """`who` of the event is called with a Joined."""
        low, high = self.settings.min_session_ms, self.settings.max_session_ms
        try:
            if not low <= event.session_ms <= high:
                raise InvalidSessionTimeout(f"a session timeout is {low} to {high} ms, not {event.session_ms}")
            hosted = self._find(group_id, create=not event.member_id)
        except HeadraceError as error:
            call(event.who, Joined(error, event.member_id))
        else:
            self._step(hosted, event._replace(room=self.room_bytes))

    def new_member_id(self, base: str) -> str:
        return f"{base[:MAX_BASE]}-{uuid.UUID(bytes=self._broker.new_id())}"

    def sync(self, group_id: str, event: Sync) -> None:
        """`who` of the event is called with a Synced."""
        try:
            hosted = self._find(group_id)
        except HeadraceError as error:
            call(event.who, Synced(error))
        else:
            self._step(hosted, event._replace(room=self.room_bytes))

    def heartbeat(
        self, group_id: str, member_id: str, generation: int, instance_id: str | None
    ) -> HeadraceError | None:
        """The one that comes all the time: answered at once, and no timer is touched."""
        try:
            hosted = self._find(group_id)
        except HeadraceError as error:
            return error
        now = self._broker.clock.monotonic()
        (tell,) = hosted.group.step(now, Heartbeat(None, member_id, generation, instance_id))
        assert isinstance(tell, Tell) and isinstance(tell.answer, Beaten)
        return tell.answer.error

    def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[HeadraceError | None]:
        """In the order of those who leave. Raises why none of them can."""
        hosted, errors = self._find(group_id), list[HeadraceError | None]()

        def left(answer: Left) -> None:
            errors.extend(answer.errors)

        self._step(hosted, Leave(left, leavers))
        return errors

    # Positions

    def commit(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        commits: list[Commit],
        done: Done,
    ) -> None:
        try:
            hosted = self._find_for_commit(group_id, generation)
            now = self._broker.clock.monotonic()
            if error := hosted.group.check_commit(now, member_id, instance_id, generation):
                raise error
            if self.tally.count + self._flying + len(commits) > MAX_POSITIONS or self.tally.text_bytes > MAX_TEXT_BYTES:
                self._check_positions(hosted, commits)
        except HeadraceError as error:
            done(error)
            return
        if not commits:  # nothing of what was asked for can be
            self._dismiss_vacant(hosted)
            done(None)
            return
        order, flight = self._fly(hosted, commits)

        def kept(error: HeadraceError | None) -> None:
            self._land(order)
            if error is None:
                positions = (self.hosted.get(group_id) or self._host(hosted)).positions  # let go meanwhile?
                for topic, partition, position in flight.still_meant():
                    positions.put(topic, partition, position, order)
                self.committed += len(commits)
            else:
                self._dismiss_vacant(hosted)
            done(_too_large(error))

        self._append(hosted, hosted.entries(commits), kept)

    def _check_positions(self, hosted: Hosted, commits: list[Commit], are_new: bool = False) -> None:
        """What is there already may always move."""
        new = sum(are_new or hosted.positions.get(topic, index) is None for topic, index, _ in commits)
        if new and self.tally.count + self._flying + new > MAX_POSITIONS:
            raise LimitReached(f"this node keeps at most {MAX_POSITIONS} positions (max_positions)")
        if self.tally.text_bytes > MAX_TEXT_BYTES and any(position.metadata for _, _, position in commits):
            raise LimitReached(f"{MAX_TEXT_BYTES} bytes of texts stand beside positions (max_text_bytes)")

    def _fly(self, hosted: Hosted, commits: list[Commit]) -> tuple[int, Flight]:
        order = next(self._order)
        flight = self._in_flight[order] = Flight(hosted, commits)
        self._flying += len(commits)
        return order, flight

    def _land(self, order: int) -> None:
        self._flying -= len(self._in_flight.pop(order).commits)

    def find(self, group_id: str) -> Hosted | None:
        """Raises while it is not known whether there is one."""
        self._check_ready(group_id)
        return self.hosted.get(group_id)

    def all(self) -> list[Hosted]:
        """Raises while some are being read back."""
        if self._unready:
            raise next(iter(self._unready.values()))
        return list(self.hosted.values())

    def forget_positions(self, hosted: Hosted, places: Sequence[Place], done: Done) -> None:
        def kept(error: HeadraceError | None) -> None:
            if error is None:
                for topic, partition in places:
                    hosted.positions.remove(topic, partition)
            done(error)

        known = [place for place in places if hosted.positions.get(*place) is not None]
        if known:
            self._append(hosted, [hosted.entry(*place, None) for place in known], kept)
        else:
            done(None)

    # Transactions

    def pend_offsets(
        self,
        group_id: str,
        producer_id: int,
        producer_epoch: int,
        commits: list[Commit],
        done: Done,
        member_id: str = "",
        instance_id: str | None = None,
        generation: int = -1,
    ) -> None:
        """Positions that count when the producer's transaction is committed."""
        try:
            hosted = self._find_for_commit(group_id, generation)
            now = self._broker.clock.monotonic()
            if error := hosted.group.check_commit(now, member_id, instance_id, generation, in_transaction=True):
                raise error
            self._check_positions(hosted, commits, are_new=True)
        except HeadraceError as error:
            done(error)
            return
        if not commits:  # nothing of what was asked for can be
            self._dismiss_vacant(hosted)
            done(None)
            return
        order, flight = self._fly(hosted, commits)

        def kept(error: HeadraceError | None) -> None:
            self._land(order)
            if error is None:
                self._host(hosted).positions.pend(producer_id, flight.still_meant(), order)
                self._transactions.setdefault((hosted.partition, producer_id), set()).add(group_id)
            else:
                self._dismiss_vacant(hosted)
            done(_too_large(error))

        self._append(hosted, hosted.entries(commits), kept, Producer(producer_id, producer_epoch, NO_SEQUENCE))

    def topic_deleted(self, name: str) -> None:
        """Its positions go too; and with the topic that holds them all, everything."""
        if name == TOPIC:
            gone = NotCoordinator(f"{TOPIC} was deleted")
            for hosted in list(self.hosted.values()):
                self._drop(hosted)
                self._carry_out(hosted, hosted.group.let_go(gone))
            self._unready, self._transactions, self.tally = {}, {}, Tally()
            return
        if self._unready:
            self._deleted.add(name)
        graves = [(hosted, hosted.positions.places(name)) for hosted in self.hosted.values()]
        # The tombstones of commits on their way lie behind these, and before whatever is committed next.
        graves += [(flight.hosted, flight.bury(name)) for flight in self._in_flight.values()]
        self._burials.begin(graves)

    async def buried(self) -> None:
        """Positions of topics that were deleted until now are gone for good, also those that are being read back."""
        if self._deleted:
            await self._read_back()
        await self._burials.over()

    def _bury_again(self) -> None:
        """What could not be written; not what a topic that was made since has a position for."""
        for old, places in self._burials.take_failed():
            hosted = self.hosted.get(old.group.id, old)
            busy = {place for flight in self._in_flight.values() for place in flight.places if flight.is_of(hosted)}
            later = [place for place in places if place in busy or hosted.positions.is_pending(*place)]
            if later:
                self._burials.keep_failed((hosted, later))
            now = [place for place in places if place not in later and hosted.positions.get(*place) is None]
            self._burials.begin([(hosted, now)])


class Flight:
    """Positions that are on their way into the log."""

    __slots__ = ("commits", "gone", "hosted")

    def __init__(self, hosted: Hosted, commits: list[Commit]) -> None:
        self.hosted, self.commits = hosted, commits
        self.gone: set[str] | None = None  # topics that were deleted meanwhile

    @property
    def places(self) -> list[Place]:
        return [(topic, partition) for topic, partition, _ in self.commits]

    def is_of(self, hosted: Hosted) -> bool:
        return self.hosted.group.id == hosted.group.id

    def bury(self, name: str) -> list[Place]:
        places = [place for place in self.places if place[0] == name]
        if places:
            self.gone = (self.gone or set()) | {name}
        return places

    def still_meant(self) -> list[Commit]:
        if self.gone is None:
            return self.commits
        return [commit for commit in self.commits if commit[0] not in self.gone]


def _too_large(error: HeadraceError | None) -> HeadraceError | None:
    return CommitTooLarge(str(error)) if isinstance(error, MessageTooLarge) else error
