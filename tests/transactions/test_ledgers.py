"""Ledgers that are forgotten, as the machine decides it: what goes, what stays, who cannot come back; and pages."""

from __future__ import annotations

import pytest

from headrace.broker.transactions import ledgers as pages
from headrace.broker.transactions import sink
from headrace.broker.transactions.events import (
    Add,
    Answer,
    Append,
    CommitBatch,
    ForgetLedger,
    Ledger,
    OpenMember,
    RenewMembers,
)
from headrace.broker.transactions.ledgers import NOBODY, Ledgers
from headrace.broker.transactions.machine import Machine
from headrace.broker.transactions.transaction import State
from headrace.errors import (
    ConcurrentTransactions,
    CoordinatorUnavailable,
    HeadraceError,
    InvalidTransactionState,
    LimitReached,
    ProducerFenced,
    UnknownLedger,
    UnknownProducerId,
)
from headrace.wire.kafka.sink import MAX_LEDGERS
from tests.transactions.desk import PLACES
from tests.transactions.sink_desk import TIMEOUT_MS, Q, SinkDesk


@pytest.fixture
def desk() -> SinkDesk:
    return SinkDesk()


def queries(desk: SinkDesk) -> list[str]:
    return [shown.ledger.query for shown in desk.machine.sinks.page("").ledgers]


def test_a_ledger_that_is_forgotten_goes_with_its_members_in_one_batch_and_is_answered_then(desk: SinkDesk) -> None:
    member = desk.member("0.0", write=7)
    desk.commit(5, member)
    ticket = desk.ask(ForgetLedger, Q, 99)
    (append,) = desk.wanted
    assert append == Append(0, ((member[0], None),), Ledger(NOBODY, 7), Q)
    assert ticket not in desk.answers and queries(desk) == [Q]
    assert desk.told(ticket) == (sink.FORGOTTEN, 5)
    assert queries(desk) == [] and len(desk.machine.sinks) == 0 and desk.forgotten == [Q]
    assert desk.machine.get(member[0]) is None
    with pytest.raises(UnknownLedger, match="spark:q"):
        desk.forget()
    desk.start()
    assert queries(desk) == [] and desk.machine.get(member[0]) is None


def test_a_ledger_that_nobody_has_is_told_of(desk: SinkDesk) -> None:
    with pytest.raises(UnknownLedger, match="no query 'spark:other' has a ledger here"):
        desk.forget("spark:other")


def test_one_whose_forgetting_cannot_be_appended_stays_and_so_do_its_members(desk: SinkDesk) -> None:
    member = desk.member("0.0")
    desk.commit(5, member)
    desk.refuse_appends = True
    with pytest.raises(CoordinatorUnavailable):
        desk.forget()
    assert desk.forgotten == [] and queries(desk) == [Q] and desk.state(member) == State.COMPLETE_COMMIT
    desk.refuse_appends = False
    assert desk.commit(5, desk.member("0.0", write=2)) == (1, 5)
    assert desk.commit(6, desk.member("0.0", write=2)) == (1, 6)
    assert desk.forget() == (1, 6)


def test_a_query_that_is_being_written_is_not_forgotten(desk: SinkDesk) -> None:
    member = desk.member("0.0")
    with pytest.raises(InvalidTransactionState, match=r"'spark:q#0.0' is under way; stop the query first"):
        desk.forget()
    assert desk.state(member) == State.ONGOING
    ticket = desk.ask(CommitBatch, Q, 1, (member,))
    early = desk.ask(ForgetLedger, Q, 99)  # waits for the commit, and finds its markers on the way
    assert desk.told(ticket) == (1, 1)
    with pytest.raises(ConcurrentTransactions, match="ask again"):
        desk.told(early)
    assert desk.forget() == (1, 1)


def test_a_member_that_was_opened_and_not_used_counts_until_its_time_out(desk: SinkDesk) -> None:
    opened = desk.told(desk.ask(OpenMember, Q, 1, "0.0", TIMEOUT_MS))
    desk.tick(TIMEOUT_MS)
    desk.told(desk.ask(RenewMembers, Q, 1))
    desk.tick(TIMEOUT_MS)
    with pytest.raises(InvalidTransactionState, match="under way"):
        desk.forget()
    desk.tick(1)
    assert desk.forget() == (1, -1)
    with pytest.raises(UnknownProducerId):  # whoever had it wakes up too late
        desk.told(desk.ask(Add, f"{Q}#0.0", *opened, PLACES, 2))


def test_members_of_other_queries_and_other_producers_are_left_alone(desk: SinkDesk) -> None:
    others = [desk.member("0.0", query=query) for query in ("spark:q2", "spark")]
    producer = desk.init()
    desk.commit(1, desk.member("0.0"))
    desk.forget()
    assert [desk.state(other) for other in others] == [State.ONGOING] * 2
    assert desk.known.given == producer


@pytest.mark.parametrize("restart", [False, True])
def test_no_write_that_is_as_old_as_the_forgotten_one_comes_back(desk: SinkDesk, restart: bool) -> None:
    desk.commit(5, desk.member("0.0", write=7))
    desk.forget()
    if restart:
        desk.start()
    for write in (3, 7):  # replaced long ago; the last of them
        with pytest.raises(ProducerFenced, match=f"write {write} of 'spark:q' is no newer than write 7"):
            desk.member("0.0", write)
        with pytest.raises(ProducerFenced):
            desk.told(desk.ask(RenewMembers, Q, write))
    assert desk.commit(5, desk.member("0.0", write=8)) == (1, 5), "a query that goes on begins anew"


def test_a_commit_that_was_late_finds_neither_ledger_nor_members(desk: SinkDesk) -> None:
    member = desk.member("0.0", write=7)
    desk.commit(5, member)
    desk.forget()
    with pytest.raises(InvalidTransactionState, match="nothing was committed"):
        desk.commit(5, member)
    with pytest.raises(InvalidTransactionState, match="has no ledger"):
        desk.commit(6)
    assert queries(desk) == []
    desk.member("1.0", write=8)
    with pytest.raises(InvalidTransactionState, match="is no member"):
        desk.commit(5, member)


def test_a_number_that_nobody_drew_does_not_keep_others_out(desk: SinkDesk) -> None:
    desk.commit(1, desk.member("0.0", write=1 << 60))
    desk.forget(drawn=100)
    with pytest.raises(ProducerFenced):
        desk.member("0.0", write=100)
    assert desk.commit(1, desk.member("0.0", write=101)) == (1, 1)


def test_what_was_forgotten_first_counts_also_after_an_older_one_was(desk: SinkDesk) -> None:
    for query, write in (("a", 9), ("b", 4)):
        desk.told(desk.ask(CommitBatch, query, 0, (desk.member("0.0", write, query),)))
    first, second = desk.ask(ForgetLedger, "a", 99), desk.ask(ForgetLedger, "b", 99)
    desk.told(first), desk.told(second)
    for _ in range(2):
        with pytest.raises(ProducerFenced):
            desk.member("0.0", 9, "a")
        desk.start()
    assert desk.ledgers == {NOBODY: Ledger(NOBODY, 9)}


@pytest.mark.parametrize("write", [7, 8])
def test_who_asks_while_a_ledger_is_being_forgotten_waits_for_that(desk: SinkDesk, write: int) -> None:
    desk.commit(5, desk.member("0.0", write=7))
    forgotten = desk.ask(ForgetLedger, Q, 99)
    again = desk.ask(ForgetLedger, Q, 99)
    opened = desk.ask(OpenMember, Q, write, "0.0", TIMEOUT_MS)
    assert not desk.answers.keys() & {forgotten, again, opened}
    assert desk.told(forgotten) == (1, 5)
    with pytest.raises(UnknownLedger):
        desk.told(again)
    if write == 7:
        with pytest.raises(ProducerFenced):
            desk.told(opened)
    else:
        desk.told(opened)
        assert desk.machine.sinks.ledger(Q) == Ledger(Q, 8, -1, desk.now_ms)


@pytest.mark.parametrize("steps", range(6))
def test_after_a_restart_at_any_step_a_forgotten_ledger_is_whole_or_gone(desk: SinkDesk, steps: int) -> None:
    members = [desk.member(task) for task in ("0.0", "1.0")]
    desk.commit(5, *members)
    ticket = desk.ask(ForgetLedger, Q, 99)
    for _ in range(steps):
        if desk.wanted:
            desk.do_one()
    was_answered = ticket in desk.answers
    desk.start()
    desk.settle()
    is_there = queries(desk) == [Q]
    assert [desk.machine.get(member[0]) is not None for member in members] == [is_there] * 2
    assert not (was_answered and is_there)
    if is_there:
        assert desk.forget() == (1, 5)


def test_an_answer_before_the_append_is_caught(desk: SinkDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the test before is there for."""
    honest = Machine.step

    def hasty(self: Machine, now_ms: int, event: object) -> object:
        effects = honest(self, now_ms, event)  # type: ignore[arg-type]
        if isinstance(event, ForgetLedger):
            effects.insert(0, Answer(event.ticket, (sink.FORGOTTEN, 5)))
            self.sinks._forgetting[event.query] = None
        return effects

    monkeypatch.setattr(Machine, "step", hasty)
    found = []
    for steps in range(6):
        try:
            test_after_a_restart_at_any_step_a_forgotten_ledger_is_whole_or_gone(SinkDesk(), steps)
        except AssertionError:
            found.append(steps)
    assert found, "not found"


def test_at_the_limit_the_way_out_is_named_and_it_is_one(desk: SinkDesk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sink, "MAX_QUERIES", 2)
    for query in ("a", "b"):
        desk.told(desk.ask(CommitBatch, query, 0, (desk.member("0.0", 1, query),)))
    with pytest.raises(LimitReached, match="headrace txn forget QUERY"):
        desk.member("0.0", 2, "c")
    with pytest.raises(HeadraceError):  # nor by a commit without members
        desk.told(desk.ask(CommitBatch, "c", 0, ()))
    desk.tick(TIMEOUT_MS)
    desk.forget("a")
    desk.member("0.0", 2, "c")
    assert queries(desk) == ["b", "c"]


def test_queries_that_nobody_opened_leave_nothing_behind(desk: SinkDesk) -> None:
    for number in range(100):
        desk.told(desk.ask(RenewMembers, f"stranger-{number}", 5))
    assert len(desk.machine.sinks) == 0 and not desk.machine.sinks._renewed_ms
    desk.told(desk.ask(OpenMember, Q, -1, "0.0", TIMEOUT_MS))
    assert queries(desk) == [Q], "with any number a member has a ledger"


def test_pages_come_in_the_order_of_names_and_tell_of_open_members(desk: SinkDesk) -> None:
    desk.commit(5, desk.member("0.0"))
    begun_ms = desk.now_ms
    desk.tick(10)
    for task in ("0.0", "1.0"):
        desk.member(task, query="a", write=3)
    page = desk.machine.sinks.page("")
    assert [(*shown,) for shown in page.ledgers] == [
        (Ledger("a", 3, -1, begun_ms + 10), 2),
        (Ledger(Q, 1, 5, begun_ms), 0),
    ]
    assert (page.has_more, page.total) == (False, 2)
    assert [shown.ledger.query for shown in desk.machine.sinks.page("a").ledgers] == [Q]
    assert desk.machine.sinks.page(Q) == ([], False, 2)


def walked(ledgers: Ledgers) -> tuple[list[str], list[int]]:
    """All names, and how many each page had."""
    names: list[str] = []
    sizes: list[int] = []
    has_more = True
    while has_more:
        found, has_more = ledgers.after(names[-1] if names else "")
        names += [ledger.query for ledger in found]
        sizes.append(len(found))
    return names, sizes


def test_pages_are_bounded_by_number_and_by_bytes() -> None:
    ledgers = Ledgers()
    for number in range(2 * MAX_LEDGERS + 1):
        ledgers.put(Ledger(f"q{number * 7919 % 100_003}"))
    names, sizes = walked(ledgers)
    assert names == sorted(ledgers) and sizes == [MAX_LEDGERS, MAX_LEDGERS, 1]
    ledgers.remove(names[5])
    ledgers.put(Ledger("q"))
    ledgers.put(Ledger(names[7], batch=3))
    assert walked(ledgers)[0] == sorted(ledgers)
    long = Ledgers()
    for number in range(100):
        long.put(Ledger(f"{number:03}".ljust((1 << 15) - 1, "ä")[: (1 << 14)]))
    names, sizes = walked(long)
    assert names == sorted(long) and max(sizes) * (1 << 15) <= pages.MAX_PAGE_BYTES + (1 << 15)
    assert Ledgers().after("") == ([], False)
