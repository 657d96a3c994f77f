"""A member of a group, by Kafka's classic protocol, as a pure machine: `step(now, event)` gives what is to be done. No
socket, no clock, no chance; `attendance` is its driver.

    out -> joining -> (sharing, for the leader) -> syncing -> stable -> ... -> out

- Joining: the member says what it wants and what it holds; the answer comes when all have said so. One of them, the
  leader, shares out. Syncing: each is told its share.
- Every request has a turn, a number. An answer to another turn than the last is of the past and is dropped.
- A rebalance is told by a heartbeat. Members that share out by `cooperative-sticky` alone keep what they hold while
  they join again, give up what they were not given again, and join once more; others give up all before they join.
- Giving up takes as long as the program needs to come back for more: `Revoke` is asked for, `Revoked` tells that it is
  done, and heartbeats go on meanwhile. What is lost (the group went on without us) is gone at once, and nothing of it
  can be committed.
- A program that hangs does not come back: the member leaves, so that the others get its partitions, and joins again
  when the program is back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import Final

from headrace.client.assignors import ASSIGNORS, COOPERATIVE
from headrace.client.member_events import (
    AskBeat,
    AskJoin,
    AskLeave,
    AskSync,
    Assign,
    Beaten,
    Begin,
    Count,
    Counted,
    Effect,
    End,
    Event,
    Fail,
    Grown,
    Hung,
    Joined,
    JoinedMember,
    Lose,
    Partitions,
    Revoke,
    Revoked,
    Synced,
    Tick,
    Unanswered,
    Wish,
)
from headrace.client.memberships import (
    NO_GENERATION,
    Subscription,
    given_partitions,
    put_assignment,
    put_subscription,
    read_subscription,
)
from headrace.client.refusals import MOVING
from headrace.wire.kafka.codes_client import RETRIABLE
from headrace.wire.kafka.errors import Code


class State(Enum):
    OUT = "out"  # not begun, hung, ended or failed
    WAITING = "waiting"  # to join again, in a moment
    REVOKING = "revoking"  # to join again when the program has given up what it must
    JOINING = "joining"
    SHARING = "sharing"
    SYNCING = "syncing"
    STABLE = "stable"


_ATTENDING: Final = (State.STABLE, State.REVOKING)  # heartbeats go out
_ILLEGAL, _UNKNOWN, _REBALANCE = Code.ILLEGAL_GENERATION, Code.UNKNOWN_MEMBER_ID, Code.REBALANCE_IN_PROGRESS


class Member:
    def __init__(
        self,
        topics: Sequence[str],
        assignors: Sequence[str],
        heartbeat_s: float,
        wait_s: Callable[[int], float],
        instance: str | None = None,
    ) -> None:
        """`wait_s`: how long to wait after that many failures in a row."""
        self.topics, self.assignors, self.instance = tuple(topics), tuple(assignors), instance
        self.is_cooperative = set(self.assignors) == {COOPERATIVE}
        self.state = State.OUT
        self.id, self.generation, self.protocol = "", NO_GENERATION, ""
        self.owned: Partitions = ()
        self.is_leader = False
        self.due: float | None = None  # when it wants a Tick
        self._heartbeat_s, self._wait_s = heartbeat_s, wait_s
        self._turn, self._revocations, self._failures = 0, 0, 0
        self._is_beating = False  # a heartbeat has no answer yet
        self._must_join = False  # again, as soon as it is stable
        self._members: Sequence[JoinedMember] = ()
        self._counts: Mapping[str, int] = {}  # by which it shared out
        self._effects: list[Effect] = []

    def step(self, now: float, event: Event) -> list[Effect]:
        self._effects = []
        match event:
            case Begin() if self.state is State.OUT:
                self._join()
            case Tick():
                self._tick(now)
            case Joined(turn=turn) if turn == self._turn and self.state is State.JOINING:
                self._joined(now, event)
            case Counted(turn=turn) if turn == self._turn and self.state is State.SHARING:
                self._share_out(event.counts)
            case Synced(turn=turn) if turn == self._turn and self.state is State.SYNCING:
                self._synced(now, event)
            case Beaten(turn=turn) if turn == self._turn and self._is_beating:
                self._beaten(now, event.code)
            case Unanswered(turn=turn) if turn == self._turn:
                self._unanswered(now)
            case Revoked(number=number) if number == self._revocations and self.state is State.REVOKING:
                if not self.is_cooperative:
                    self.owned = ()
                self._join()
            case Wish():
                self._wish(event.topics)
            case Grown():
                self._grown(event.counts)
            case Hung() if self.state is not State.OUT:
                self._leave()
            case End():
                self._leave(for_good=True)
        return self._effects

    # Joining

    def _rejoin(self) -> None:
        """Partitions are given out anew."""
        if self.owned and not self.is_cooperative:
            self._give_up(self.owned)
        else:
            self._join()

    def _give_up(self, partitions: Partitions) -> None:
        self.state = State.REVOKING
        self._revocations += 1
        self._effects.append(Revoke(partitions, self._revocations))

    def _join(self) -> None:
        self.state, self.due, self._must_join = State.JOINING, None, False
        said = put_subscription(Subscription(self.topics, self.owned, self.generation if self.owned else NO_GENERATION))
        self._effects.append(AskJoin(self._next_turn(), self.id, tuple((name, said) for name in self.assignors)))

    def _joined(self, now: float, answer: Joined) -> None:
        if answer.code == Code.MEMBER_ID_REQUIRED and answer.member_id:
            self.id = answer.member_id
            self._join()
        elif answer.code:
            self._refused(now, answer.code)
        else:
            self.id, self.generation, self.protocol = answer.member_id, answer.generation, answer.protocol
            self.is_leader = answer.leader == answer.member_id
            self._members = answer.members
            if self.is_leader and not answer.is_shared_out:
                wanted = {topic for one in answer.members for topic in read_subscription(one.metadata).topics}
                self.state = State.SHARING
                self._effects.append(Count(self._next_turn(), tuple(sorted(wanted))))
            else:
                self._sync({})

    def _share_out(self, counts: Mapping[str, int]) -> None:
        self._counts = counts
        members = {one.id: read_subscription(one.metadata, one.instance) for one in self._members}
        shares = ASSIGNORS[self.protocol](members, counts)
        self._sync({name: put_assignment(share) for name, share in shares.items()})

    def _sync(self, shares: Mapping[str, bytes]) -> None:
        self.state = State.SYNCING
        self._effects.append(AskSync(self._next_turn(), self.id, self.generation, self.protocol, shares))

    def _synced(self, now: float, answer: Synced) -> None:
        if answer.code == _REBALANCE:
            self._rejoin()
            return
        if answer.code:
            self._refused(now, answer.code)
            return
        given = given_partitions(answer.assignment)
        gone = tuple(one for one in self.owned if one not in given)
        new = tuple(one for one in given if one not in self.owned)
        self.owned, self.state, self._failures = given, State.STABLE, 0
        self._attend(now + self._heartbeat_s)
        self._effects.append(Assign(new))
        if gone:  # only who is cooperative still held anything
            self._give_up(gone)
        elif self._must_join:
            self._rejoin()

    # Heartbeats

    def _tick(self, now: float) -> None:
        if self.due is None or now < self.due:
            return
        if self.state is State.WAITING:
            self._join()
        elif self.state in _ATTENDING:
            if not self._is_beating:  # one at a time: the driver gives up one that is never answered
                self._effects.append(AskBeat(self._next_turn(), self.id, self.generation))
                self._is_beating = True
            self._attend(now + self._heartbeat_s)

    def _beaten(self, now: float, code: int) -> None:
        self._is_beating = False
        if not code:
            self._failures = 0
        elif code == _REBALANCE:
            if self.state is State.STABLE:
                self._rejoin()
        elif code in MOVING:
            self._unanswered(now)
        else:
            self._refused(now, code)

    def _attend(self, due: float) -> None:
        self.due = due

    # What goes wrong

    def _unanswered(self, now: float) -> None:
        self._is_beating = False
        self._failures += 1
        if self.state in _ATTENDING:
            self._attend(now + min(self._heartbeat_s, self._wait_s(self._failures)))
        elif self.state is not State.OUT:
            self._wait(now)

    def _refused(self, now: float, code: int) -> None:
        self._failures += 1
        if code in (_ILLEGAL, _UNKNOWN):
            self._lose()
            if code == _UNKNOWN:
                self.id = ""
            self._wait(now)
        elif code in RETRIABLE or code == _REBALANCE:
            self._wait(now)
        else:
            self._lose()
            self.state, self.due = State.OUT, None
            self._effects.append(Fail(code))

    def _wait(self, now: float) -> None:
        self._next_turn()
        self.state, self.due = State.WAITING, now + self._wait_s(self._failures)

    def _lose(self) -> None:
        if self.owned or self.state is State.REVOKING:
            self._effects.append(Lose())
        self.owned, self.generation = (), NO_GENERATION

    # What the program wants

    def _wish(self, topics: tuple[str, ...]) -> None:
        if topics != self.topics:
            self.topics = topics
            self._join_again()

    def _grown(self, counts: Mapping[str, int]) -> None:
        """Only the leader minds: it is the one who shares out."""
        if self.is_leader and any(self._counts.get(topic, count) != count for topic, count in counts.items()):
            self._join_again()

    def _join_again(self) -> None:
        if self.state is State.STABLE:
            self._rejoin()
        else:
            self._must_join = True

    def _leave(self, *, for_good: bool = False) -> None:
        is_member = self.id and self.state is not State.OUT
        if is_member and not (for_good and self.instance):  # a static member comes back to what it had
            self._effects.append(AskLeave(self.id))
        self._lose()
        self._next_turn()
        self.state, self.id, self.due = State.OUT, "", None

    def _next_turn(self) -> int:
        self._turn += 1
        self._is_beating = False
        return self._turn
