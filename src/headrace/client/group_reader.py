"""The part of a group's consumer that answers to the group: takes up partitions that are given, gives up those that are
taken away, and commits.

- Work of the group (`Assign`, `Revoke`, `Lose`) is done in order, one at a time, by a task of its own: `take` may be
  cancelled or run out of time in the midst of it. Without callbacks most of it needs no program and is done at once.
- Nothing is given up that the program has in its hands, until it has come back for it, or is given up itself.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple
from uuid import UUID

from headrace.client import backoff, positions
from headrace.client.asking import Asking
from headrace.client.attendance import Attendance
from headrace.client.consumer import Consumer
from headrace.client.group_options import GroupOptions, Partitions, Wanted
from headrace.client.group_positions import GroupPositions, Membership
from headrace.client.group_values import Committed
from headrace.client.member import Member, State
from headrace.client.member_events import Assign, Begin, Lose, Revoke, Revoked
from headrace.client.positions import END, START, Position
from headrace.client.reading import Reading
from headrace.client.refusals import error_of
from headrace.client.values import Record, TopicPartition
from headrace.errors import ClientClosed, ConnectionFailed, HeadraceError, IllegalGeneration, RequestTimedOut
from headrace.wire.kafka.errors import Code

_FENCED: Final = frozenset({int(Code.ILLEGAL_GENERATION), int(Code.UNKNOWN_MEMBER_ID), int(Code.REBALANCE_IN_PROGRESS)})
NOTHING: Final[list[Record]] = []


class Claim(NamedTuple):
    """What was read when positions were taken, so that it can be told whether they are still ours to commit."""

    losses: int
    readings: Mapping[TopicPartition, Reading]


class GroupReader(Consumer):
    def __init__(
        self,
        asking: Asking,
        member_asking: Asking,
        commit_asking: Asking,
        topics: Iterable[Wanted],
        options: GroupOptions,
        *,
        owner: object = None,
    ) -> None:
        wanted = tuple(dict.fromkeys(topics))
        super().__init__(asking, [one for one in wanted if isinstance(one, str)], options, owner=owner)
        self._group_options = options
        self._patterns = tuple(one for one in wanted if isinstance(one, re.Pattern))
        self._positions = GroupPositions(commit_asking, options.group)
        member = Member((), options.assignors, options.heartbeat_s, backoff.wait_s, options.instance)
        self._attendance = Attendance(member_asking, options, member, self)
        self._committed: dict[TopicPartition, tuple[int, UUID | None]] = {}  # offsets, and of which topic
        self._works: deque[Assign | Revoke | Lose] = deque()
        self._working: asyncio.Task[None] | None = None
        self._losses = 0  # how often all was lost
        self._error: BaseException | None = None  # of a callback, to be told once
        self._trouble: HeadraceError | None = None  # with the work that is being done, and tried again
        self._failure: HeadraceError | None = None  # the end of this member
        self._was_assigned = False
        self._tasks: list[asyncio.Task[None]] = []
        self.handed: list[Record] = NOTHING  # and never changed: who hands out by itself counts in it
        self._stale: set[TopicPartition] = set()  # given up or lost since: what was handed of them is not ours
        self.done = 0  # so many of them the program has come back for
        self.is_closing = False
        self._here = 0  # calls that wait for records: the program is here
        self._visits = 0
        self._forfeited = False  # what is in the program's hands was lost

    # Positions

    def standing(self, done: int | None = None) -> dict[TopicPartition, Committed]:
        """Where the program stands: after the first `done` of what was handed out, else after what it came back for."""
        if self._forfeited:
            raise IllegalGeneration(
                f"group {self._group_options.group!r}: it went on without this member, and gave away what was handed"
                " out last; others read it again"
            )
        count = self.done if done is None else done
        return {
            where: Committed(self._handled(where, count), reading.fetch_epoch)
            for where, reading in self._readings.items()
        }

    def claim(self, partitions: Iterable[TopicPartition]) -> Claim:
        """To those of them that are read here."""
        return Claim(self._losses, {one: self._readings[one] for one in partitions if one in self._readings})

    def holds(self, claim: Claim) -> bool:
        """Is all of it read here, without a break?"""
        return all(self._readings.get(where) is reading for where, reading in claim.readings.items())

    @property
    def membership(self) -> Membership:
        """Who this is to the group now."""
        member, options = self._attendance.member, self._group_options
        if member.generation < 0:
            raise IllegalGeneration(
                f"group {options.group!r}: this is not a member of it now; others read again what it has read"
            )
        return Membership(options.group, member.generation, member.id, options.instance)

    @property
    def commits_by_itself(self) -> bool:
        return self._group_options.auto_commit

    def _handled(self, where: TopicPartition, done: int) -> int:
        if where not in self._stale:
            for record in self.handed[done:]:
                if record.topic == where.topic and record.partition == where.partition:
                    return record.offset
        return self.position(*where)

    async def _commit(self, wanted: Mapping[TopicPartition, Committed]) -> None:
        left = {where: at for where, at in wanted.items() if self._committed.get(where) != self._of_topic(where, at)}
        claim, is_all_read = self.claim(left), self._readings.keys() >= left.keys()
        while left:
            await self.settled(claim)
            who = self.membership
            codes = await self._positions.commit(who, left)
            for where, code in codes.items():
                if not code and where in left:
                    self._committed[where] = self._of_topic(where, left.pop(where))
            if not left:
                return
            where, code = next(((where, code) for where, code in codes.items() if where in left), (min(left), -1))
            # A rebalance that leaves us our partitions is no reason to refuse what we read of them.
            await self._attendance.settled()
            is_ours = is_all_read and self.holds(claim)
            if not (code in _FENCED and is_ours and self._attendance.member.generation != who.generation):
                raise error_of(code, f"group {who.group!r}, {where.topic!r} partition {where.partition}")

    def _of_topic(self, where: TopicPartition, at: Committed) -> tuple[int, UUID | None]:
        """A topic that was deleted took its positions along: one that was made again has none, whatever its offset."""
        reading, known = self._readings.get(where), self._asking.metadata.known(where.topic)
        return at.offset, reading.topic_id if reading is not None else None if known is None else known.topic_id

    async def _commit_quietly(self, partitions: Iterable[TopicPartition]) -> None:
        """What the program has come back for; should it fail, it is read again, by us or by others."""
        if not self._group_options.auto_commit or self._forfeited:
            return
        mine = set(partitions)
        try:
            await self._commit({where: at for where, at in self.standing().items() if where in mine})
        except HeadraceError:
            return

    # The group's work

    def hold(self, work: Assign | Revoke | Lose) -> None:
        """Of the machine."""
        if isinstance(work, Lose):
            self._losses += 1
            lost = self.assignment
            self._forfeited |= not self._held().isdisjoint(lost)
            self._drop(lost)
            self._works.clear()
            work = Lose(lost)
        self._works.append(work)
        self._work_on()
        self._arrival.set()

    def fail(self, error: HeadraceError) -> None:
        """Of the machine: this member is over."""
        self._failure = error
        self._arrival.set()

    @property
    def is_wanted(self) -> bool:
        """Has the group work that waits for the program?"""
        return bool(self._works) or self._is_troubled or self._failure is not None

    @property
    def _is_troubled(self) -> bool:
        return self._error is not None or self._trouble is not None

    async def settled(self, claim: Claim) -> None:
        """Waits until it is known whether this is a member, and in which generation. IllegalGeneration: what is claimed
        was lost, and a member that joined anew since has no right to it."""
        await self._attendance.settled()
        if self._failure is not None:
            raise self._failure
        if claim.readings and claim.losses != self._losses:
            raise IllegalGeneration(
                f"group {self._group_options.group!r}: it went on without this member while this waited to commit;"
                " others read it again"
            )

    async def attend(self) -> None:
        """Does what the group wants, while the program is here."""
        self._check_open()
        if self._attendance.member.state is State.OUT and self._is_started and self._failure is None:
            self._attendance.post(Begin())  # it was given up for hung
        while self._works and not self._is_troubled:
            self._work_on()
            if (working := self._working) is not None:
                await asyncio.wait([working])  # it goes on when this is cancelled; closing cancels it, and not this
                if not working.cancelled():
                    working.result()
            self._check_open()
        self._raise_error()

    def _check_open(self) -> None:
        if self.is_closing or self._is_closed:
            raise ClientClosed("the consumer is closed")

    def _work_on(self) -> None:
        if self._working is None and not self.is_closing and self._may_work():
            self._working = asyncio.get_running_loop().create_task(self._work())

    def _may_work(self) -> bool:
        """Can the first work be done, with the program here or without?"""
        if not self._works or self._here:
            return bool(self._works)
        work, options = self._works[0], self._group_options
        if isinstance(work, Assign):
            return options.on_assigned is None
        callback = options.on_revoked if isinstance(work, Revoke) else options.on_lost
        return callback is None and self._held().isdisjoint(work.partitions)

    def _held(self) -> set[TopicPartition]:
        """Of which the program has records in its hands."""
        return {TopicPartition(*record[:2]) for record in self.handed[self.done :]} - self._stale

    async def _work(self) -> None:
        failures = 0
        try:
            while self._may_work():
                work = self._works[0]
                try:
                    await self._do(work)
                    self._trouble = None
                except HeadraceError as error:
                    # Who reads waits for a broker that is away; all else is told, and tried again.
                    self._trouble = None if isinstance(error, ConnectionFailed | RequestTimedOut) else error
                    failures += 1
                    await asyncio.sleep(backoff.wait_s(failures))
                    continue
                if self._works and self._works[0] is work:
                    self._works.popleft()
        finally:
            self._working = None
            self._arrival.set()

    async def _do(self, work: Assign | Revoke | Lose) -> None:
        options = self._group_options
        if isinstance(work, Assign):
            await self._take_up(work.partitions)
        elif isinstance(work, Lose):
            await self._call(options.on_lost, work.partitions)
        else:
            losses = self._losses
            await self._commit_quietly(work.partitions)
            if losses == self._losses:
                await self._call(options.on_revoked, work.partitions)
            if losses == self._losses:
                self._drop(work.partitions)
                self._attendance.post(Revoked(work.number))

    async def _call(self, callback: object, partitions: Partitions) -> None:
        if callable(callback) and partitions:
            try:
                answer = callback(partitions)
                if inspect.isawaitable(answer):
                    await answer
            except Exception as error:  # noqa: BLE001 (it is the program's own, and told where it reads)
                self._error = error

    async def _take_up(self, partitions: Partitions) -> None:
        options, losses = self._group_options, self._losses
        new = tuple(one for one in partitions if one not in self._readings)
        begins = await self._begins(new)
        ends: dict[TopicPartition, int] = {}
        end = options.end if options.end is not None else None if options.follow else END
        if end is not None:
            stops = {where: positions.position_of(end, where, END) for where in new}
            ends = await positions.resolve(self._asking, stops, self._level)
        if losses != self._losses:
            return
        for where in new:
            reading = Reading(where, begins[where].offset, ends.get(where))
            reading.fetch_epoch = begins[where].leader_epoch
            self._readings[where] = reading
        self._was_assigned = True
        await self._call(options.on_assigned, new)
        self._fetcher.route()

    async def _begins(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, Committed]:
        """Where the group stands; where it stands nowhere, where `start` says, or said when it was taken up."""
        wanted = tuple(partitions)
        for topic, partition in wanted:
            known = await self._asking.metadata.topic(topic)
            if partition >= len(known.partitions):
                await self._asking.metadata.refresh([topic])
        found = await self._positions.fetch(wanted) if wanted else {}
        self._committed |= {where: self._of_topic(where, at) for where, at in found.items()}
        new = {where: self._start_of(where) for where in wanted if where not in found}
        if new:
            begins = await positions.resolve(self._asking, new, self._level)
            found |= {where: Committed(offset) for where, offset in begins.items()}
        return found

    def _start_of(self, where: TopicPartition) -> Position:
        start, reading = positions.position_of(self._options.start, where, START), self._readings.get(where)
        return start if reading is None or start == START else reading.began  # the end was elsewhere then

    def _drop(self, partitions: Iterable[TopicPartition]) -> None:
        gone = set(partitions)
        for where in gone:
            self._readings.pop(where, None)
            self._committed.pop(where, None)
        if self._now is not None and self._now.where in gone:
            self._drop_records()
        self._stale |= gone
        self._fetcher.wake()

    # Hooks of the plain consumer

    def _fill(self) -> bool:
        return not self._works and super()._fill()

    def _is_over(self) -> bool:
        options = self._options
        is_bounded = not options.follow or options.end is not None
        is_settled = self._was_assigned and not self._works and self._attendance.member.state is State.STABLE
        return is_bounded and is_settled and all(one.is_done for one in self._readings.values())

    async def _wait(self) -> None:
        if self._works:
            await self.attend()
        else:
            await self._arrival.wait()

    def _raise_error(self) -> None:
        if self._failure is not None:
            raise self._failure
        error = self._error or self._trouble
        if error is not None:
            self._error = self._trouble = None
            raise error
        super()._raise_error()

    def _come_back(self) -> None:
        self._visits += 1
        self.hand(NOTHING)

    def hand(self, records: list[Record]) -> None:
        """This is in the program's hands now, and nothing else."""
        self.handed, self.done, self._forfeited = records, 0, False
        self._stale.clear()
