"""A group on a simulated node, from seeds: members and node die, messages get lost, and every promise holds."""

from __future__ import annotations

import pytest

from headrace.broker.groups.generation import Generation
from headrace.broker.groups.group import Group
from headrace.broker.groups.hosting import Hosting
from headrace.testing.group_simulation import MEMBERS, Options, run
from headrace.testing.history import Violation

MANY = range(100, 120)


@pytest.mark.parametrize("seed", range(1, 13))
def test_owners_are_single_positions_never_move_back_and_the_group_settles(seed):
    assert run(seed).generation > 0


@pytest.mark.parametrize("seed", range(20, 26))
def test_the_same_with_members_that_hold_on_to_what_they_have(seed):
    assert run(seed, Options(is_cooperative=True)).generation > 0


def test_the_number_of_members_varies_up_to_two_hundred_with_the_seed():
    varied = [Options.varied(seed) for seed in range(1000, 1500)]
    assert {options.members for options in varied} == set(MEMBERS) and max(MEMBERS) == 200
    assert 200 < sum(options.is_cooperative for options in varied) < 300
    assert any(options.is_cooperative and options.members == 200 for options in varied)


def test_the_same_seed_gives_the_same_run():
    assert run(7) == run(7)
    assert run(8, Options(is_cooperative=True)) == run(8, Options(is_cooperative=True))


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_same_over_five_hundred_seeds():
    for seed in range(1000, 1500):
        run(seed, Options.varied(seed))


@pytest.mark.long
@pytest.mark.timeout(900)
def test_two_hundred_members_that_come_and_go():
    for seed in range(3):
        run(seed, Options(members=200, partitions=300, faults=2))


def found_by(seeds, options=None):
    for seed in seeds:
        try:
            run(seed, options)
        except Violation as violation:
            return str(violation)
    return ""


def test_a_coordinator_that_lets_everybody_commit_is_found_out(monkeypatch):
    monkeypatch.setattr(Generation, "check_commit", lambda *_, **__: None)
    assert "moved back" in found_by(MANY)
    assert "moved back" in found_by(MANY, Options(is_cooperative=True))


def test_a_coordinator_that_tells_before_it_keeps_is_found_out(monkeypatch):
    append = Hosting._append

    def early(self, hosted, entries, done, producer=None):
        append(self, hosted, entries, lambda error: None, producer)
        done(None)

    monkeypatch.setattr(Hosting, "_append", early)
    assert "acknowledged" in found_by(MANY) or "two owners" in found_by(MANY)


def test_a_group_that_does_not_count_its_generations_is_found_out(monkeypatch):
    complete = Group._complete_join

    def forgetful(self):
        complete(self)
        self.generation = 1

    monkeypatch.setattr(Group, "_complete_join", forgetful)
    assert found_by(MANY)
