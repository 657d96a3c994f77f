"""Keeps a member in its group: the driver of the machine in `member`. Requests go out as it says, answers and timers
come back to it as events.

Joining waits at the broker until all others have joined, and a connection answers in order: so the member has
connections of its own, and nothing else is asked on them.
"""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Callable, Coroutine
from typing import Any, Final, Protocol

from headrace.client.apis import HEARTBEAT, JOIN_GROUP, LEAVE_GROUP, SYNC_GROUP
from headrace.client.asking import Asking
from headrace.client.coordinators import GROUP, Coordinator
from headrace.client.group_options import GroupOptions
from headrace.client.member import Member, State
from headrace.client.member_events import (
    AskBeat,
    AskJoin,
    AskLeave,
    AskSync,
    Assign,
    Beaten,
    Count,
    Counted,
    Effect,
    End,
    Event,
    Fail,
    Hung,
    Joined,
    JoinedMember,
    Lose,
    Revoke,
    Synced,
    Tick,
    Unanswered,
)
from headrace.client.refusals import error_of
from headrace.errors import ClientClosed, ConnectionFailed, HeadraceError, RequestTimedOut, UnknownTopic
from headrace.wire.kafka import messages

PROTOCOL_TYPE: Final = "consumer"
JOIN_GRACE_S: Final = 5.0  # after the time that a rebalance may take: then the broker has forgotten to answer
LEAVE_LIMIT_S: Final = 3.0  # whoever is not heard saying goodbye is missed when its session is over
_UNSETTLED: Final = (State.JOINING, State.SHARING, State.SYNCING, State.WAITING)


class Holder(Protocol):
    """Who reads what the member is given."""

    def hold(self, work: Assign | Revoke | Lose) -> None: ...

    def fail(self, error: HeadraceError) -> None: ...


class Attendance:
    def __init__(self, asking: Asking, options: GroupOptions, member: Member, holder: Holder) -> None:
        self.member = member
        self._asking, self._options, self._holder = asking, options, holder
        self._coordinator = Coordinator(asking, GROUP, options.group)
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._settled = asyncio.Event()
        self._is_ended = False

    def post(self, event: Event) -> None:
        if self._is_ended:
            return
        for effect in self.member.step(self._loop.time(), event):
            self._do(effect)
        self._arm()
        if self.member.state in _UNSETTLED:
            self._settled.clear()
        else:
            self._settled.set()

    async def settled(self) -> None:
        """Waits until it is known whether, and in which generation, it is a member."""
        await self._settled.wait()

    async def leave(self) -> None:
        """For good; a static member only falls silent, so that it finds its partitions when it is back."""
        if self._is_ended:
            return
        farewells = [one for one in self.member.step(self._loop.time(), End()) if isinstance(one, AskLeave)]
        self._is_ended = True
        self._settled.set()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if farewells and self._coordinator.is_known:
            try:
                async with asyncio.timeout(LEAVE_LIMIT_S):
                    await self._ask_leave(farewells[0])
            except TimeoutError:
                pass
        self._asking.connections.close()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        due = self.member.due
        self._timer = None if due is None else self._loop.call_at(due, self.post, Tick())

    def _do(self, effect: Effect) -> None:
        match effect:
            case AskJoin():
                self._start(lambda: self._ask_join(effect), effect.turn)
            case Count():
                self._start(lambda: self._count(effect), effect.turn)
            case AskSync():
                self._start(lambda: self._ask_sync(effect), effect.turn)
            case AskBeat():
                self._start(lambda: self._ask_beat(effect), effect.turn)
            case AskLeave():
                self._start(lambda: self._ask_leave(effect), -1)
            case Fail(code):
                self._holder.fail(error_of(code, f"group {self._options.group!r}"))
            case Assign() | Revoke() | Lose():
                self._holder.hold(effect)

    def _start(self, ask: Callable[[], Coroutine[Any, Any, Event | None]], turn: int) -> None:
        async def run() -> None:
            try:
                event = await ask()
            except (ConnectionFailed, RequestTimedOut):
                event = Unanswered(turn)
            except ClientClosed:
                return
            except HeadraceError as error:
                self._fail(error)
                return
            if event is not None:
                self.post(event)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None:  # a fault of ours must not leave a reader waiting for ever
            self._fail(ClientClosed(f"the consumer failed: {fault!r}"))

    def _fail(self, error: HeadraceError) -> None:
        self.post(Hung())  # whatever it waited for does not come: it is out
        self._holder.fail(error)

    # Requests

    async def _ask_join(self, asked: AskJoin) -> Joined:
        options = self._options

        def fill(schema: Any) -> Any:
            protocols = tuple(
                schema.JoinGroupRequestProtocol(name=name, metadata=said) for name, said in asked.protocols
            )
            return messages.build(
                schema.JoinGroupRequest,
                group_id=options.group,
                session_timeout=_interval(options.session_timeout),
                rebalance_timeout=_interval(options.handling_timeout),
                member_id=asked.member_id,
                group_instance_id=options.instance,
                protocol_type=PROTOCOL_TYPE,
                protocols=protocols,
                reason=None,
            )

        limit_s = options.handling_timeout + JOIN_GRACE_S
        answer = await self._coordinator.once(JOIN_GROUP, fill, _code, limit_s)
        return Joined(
            asked.turn,
            answer.error_code.value,
            answer.member_id,
            int(answer.generation_id),
            answer.protocol_name or "",
            answer.leader,
            [JoinedMember(one.member_id, one.group_instance_id, one.metadata) for one in answer.members],
            getattr(answer, "skip_assignment", False),
        )

    async def _count(self, asked: Count) -> Counted:
        """The leader's work. A topic that is gone has none."""
        metadata = self._asking.metadata
        await metadata.refresh(asked.topics)
        counts = {}
        for name in asked.topics:
            try:
                counts[name] = len((await metadata.topic(name)).partitions)
            except UnknownTopic:
                counts[name] = 0
        return Counted(asked.turn, counts)

    async def _ask_sync(self, asked: AskSync) -> Synced:
        options = self._options

        def fill(schema: Any) -> Any:
            return messages.build(
                schema.SyncGroupRequest,
                group_id=options.group,
                generation_id=asked.generation,
                member_id=asked.member_id,
                group_instance_id=options.instance,
                protocol_type=PROTOCOL_TYPE,
                protocol_name=asked.protocol,
                assignments=tuple(
                    schema.SyncGroupRequestAssignment(member_id=name, assignment=share)
                    for name, share in asked.shares.items()
                ),
            )

        limit_s = options.handling_timeout + JOIN_GRACE_S
        answer = await self._coordinator.once(SYNC_GROUP, fill, _code, limit_s)
        return Synced(asked.turn, answer.error_code.value, answer.assignment)

    async def _ask_beat(self, asked: AskBeat) -> Beaten:
        def fill(schema: Any) -> Any:
            return schema.HeartbeatRequest(
                group_id=self._options.group,
                generation_id=asked.generation,
                member_id=asked.member_id,
                group_instance_id=self._options.instance,
            )

        answer = await self._coordinator.once(HEARTBEAT, fill, _code, self._options.session_timeout)
        return Beaten(asked.turn, answer.error_code.value)

    async def _ask_leave(self, asked: AskLeave) -> None:
        def fill(schema: Any) -> Any:
            instance = self._options.instance
            who = messages.build(
                schema.MemberIdentity, member_id=asked.member_id, group_instance_id=instance, reason=None
            )
            return schema.LeaveGroupRequest(group_id=self._options.group, members=(who,))

        try:
            await self._coordinator.once(LEAVE_GROUP, fill, _code, LEAVE_LIMIT_S)
        except HeadraceError:
            return  # it is missed when its session is over


def _code(answer: Any) -> list[int]:
    return [answer.error_code.value]


def _interval(seconds: float) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=int(seconds * 1000))
