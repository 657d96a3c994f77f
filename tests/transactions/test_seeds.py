"""Transactions through every fault of the simulated world; and bugs planted on purpose, which such runs must find."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.broker.partition import Partition
from headrace.broker.transactions import marking, rules
from headrace.broker.transactions.events import Answer, Append, WriteMarkers
from headrace.broker.transactions.machine import Machine
from headrace.doors.kafka import transacting
from headrace.errors import HeadraceError
from headrace.log import rescan, staging
from headrace.log.producers import Producers
from headrace.log.transactions import Transactions
from headrace.testing.faults import KINDS
from headrace.testing.simulation import Options
from tests.transactions.simulated import Violation, run

OPTIONS = Options(duration_s=4.0)
PLANTED = Options(duration_s=4.0, kinds="kill,power,reset")
SEEDS = range(40)


@pytest.mark.parametrize("seed", range(20))
def test_a_transaction_is_whole_or_not_there_whatever_happens(seed: int) -> None:
    assert run(seed, OPTIONS).transactions


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_under_each_fault_alone(kind: str) -> None:
    run(1, Options(kinds=kind, duration_s=3.0))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_for_a_thousand_seeds() -> None:
    for seed in range(20_000, 21_000):
        run(seed, OPTIONS)


def _found(options: Options = PLANTED) -> str:
    for seed in SEEDS:
        try:
            run(seed, options)
        except Violation as violation:
            return str(violation)
    pytest.fail("not found")


def _found_by_power_loss() -> str:
    """What is wrong only between a write and its sync: the power fails at one change of the disk after the other."""
    for change in range(200, 900, 3):
        try:
            run(change, Options(duration_s=1.5, most_faults=0, producers=4, power_at=change))
        except Violation as violation:
            return str(violation)
    pytest.fail("not found")


def test_power_may_fail_at_any_change_of_the_disk() -> None:
    for change in range(200, 900, 70):
        run(change, Options(duration_s=1.5, most_faults=0, producers=4, power_at=change))


def test_without_a_bug_these_seeds_pass() -> None:
    for seed in SEEDS[:5]:
        run(seed, PLANTED)


def test_a_lost_abort_marker_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = marking.mark

    def lossy(broker: Any, wanted: Any, place: Any, done: Callable[[], None]) -> None:
        if wanted.transaction.is_commit:
            honest(broker, wanted, place, done)
        else:
            done()

    monkeypatch.setattr("headrace.broker.transactions.coordinator.mark", lossy)
    assert "hangs" in _found()


def test_an_abort_marker_written_as_a_commit_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Partition.append_marker

    def wrong(
        self: Partition, producer_id: int, epoch: int, coordinator: int, commit: bool, *rest: Any, **more: Any
    ) -> Any:
        return honest(self, producer_id, epoch, coordinator, True, *rest, **more)

    monkeypatch.setattr(Partition, "append_marker", wrong)
    found = _found()
    assert "aborted" in found or "torn" in found or "committed" in found


def test_a_stale_epoch_that_is_accepted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the coordinator: who was fenced ends the transaction of its successor."""
    monkeypatch.setattr(rules, "check_known", lambda known, producer_id, epoch: None)
    monkeypatch.setattr(transacting, "check", lambda pending, part, buffer: None)
    monkeypatch.setattr("headrace.log.producers._check_epoch", lambda header, epoch: None)
    assert _found()


def test_answering_a_commit_before_it_is_synced_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Machine.step

    def hasty(self: Machine, now_ms: int, event: Any) -> Any:
        effects = honest(self, now_ms, event)
        for effect in list(effects):
            if isinstance(effect, Append):
                for name, state in effect.states:
                    ticket = self.entries[name].ticket
                    if state is not None and state.state.is_prepared and ticket is not None:
                        self.entries[name].ticket = None
                        effects.insert(0, Answer(ticket, state.given))
        return effects

    monkeypatch.setattr(Machine, "step", hasty)
    assert _found_by_power_loss()


def test_markers_before_the_decision_is_synced_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that is told to partitions and then forgotten by its coordinator."""
    honest = Machine.step

    def hasty(self: Machine, now_ms: int, event: Any) -> Any:
        effects = honest(self, now_ms, event)
        for effect in list(effects):
            if isinstance(effect, Append):
                for _, state in effect.states:
                    if state is not None and state.state.is_prepared:
                        effects.insert(0, WriteMarkers(state, 0, tuple(state.partitions)))
        return effects

    monkeypatch.setattr(Machine, "step", hasty)
    assert _found_by_power_loss()


def test_forgetting_what_is_prepared_at_a_restart_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Machine, "_mark", _mark_nothing(Machine._mark))
    assert _found()


def _mark_nothing(honest: Any) -> Any:
    def mark(self: Machine, now_ms: int, entry: Any) -> None:
        if entry.current.updated_ms < now_ms - 50:  # only after a start does it come this late
            return
        honest(self, now_ms, entry)

    return mark


def test_forgetting_open_transactions_when_a_log_is_opened_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rescan, "decode_marker", lambda batch: None)
    assert _found()


def test_showing_what_is_not_stable_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def settle(self: Any) -> None:
        self.stable_offset = self.written_offset

    monkeypatch.setattr(staging.Staging, "_settle", settle)
    assert "read as committed" in _found()


def test_an_index_of_aborted_ones_that_misses_some_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = Transactions.aborted
    monkeypatch.setattr(Transactions, "aborted", lambda self, low, high: honest(self, low, high)[1:])
    assert _found()


def test_taking_batches_without_asking_the_coordinator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that comes after the end begins a transaction that nobody ends."""
    honest = Producers.check

    def check(self: Producers, header: Any, now_ms: int) -> Any:
        try:
            return honest(self, header, now_ms)
        except HeadraceError:
            return None

    async def join(pending: Any, buffer: Any) -> None:
        pass

    monkeypatch.setattr(Producers, "check", check)
    monkeypatch.setattr(transacting, "join", join)
    monkeypatch.setattr(transacting, "check", lambda pending, part, buffer: None)
    assert _found()
