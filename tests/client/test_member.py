"""The machine of a group's member, step by step: what it asks for after what it was told."""

from __future__ import annotations

import pytest

from headrace.client.assignors import COOPERATIVE, RANGE
from headrace.client.member import Member, State
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
    Fail,
    Grown,
    Hung,
    Joined,
    JoinedMember,
    Lose,
    Revoke,
    Revoked,
    Synced,
    Tick,
    Unanswered,
    Wish,
)
from headrace.client.memberships import put_assignment, read_subscription
from headrace.client.values import TopicPartition
from headrace.wire.kafka.errors import Code

BEAT_S, WAIT_S = 3.0, 0.5
ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


class Stage:
    """A member that is asked for one thing at a time."""

    def __init__(self, *assignors: str, instance: str | None = None) -> None:
        self.member = Member(("t",), assignors or (RANGE,), BEAT_S, lambda failures: WAIT_S, instance)
        self.now = 100.0
        self.last: list[Effect] = []
        self.asked = 0  # the turn of its last question

    def tell(self, event: object) -> list[Effect]:
        self.last = self.member.step(self.now, event)  # type: ignore[arg-type]
        for one in self.last:
            self.asked = one.turn if isinstance(one, AskJoin | AskSync | AskBeat | Count) else self.asked
        return self.last

    def only(self, kind: type) -> Effect:
        (effect,) = [one for one in self.last if isinstance(one, kind)]
        return effect

    def join(self, *given: TopicPartition, generation: int = 1) -> list[Effect]:
        """From a question for joining to a share; others lead."""
        self.tell(Joined(self.asked, 0, "me", generation, self.member.assignors[0], "other"))
        return self.tell(Synced(self.asked, 0, put_assignment(given)))

    def beat(self, code: int = 0) -> list[Effect]:
        assert self.member.due is not None
        self.now = self.member.due
        self.tell(Tick())
        return self.tell(Beaten(self.asked, code))


def test_a_member_joins_is_given_its_share_and_sends_heartbeats() -> None:
    stage = Stage()
    (asked,) = stage.tell(Begin())
    assert isinstance(asked, AskJoin) and asked.member_id == "" and [name for name, _ in asked.protocols] == [RANGE]
    assert read_subscription(asked.protocols[0][1]).topics == ("t",)
    assert stage.join(ONE) == [Assign((ONE,))]
    assert stage.member.state is State.STABLE and stage.member.due == stage.now + BEAT_S
    assert stage.tell(Tick()) == []  # not yet
    assert stage.beat() == [] and stage.member.owned == (ONE,)


def test_a_new_member_joins_again_with_the_id_that_it_was_given() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.tell(Joined(stage.asked, Code.MEMBER_ID_REQUIRED, "me"))
    asked = stage.only(AskJoin)
    assert isinstance(asked, AskJoin) and asked.member_id == "me"


def test_the_leader_counts_and_shares_out() -> None:
    stage = Stage()
    (asked,) = stage.tell(Begin())
    assert isinstance(asked, AskJoin)
    said = asked.protocols[0][1]
    members = [JoinedMember("me", None, said), JoinedMember("you", None, said)]
    (count,) = stage.tell(Joined(asked.turn, 0, "me", 1, RANGE, "me", members))
    assert isinstance(count, Count) and count.topics == ("t",)
    (sync,) = stage.tell(Counted(count.turn, {"t": 2}))
    assert isinstance(sync, AskSync)
    assert sync.shares == {"me": put_assignment([ONE]), "you": put_assignment([TWO])}


def test_a_leader_that_comes_back_to_a_settled_group_shares_out_nothing() -> None:
    stage = Stage(instance="fixed")
    stage.tell(Begin())
    (sync,) = stage.tell(Joined(stage.asked, 0, "me", 1, RANGE, "me", (), is_shared_out=True))
    assert isinstance(sync, AskSync) and sync.shares == {}


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE, TWO)
    (revoke,) = stage.beat(Code.REBALANCE_IN_PROGRESS)
    assert isinstance(revoke, Revoke) and revoke.partitions == (ONE, TWO)
    assert stage.beat(Code.REBALANCE_IN_PROGRESS) == []  # heartbeats go on while the program is busy
    (asked,) = stage.tell(Revoked(revoke.number))
    assert isinstance(asked, AskJoin) and read_subscription(asked.protocols[0][1]).owned == ()
    assert stage.join(TWO, generation=2) == [Assign((TWO,))]


def test_a_cooperative_member_keeps_what_it_has_and_gives_up_only_what_it_must() -> None:
    stage = Stage(COOPERATIVE)
    stage.tell(Begin())
    stage.join(ONE, TWO)
    (asked,) = stage.beat(Code.REBALANCE_IN_PROGRESS)
    assert isinstance(asked, AskJoin)
    said = read_subscription(asked.protocols[0][1])
    assert said.owned == (ONE, TWO) and said.generation == 1
    assign, revoke = stage.join(TWO, generation=2)
    assert assign == Assign(()) and isinstance(revoke, Revoke) and revoke.partitions == (ONE,)
    (again,) = stage.tell(Revoked(revoke.number))
    assert isinstance(again, AskJoin) and read_subscription(again.protocols[0][1]).owned == (TWO,)


def test_both_assignors_offered_means_giving_up_everything() -> None:
    """Another member may not know how to wait for what is still held."""
    stage = Stage(RANGE, COOPERATIVE)
    stage.tell(Begin())
    stage.join(ONE)
    assert isinstance(stage.beat(Code.REBALANCE_IN_PROGRESS)[0], Revoke)


@pytest.mark.parametrize("code", [Code.UNKNOWN_MEMBER_ID, Code.ILLEGAL_GENERATION])
def test_a_member_that_the_group_forgot_has_lost_everything_and_joins_anew(code: Code) -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE)
    assert stage.beat(code) == [Lose()]
    assert stage.member.owned == () and stage.member.generation < 0
    stage.now += WAIT_S
    (asked,) = stage.tell(Tick())
    assert isinstance(asked, AskJoin) and asked.member_id == ("" if code is Code.UNKNOWN_MEMBER_ID else "me")


def test_what_was_lost_while_it_was_given_up_is_not_waited_for() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE)
    (revoke,) = stage.beat(Code.REBALANCE_IN_PROGRESS)
    assert isinstance(revoke, Revoke)
    assert stage.beat(Code.UNKNOWN_MEMBER_ID) == [Lose()]
    assert stage.tell(Revoked(revoke.number)) == []
    stage.now += WAIT_S
    stage.tell(Tick())
    stage.join(TWO, generation=9)
    (later,) = stage.beat(Code.REBALANCE_IN_PROGRESS)
    assert isinstance(later, Revoke) and stage.tell(Revoked(revoke.number)) == []  # of the past
    assert isinstance(stage.tell(Revoked(later.number))[0], AskJoin)


def test_a_coordinator_that_is_away_costs_nothing_but_heartbeats() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE)
    for _ in range(3):
        assert stage.member.due is not None
        stage.now = stage.member.due
        stage.tell(Tick())
        assert stage.tell(Unanswered(stage.asked)) == []
        assert stage.member.due == stage.now + WAIT_S and stage.member.owned == (ONE,)
    assert stage.beat(Code.NOT_COORDINATOR) == []
    assert stage.beat() == [] and stage.member.state is State.STABLE


def test_a_heartbeat_without_an_answer_is_waited_for_and_not_in_a_loop() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE)
    for _ in range(3):
        assert stage.member.due is not None
        stage.now = stage.member.due
        stage.tell(Tick())
        assert stage.member.due == stage.now + BEAT_S
    assert stage.tell(Beaten(stage.asked, 0)) == []


@pytest.mark.parametrize("step", ["join", "count", "sync"])
def test_a_join_that_is_lost_at_any_step_begins_again(step: str) -> None:
    stage = Stage()
    (asked,) = stage.tell(Begin())
    assert isinstance(asked, AskJoin)
    if step != "join":
        members = [JoinedMember("me", None, asked.protocols[0][1])]
        stage.tell(Joined(asked.turn, 0, "me", 1, RANGE, "me", members))
    if step == "sync":
        stage.tell(Counted(stage.asked, {"t": 1}))
    assert stage.tell(Unanswered(stage.asked)) == [] and stage.member.state is State.WAITING
    stage.now += WAIT_S
    assert isinstance(stage.tell(Tick())[0], AskJoin)


def test_answers_of_the_past_are_dropped() -> None:
    stage = Stage()
    (first,) = stage.tell(Begin())
    assert isinstance(first, AskJoin)
    stage.tell(Unanswered(first.turn))
    stage.now += WAIT_S
    stage.tell(Tick())
    assert stage.tell(Joined(first.turn, 0, "old", 1, RANGE, "old")) == []
    assert stage.tell(Synced(first.turn, 0, put_assignment([ONE]))) == []
    assert stage.join(TWO) == [Assign((TWO,))]


@pytest.mark.parametrize(
    "code", [Code.FENCED_INSTANCE_ID, Code.INCONSISTENT_GROUP_PROTOCOL, Code.GROUP_MAX_SIZE_REACHED]
)
def test_a_refusal_that_does_not_pass_is_the_end(code: Code) -> None:
    stage = Stage()
    stage.tell(Begin())
    assert stage.tell(Joined(stage.asked, code)) == [Fail(code)]
    assert stage.member.due is None and stage.tell(Tick()) == []


def test_other_topics_and_more_partitions_are_a_reason_to_join_again() -> None:
    stage = Stage(COOPERATIVE)
    (asked,) = stage.tell(Begin())
    assert isinstance(asked, AskJoin)
    members = [JoinedMember("me", None, asked.protocols[0][1])]
    stage.tell(Joined(asked.turn, 0, "me", 1, COOPERATIVE, "me", members))
    stage.tell(Counted(stage.asked, {"t": 1}))
    stage.tell(Synced(stage.asked, 0, put_assignment([ONE])))
    assert stage.tell(Grown({"t": 1})) == [] and stage.tell(Wish(("t",))) == []
    assert isinstance(stage.tell(Grown({"t": 2}))[0], AskJoin)
    stage.tell(Wish(("t", "u")))  # while it joins: once more, afterwards
    stage.tell(Joined(stage.asked, 0, "me", 2, COOPERATIVE, "other"))
    effects = stage.tell(Synced(stage.asked, 0, put_assignment([ONE])))
    assert isinstance(effects[-1], AskJoin) and read_subscription(effects[-1].protocols[0][1]).topics == ("t", "u")


def test_a_program_that_hangs_makes_its_member_leave_until_it_is_back() -> None:
    stage = Stage()
    stage.tell(Begin())
    stage.join(ONE)
    assert stage.tell(Hung()) == [AskLeave("me"), Lose()]
    assert stage.tell(Hung()) == [] and stage.member.due is None
    (asked,) = stage.tell(Begin())
    assert isinstance(asked, AskJoin) and asked.member_id == ""


@pytest.mark.parametrize(("instance", "goodbyes"), [(None, 1), ("fixed", 0)])
def test_only_a_static_member_ends_without_a_word(instance: str | None, goodbyes: int) -> None:
    stage = Stage(instance=instance)
    stage.tell(Begin())
    stage.join(ONE)
    assert [type(one) for one in stage.tell(End())].count(AskLeave) == goodbyes
