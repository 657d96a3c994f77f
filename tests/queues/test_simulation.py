"""Queues on a simulated node, from seeds: members and node die, the disk fails, and every promise holds."""

from __future__ import annotations

import pytest

from headrace.broker.queues import queue, settings
from headrace.broker.queues.events import Buried
from headrace.broker.queues.machine import Machine
from headrace.broker.queues.queue import Queue
from headrace.broker.queues.settling import Settling
from headrace.broker.queues.state import QueueState
from headrace.broker.queues.window import Window
from headrace.testing.history import Violation
from headrace.testing.queue_simulation import Options, run

MANY = range(200, 230)


@pytest.mark.parametrize("seed", range(1, 9))
def test_nothing_is_lost_nothing_acknowledged_comes_again_and_at_most_once_is_at_most_once(seed):
    result = run(seed)
    assert result.published > 100 and result.deliveries > result.published


def test_without_faults_of_the_node_nothing_is_lost_at_most_once_either():
    for seed in range(300, 303):
        run(seed, Options(faults=0))


def test_the_same_seed_gives_the_same_run():
    assert run(7) == run(7)


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_same_over_five_hundred_seeds():
    for seed in range(1000, 1500):
        run(seed)


# Bugs, planted on purpose


def found_by(seeds):
    for seed in seeds:
        try:
            run(seed)
        except Violation as violation:
            return str(violation)
    return ""


def test_acknowledging_before_it_is_kept_is_found(monkeypatch):
    honest = QueueState.append

    def early(self, name, entries, done):
        honest(self, name, entries, lambda error: None)
        done(None)

    monkeypatch.setattr(QueueState, "append", early)
    assert found_by(MANY)


def test_delivering_at_most_once_before_the_position_is_kept_is_found(monkeypatch):
    def hasty(self, window):
        while window.ready:
            entry = window.claim_next()
            window.claimed.clear()
            self._batch(self.members.next_even_if_full(), window, entry)
        self._changed(window)

    monkeypatch.setattr(Machine, "_claim", hasty)
    assert "twice" in found_by(MANY)


def test_settling_before_the_dead_letter_is_safe_is_found(monkeypatch):
    monkeypatch.setattr(
        Queue, "_bury", lambda self, wish: self._note(Buried(wish.partition, wish.record.offset)) and None
    )
    assert "lost" in found_by(MANY)


def test_an_attempt_limit_that_is_not_held_is_found(monkeypatch):
    monkeypatch.setattr(Settling, "_is_last", lambda self, entry: False)
    assert "are the limit" in found_by(MANY)


def test_a_lock_that_ends_too_early_is_found(monkeypatch):
    monkeypatch.setattr(queue, "policy", lambda *of: settings.policy(*of)._replace(lock_s=1.0))
    assert "while somebody had it" in found_by(MANY)


def test_forgetting_what_is_pending_is_found(monkeypatch):
    honest = Window.snapshot
    monkeypatch.setattr(Window, "snapshot", lambda self: honest(self)._replace(pending={}))
    assert "lost" in found_by(MANY)


def test_dropping_what_was_read_when_nobody_is_left_is_found(monkeypatch):
    def careless(self):
        for offset in self.ready:
            self.bytes -= self.entries.pop(offset).size
        self.ready.clear()

    monkeypatch.setattr(Window, "forget_ready", careless)
    assert "lost" in found_by(MANY)


def test_counting_attempts_wrong_is_found(monkeypatch):
    honest = Window.put_back

    def forgetful(self, entries):
        for entry in entries:
            entry.attempts = 0
        honest(self, entries)

    monkeypatch.setattr(Window, "put_back", forgetful)
    assert "counted as attempt" in found_by(MANY)
