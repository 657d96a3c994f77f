"""A restart of the coordinator between any two of its steps: what was decided stands, what was not decided can be."""

from __future__ import annotations

import pytest

from headrace.broker.transactions.events import Add, End, Init
from headrace.broker.transactions.transaction import State
from headrace.errors import HeadraceError
from tests.transactions.desk import PLACES, TIMEOUT_MS, Desk

ASKS = {"init": Init, "add": Add, "commit": End, "abort": End}


def _ask(desk: Desk, what: str, producer: tuple[int, int], version: int) -> None:
    if what == "init":
        desk.ask(Init, "x", TIMEOUT_MS)
    elif what == "add":
        desk.ask(Add, "x", *producer, PLACES, version)
    else:
        desk.ask(End, "x", *producer, what == "commit", version)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("scene", [["add", "commit"], ["add", "abort"], ["add", "init"], ["add", "commit", "add"]])
@pytest.mark.parametrize("steps", range(12))
def test_after_a_restart_at_any_step_the_transaction_ends_as_it_was_decided(
    scene: list[str], version: int, steps: int
) -> None:
    desk = Desk()
    producer = desk.init()
    left = steps
    for what in scene:
        _ask(desk, what, producer, version)
        while desk.wanted and left:
            desk.do_one()
            left -= 1
        if not left:
            break
        producer = desk.known.given
    decided = next((state for _, state in reversed(desk.log) if state is not None and state.state.is_prepared), None)
    was_open = desk.log[-1][1]
    desk.answers.clear()
    desk.start()
    desk.settle()
    assert not desk.known.state.is_prepared, "ended by the start, without anybody asking"
    if was_open is not None and was_open.state.is_prepared and decided is not None:
        marked = {place for place, producer_id, epoch, commit in desk.markers if commit == decided.is_commit}
        assert marked == set(decided.partitions)
        assert desk.known.is_commit == decided.is_commit
    desk.tick(TIMEOUT_MS + 1)
    assert desk.known.state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    given = desk.init()
    desk.add(given, version=version)
    desk.end(given, version=version)


@pytest.mark.parametrize("steps", range(10))
def test_no_transaction_is_ever_marked_both_ways(steps: int) -> None:
    desk = Desk()
    producer = desk.init()
    desk.add(producer)
    desk.ask(End, "x", *producer, True)
    for _ in range(steps):
        if desk.wanted:
            desk.do_one()
    desk.start()
    desk.settle()
    try:
        desk.end(producer, commit=False)
    except HeadraceError:
        assert {commit for *_, commit in desk.markers} == {True}
    else:
        assert {commit for *_, commit in desk.markers} == {False}
