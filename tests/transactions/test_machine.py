"""What the coordinator decides, told as scenes."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from headrace.broker.transactions.events import Add, Answer, Append, End, Init, WriteMarkers
from headrace.broker.transactions.machine import MAX_WAIT_MS, MAX_WAITING
from headrace.broker.transactions.transaction import LAST_EPOCH, MAX_EPOCH, State
from headrace.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    InvalidTransactionState,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionAbortable,
    UnknownProducerId,
)
from tests.transactions.desk import PLACES, TIMEOUT_MS, Desk

RAISING = 2  # the transaction version since which each end raises the epoch


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_a_commit_is_prepared_marked_and_completed_in_this_order(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    ticket = desk.ask(End, "x", *producer, True)
    (prepared,) = desk.wanted
    assert isinstance(prepared, Append), "nobody is answered, and nothing is marked, before it is synced"
    desk.do_one()
    answer, markers = desk.wanted
    assert isinstance(answer, Answer) and answer.ticket == ticket and isinstance(markers, WriteMarkers)
    desk.settle()
    assert desk.markers == [(place, *producer, True) for place in PLACES]
    assert desk.states == [State.EMPTY, State.ONGOING, State.PREPARE_COMMIT, State.COMPLETE_COMMIT]
    assert desk.known.partitions == frozenset()


def test_the_second_producer_of_an_id_fences_the_first(desk: Desk) -> None:
    first, second = desk.init(), desk.init()
    assert second == (first[0], first[1] + 1)
    with pytest.raises(ProducerFenced):
        desk.add(first)
    desk.add(second)
    with pytest.raises(ProducerFenced):
        desk.end(first)
    desk.end(second)


def test_a_producer_that_begins_aborts_what_the_one_before_left_open_and_then_gets_its_epoch(desk: Desk) -> None:
    first = desk.init()
    desk.add(first)
    second = desk.init()
    assert desk.markers == [(place, first[0], 1, False) for place in PLACES], "with an epoch that nobody else has"
    assert second == (first[0], 2)
    with pytest.raises(ProducerFenced):
        desk.end(first)


def test_an_id_belongs_to_its_producer_alone(desk: Desk) -> None:
    with pytest.raises(UnknownProducerId):
        desk.add((5, 0))
    producer_id, epoch = desk.init()
    with pytest.raises(UnknownProducerId):
        desk.add((producer_id + 1, epoch))
    with pytest.raises(UnknownProducerId):
        desk.end((producer_id + 1, epoch))


def test_a_producer_raises_its_own_epoch_after_an_error(desk: Desk) -> None:
    first = desk.init()
    second = desk.init(*first)
    assert second == (first[0], 1)
    assert desk.init(*first) == second, "asked again, because the answer was lost"
    third = desk.init()
    with pytest.raises(ProducerFenced):
        desk.init(*second)
    assert third == (first[0], 2)


def test_a_stale_producer_does_not_abort_what_its_successor_has_open(desk: Desk) -> None:
    first = desk.init()
    second = desk.init()
    desk.add(second)
    with pytest.raises(ProducerFenced):
        desk.init(*first)
    assert desk.known.state == State.ONGOING
    desk.end(second)


def test_each_end_raises_the_epoch_for_those_who_speak_it(desk: Desk) -> None:
    producer = desk.init()
    for count in range(1, 4):
        desk.add(producer, version=RAISING)
        raised = desk.end(producer, commit=bool(count % 2), version=RAISING)
        assert raised == (producer[0], count)
        assert {epoch for _, _, epoch, _ in desk.markers[-2:]} == {count}, "markers have it too"
        with pytest.raises(ProducerFenced):
            desk.add(producer, version=RAISING)
        assert desk.end(producer, commit=bool(count % 2), version=RAISING) == raised, "a repeated end"
        with pytest.raises(InvalidTransactionState):
            desk.end(producer, commit=not count % 2, version=RAISING)
        producer = raised


def test_an_abort_of_nothing_raises_the_epoch_and_a_commit_of_nothing_is_refused(desk: Desk) -> None:
    producer = desk.init()
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=True, version=RAISING)
    assert desk.end(producer, commit=False, version=RAISING) == (producer[0], 1)
    older = desk.init()
    with pytest.raises(InvalidTransactionState):
        desk.end(older, commit=False)
    assert desk.markers == []


def test_an_older_client_may_go_on_with_the_id_of_a_newer_one(desk: Desk) -> None:
    newer = desk.init()
    desk.add(newer, version=RAISING)
    desk.end(newer, version=RAISING)
    older = desk.init()
    desk.add(older)
    assert desk.end(older) == older
    assert desk.known.version != RAISING, "markers with the producer's own epoch are no late ones"


def test_the_same_end_twice_is_one_end_for_older_clients(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    assert desk.end(producer) == desk.end(producer) == producer
    with pytest.raises(InvalidTransactionState):
        desk.end(producer, commit=False)
    assert len(desk.markers) == len(PLACES)


def _with_epoch(desk: Desk, epoch: int) -> int:
    producer_id, _ = desk.init()
    desk.log.append(("x", replace(desk.known, epoch=epoch)))
    desk.start()
    return producer_id


def test_when_epochs_are_used_up_a_new_producer_gets_another_id(desk: Desk) -> None:
    old = _with_epoch(desk, LAST_EPOCH - 1)
    assert desk.init() == (old, LAST_EPOCH)
    new, epoch = desk.init()
    assert new != old and epoch == 0
    with pytest.raises(UnknownProducerId):
        desk.add((old, LAST_EPOCH))


def test_a_producer_whose_last_epoch_ends_goes_on_with_another_id(desk: Desk) -> None:
    old = _with_epoch(desk, LAST_EPOCH)
    desk.add((old, LAST_EPOCH), version=RAISING)
    new = desk.end((old, LAST_EPOCH), version=RAISING)
    assert new[0] != old and new[1] == 0
    assert {marker[1:3] for marker in desk.markers} == {(old, MAX_EPOCH)}
    assert desk.end((old, LAST_EPOCH), version=RAISING) == new, "a repeated end"
    assert desk.init(old, LAST_EPOCH) == new, "one that lost the answer, and begins again"
    desk.add(new, version=RAISING)
    assert desk.end(new, version=RAISING) == (new[0], 1)


def test_the_last_epoch_can_be_fenced(desk: Desk) -> None:
    old = _with_epoch(desk, LAST_EPOCH)
    desk.add((old, LAST_EPOCH))
    new, epoch = desk.init()
    assert {marker[1:3] for marker in desk.markers} == {(old, MAX_EPOCH)}
    assert new != old and epoch == 0


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.tick(TIMEOUT_MS)
    assert desk.timed_out == []
    desk.tick(1)
    assert desk.timed_out == ["x"] and desk.known.state == State.COMPLETE_ABORT
    assert {commit for *_, commit in desk.markers} == {False}
    with pytest.raises(ProducerFenced):
        desk.end(producer)


def test_added_partitions_do_not_prolong_a_transaction(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.now_ms += TIMEOUT_MS
    desk.add(producer, (("u", 0),))
    desk.tick(1)
    assert desk.timed_out == ["x"]


def test_what_is_asked_while_the_last_one_is_being_ended_waits_for_it(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.ask(End, "x", *producer, True)
    desk.do_one()  # prepared; its markers are not written
    held = list(desk.wanted)
    desk.wanted.clear()
    late = [desk.ask(Add, "x", *producer, PLACES), desk.ask(Init, "x", TIMEOUT_MS)]
    desk.settle()
    assert not set(late) & set(desk.answers)
    desk.wanted.extend(held)
    desk.settle()
    assert desk.answers[late[0]] == producer
    assert desk.answers[late[1]] == (producer[0], 2), "it has aborted what the first one began"
    assert desk.states[-4:] == [State.ONGOING, State.PREPARE_ABORT, State.COMPLETE_ABORT, State.EMPTY]


def test_nobody_waits_for_ever_and_not_too_many(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.ask(End, "x", *producer, True)
    desk.wanted.clear()  # the log does not answer
    tickets = [desk.ask(Init, "x", TIMEOUT_MS) for _ in range(MAX_WAITING + 1)]
    desk.settle()
    assert isinstance(desk.answers[tickets[-1]], ConcurrentTransactions)
    desk.tick(MAX_WAIT_MS + 1)
    assert all(isinstance(desk.answers[ticket], ConcurrentTransactions) for ticket in tickets)


def test_a_fenced_producer_is_told_so_at_once_while_the_end_is_on_its_way(desk: Desk) -> None:
    first = desk.init()
    desk.add(first)
    desk.tell(Init(99, "x", TIMEOUT_MS))
    desk.do_one()  # PrepareAbort is there; markers are not
    desk.wanted.clear()
    with pytest.raises(ProducerFenced):
        desk.add(first)
    with pytest.raises(ProducerFenced):
        desk.end(first)


def test_a_change_that_cannot_be_appended_has_not_happened(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.refuse_appends = True
    with pytest.raises(CoordinatorUnavailable):
        desk.end(producer)
    assert desk.known.state == State.ONGOING and desk.markers == []
    desk.refuse_appends = False
    desk.end(producer, commit=False)
    assert {commit for *_, commit in desk.markers} == {False}


def test_who_waits_for_a_change_that_cannot_be_appended_is_told_so(desk: Desk) -> None:
    desk.add(desk.init())
    desk.refuse_appends = True
    with pytest.raises(CoordinatorUnavailable):
        desk.init()
    assert desk.known.state == State.ONGOING and not desk.wanted


def test_a_completion_that_cannot_be_appended_is_tried_again(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    desk.ask(End, "x", *producer, True)
    desk.do_one()
    desk.refuse_appends = True
    desk.settle()
    desk.tick(1000)
    assert desk.known.state == State.PREPARE_COMMIT
    desk.refuse_appends = False
    desk.tick(1000)
    assert desk.known.state == State.COMPLETE_COMMIT


def test_a_timeout_has_to_be_one(desk: Desk) -> None:
    for timeout_ms in (0, -1, 900_001):
        with pytest.raises(InvalidTransactionTimeout):
            desk.init(timeout_ms=timeout_ms)
    assert desk.machine.get("x") is None and desk.log == []


def test_a_partition_is_verified_only_while_the_transaction_is_under_way(desk: Desk) -> None:
    producer = desk.init()
    with pytest.raises(TransactionAbortable):
        desk.machine.verify("x", *producer, ("t", 0))
    desk.add(producer)
    desk.machine.verify("x", *producer, ("t", 0))
    with pytest.raises(TransactionAbortable):
        desk.machine.verify("x", *producer, ("t", 9))
    with pytest.raises(ProducerFenced):
        desk.machine.verify("x", producer[0], producer[1] + 1, ("t", 0))
    desk.end(producer)
    with pytest.raises(TransactionAbortable):
        desk.machine.verify("x", *producer, ("t", 0))


def test_an_id_that_nobody_used_for_long_is_forgotten(desk: Desk) -> None:
    desk.init()
    desk.tick(7 * 86_400_000)
    assert desk.machine.get("x") is not None
    desk.tick(600_000)
    assert desk.machine.get("x") is None and desk.states[-1] is None
    with pytest.raises(UnknownProducerId):
        desk.add((1000, 0))


def test_adding_what_is_there_writes_nothing(desk: Desk) -> None:
    producer = desk.init()
    desk.add(producer)
    before = len(desk.log)
    desk.add(producer, PLACES[:1])
    assert len(desk.log) == before
