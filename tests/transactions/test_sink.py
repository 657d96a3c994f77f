"""Several transactions committed as one, with a ledger: as the machine decides it, and over a socket."""

from __future__ import annotations

import pytest

from headrace.broker.transactions.events import (
    AbortBatch,
    Append,
    CommitBatch,
    RenewMembers,
)
from headrace.broker.transactions.machine import EXPIRY_LOOK_MS
from headrace.broker.transactions.sink import ONCE_MS
from headrace.broker.transactions.transaction import State
from headrace.errors import CoordinatorUnavailable, HeadraceError, InvalidTransactionState, ProducerFenced
from headrace.wire.kafka import sink
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.sink import Action, SinkRequest, SinkResponse
from tests.doors.asking import Asker
from tests.transactions.client import Producer, read
from tests.transactions.sink_desk import TIMEOUT_MS, Member, Q, SinkDesk


@pytest.fixture
def desk() -> SinkDesk:
    return SinkDesk()


def test_all_members_their_ledger_and_the_abort_of_the_rest_are_one_batch(desk: SinkDesk) -> None:
    one, two, rest = (desk.member(task) for task in ("0.0", "1.0", "1.1"))
    desk.ask(CommitBatch, Q, 5, (one, two))
    (append,) = desk.wanted
    assert isinstance(append, Append) and append.ledger is not None
    assert append.ledger.batch == 5
    assert {name: state.state for name, state in append.states if state is not None} == {
        one[0]: State.PREPARE_COMMIT,
        two[0]: State.PREPARE_COMMIT,
        rest[0]: State.PREPARE_ABORT,
    }
    desk.settle()
    assert [desk.state(member) for member in (one, two, rest)] == [
        State.COMPLETE_COMMIT,
        State.COMPLETE_COMMIT,
        State.COMPLETE_ABORT,
    ]


def test_a_batch_that_is_in_the_ledger_is_committed_once(desk: SinkDesk) -> None:
    assert desk.commit(5, desk.member("0.0")) == (1, 5)
    again = desk.member("0.1", write=2)
    assert desk.commit(5, again) == (1, 5)
    assert desk.state(again) == State.COMPLETE_ABORT
    assert desk.commit(4) == (1, 5)
    assert desk.commit(6, desk.member("0.0", write=3)) == (1, 6)


def test_an_abort_after_a_commit_changes_nothing(desk: SinkDesk) -> None:
    member = desk.member("0.0")
    desk.commit(5, member)
    assert desk.told(desk.ask(AbortBatch, Q, 5, (member,))) == (1, 5)
    other = desk.member("0.0", write=2)
    assert desk.told(desk.ask(AbortBatch, Q, 6, (other,))) == (0, 5)
    assert desk.state(other) == State.COMPLETE_ABORT


def test_a_commit_is_refused_whole_unless_every_member_is_under_way_as_named(desk: SinkDesk) -> None:
    one, two = desk.member("0.0"), desk.member("1.0")
    for wrong in ((two[0], two[1], two[2] + 1), (two[0], two[1] + 1, two[2]), ("spark:other#0", 1, 1), ("x", 1, 1)):
        with pytest.raises(InvalidTransactionState):
            desk.commit(1, one, wrong)
    assert desk.state(one) == State.ONGOING and desk.machine.sinks.ledger(Q).batch == -1
    assert desk.commit(1, one, two) == (1, 1)


def test_a_task_of_a_write_that_was_replaced_opens_nothing(desk: SinkDesk) -> None:
    desk.member("0.0", write=7)
    with pytest.raises(ProducerFenced):
        desk.member("1.0", write=6)
    with pytest.raises(ProducerFenced):
        desk.told(desk.ask(RenewMembers, Q, 6))
    desk.member("1.0", write=7)


def test_members_live_as_long_as_they_are_renewed(desk: SinkDesk) -> None:
    one, two = desk.member("0.0"), desk.member("1.0")
    for _ in range(3):
        desk.tick(TIMEOUT_MS - 1)
        desk.told(desk.ask(RenewMembers, Q, 1))
    assert desk.state(one) == desk.state(two) == State.ONGOING
    desk.tick(TIMEOUT_MS + 1)
    assert desk.state(one) == desk.state(two) == State.COMPLETE_ABORT


def test_a_commit_that_cannot_be_appended_has_not_happened(desk: SinkDesk) -> None:
    member = desk.member("0.0")
    desk.refuse_appends = True
    with pytest.raises(CoordinatorUnavailable):
        desk.commit(1, member)
    desk.refuse_appends = False
    assert desk.state(member) == State.ONGOING
    assert desk.commit(1, member) == (1, 1)


@pytest.mark.parametrize("steps", range(10))
def test_after_a_restart_at_any_step_all_members_are_committed_or_none(desk: SinkDesk, steps: int) -> None:
    members = tuple(desk.member(task) for task in ("0.0", "1.0"))
    desk.ask(CommitBatch, Q, 5, members)
    for _ in range(steps):
        if desk.wanted:
            desk.do_one()
    desk.answers.clear()
    desk.start()
    desk.settle()
    batch = desk.machine.sinks.ledger(Q).batch
    assert {desk.state(member) for member in members} == {State.COMPLETE_COMMIT if batch == 5 else State.ONGOING}
    try:
        assert desk.commit(5, *members) == (1, 5)
    except HeadraceError as error:
        pytest.fail(f"a repeated commit was refused: {error}")
    assert {desk.state(member) for member in members} == {State.COMPLETE_COMMIT}


def test_only_the_ledgers_of_what_is_written_once_are_forgotten_and_a_day_later(desk: SinkDesk) -> None:
    for number in range(3):
        query = f"once:{number}"
        assert desk.told(desk.ask(CommitBatch, query, 0, (desk.member("0.0", number, query),))) == (1, 0)
    assert desk.commit(0, desk.member("0.0", 9)) == (1, 0)
    desk.tick(ONCE_MS)
    assert set(desk.ledgers) == {Q, "once:0", "once:1", "once:2"}
    desk.told(desk.ask(RenewMembers, "once:2", 2))
    desk.tick(EXPIRY_LOOK_MS + 1)
    assert set(desk.ledgers) == {Q, "once:2"}
    desk.start()
    assert desk.machine.sinks.ledger("once:2").write_epoch == 2
    assert desk.machine.sinks.ledger(Q).batch == 0
    with pytest.raises(InvalidTransactionState):  # too late to be asked again, and nothing is written twice
        desk.told(desk.ask(CommitBatch, "once:0", 0, (("once:0#0.0", 1000, 0),)))


async def ask(asker: Asker, *fields: object) -> SinkResponse:
    request = SinkRequest(*fields)  # type: ignore[arg-type]
    answer: SinkResponse = await asker.ask(sink, sink.SINK, 0, request)
    return answer


async def _write(asker: Asker, opened: SinkResponse, partition: int) -> Member:
    assert opened.error == 0 and opened.transactional_id is not None
    producer = Producer(asker, opened.transactional_id)
    producer.go_on(opened.first, opened.second)
    assert (await producer.produce("t", partition, opened.transactional_id.encode())).error == 0
    return opened.transactional_id, opened.first, opened.second


async def test_a_query_writes_each_batch_once(asker: Asker) -> None:
    for batch in range(3):
        write = (await ask(asker, Action.DRAW)).first
        opened = [await ask(asker, Action.OPEN, Q, write, f"{task}.{batch}", TIMEOUT_MS) for task in range(2)]
        members = [await _write(asker, one, task) for task, one in enumerate(opened)]
        assert (await ask(asker, Action.RENEW, Q, write)).error == 0
        for _ in range(2):
            assert await ask(asker, Action.COMMIT, Q, batch, "", 0, members) == SinkResponse(0, None, None, 1, batch)
        assert await ask(asker, Action.ABORT, Q, batch, "", 0, members) == SinkResponse(0, None, None, 1, batch)
    lost = await _write(asker, await ask(asker, Action.OPEN, Q, write + 1, "0.9", TIMEOUT_MS), 0)
    assert await ask(asker, Action.ABORT, Q, 9, "", 0, [lost]) == SinkResponse(0, None, None, 0, 2)
    await ask(asker, Action.OPEN, Q, write + 1, "0.9", TIMEOUT_MS)  # waits until the abort is all done
    for partition in range(2):
        assert await read(asker, "t", partition) == [f"{Q}#{partition}.{batch}".encode() for batch in range(3)]
    late = await ask(asker, Action.OPEN, Q, write, "0.0", TIMEOUT_MS)
    assert late.error == Code.PRODUCER_FENCED and late.message


@pytest.mark.parametrize(("query", "task"), [("", "0"), ("a#b", "0"), ("q", ""), ("q", "0#1")])
async def test_names_that_would_not_hash_to_one_coordinator_are_refused(asker: Asker, query: str, task: str) -> None:
    answer = await ask(asker, Action.OPEN, query, 1, task, TIMEOUT_MS)
    assert answer.error == Code.INVALID_REQUEST
