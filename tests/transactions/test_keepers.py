"""Ledgers through every fault of the simulated world, and kill -9 of a real node; and bugs planted on purpose, which
such runs must find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headrace
from headrace import errors
from headrace.broker.transactions.events import Answer, ForgetLedger
from headrace.broker.transactions.ledgers import Ledgers
from headrace.broker.transactions.machine import Machine
from headrace.broker.transactions.sink import FORGOTTEN, Sinks
from headrace.broker.transactions.transaction import NONE
from headrace.testing.faults import KINDS
from headrace.testing.served import ServedBroker
from headrace.testing.simulation import Options
from tests.transactions.keepers import Violation, run

OPTIONS = Options(duration_s=3.0)
CHANGES = range(150, 900, 3)


def _power(change: int) -> Options:
    return Options(duration_s=1.0, most_faults=0, producers=3, power_at=change)


@pytest.mark.parametrize("seed", range(10))
def test_what_was_answered_is_so_whatever_happens(seed: int) -> None:
    assert run(seed, OPTIONS).forgotten


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_under_each_fault_alone(kind: str) -> None:
    run(1, Options(kinds=kind, duration_s=2.0))


def test_power_may_fail_at_any_change_of_the_disk() -> None:
    for change in CHANGES[::25]:
        run(change, _power(change))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_for_five_hundred_seeds() -> None:
    for seed in range(30_000, 30_500):
        run(seed, OPTIONS)


def _found() -> str:
    """What is wrong only between a write and its sync: the power fails at one change of the disk after the other."""
    for change in CHANGES:
        try:
            run(change, _power(change))
        except Violation as violation:
            return str(violation)
    pytest.fail("not found")


def test_an_answer_before_the_append_is_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Machine.step

    def hasty(self: Machine, now_ms: int, event: Any) -> Any:
        effects = honest(self, now_ms, event)
        if isinstance(event, ForgetLedger) and self.sinks._forgetting.get(event.query) == event.ticket:
            self.sinks._forgetting[event.query] = None
            effects.insert(0, Answer(event.ticket, (FORGOTTEN, 0)))
        return effects

    monkeypatch.setattr(Machine, "step", hasty)
    assert "where {-2} could be" in _found()


def test_a_ledger_that_goes_from_memory_alone_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget(self: Sinks, now_ms: int, ask: ForgetLedger) -> None:
        if ask.query in self._ledgers:
            self._ledgers.remove(ask.query)
        self._machine.out.append(Answer(ask.ticket, (FORGOTTEN, 0)))

    monkeypatch.setattr(Sinks, "_forget", forget)
    assert _found()


def test_a_write_that_comes_back_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Ledgers, "floor", lambda self, partition: NONE)
    assert "came back" in _found()


def test_a_ledger_stays_forgotten_after_kill_9_right_after_the_answer(tmp_path: Path) -> None:
    queries = [f"spark:{number}" for number in range(12)]
    with ServedBroker(tmp_path) as served:
        with headrace.connect(served.address) as client:
            write = client.admin.draw_write()
            for query in queries:
                client.admin.open_member(query, write, "0", 1)
                client.admin.commit_batch(query, 7, [])
        for round_ in range(3):
            with headrace.connect(served.address) as client:
                for query in queries[round_ * 3 : round_ * 3 + 3]:
                    assert client.admin.forget_ledger(query) == 7
                served.kill()
            served.start()
            with headrace.connect(served.address) as client:
                left = sorted(queries[round_ * 3 + 3 :])
                assert [(ledger.query, ledger.batch) for ledger in client.admin.ledgers()] == [(q, 7) for q in left]
                with pytest.raises(errors.ProducerFenced):
                    client.admin.open_member(queries[0], write, "0", 1)
