"""The lease table, step by step, and over many seeds against what each consumer may believe."""

from __future__ import annotations

import random

import pytest

from headrace.broker import lease_table
from headrace.broker.lease_table import Full, Granted, Heard, LeaseTable, Outcome, Place, Taken, TopicGone

LEASE_S = 10.0
PLACE = Place("t", "g")


def heard(table: LeaseTable, now: float, consumer: str, place: Place = PLACE) -> Outcome:
    return table.step(now, Heard(place, consumer))


def test_a_lease_is_one_consumers_until_its_time_is_up_and_not_longer() -> None:
    table = LeaseTable(LEASE_S, 10)
    assert heard(table, 0.0, "a") == Granted(10.0)
    assert heard(table, 9.999, "b") == Taken("a")
    assert heard(table, 10.0, "b") == Granted(20.0)
    assert heard(table, 10.0, "a") == Taken("b")


def test_who_is_heard_of_in_time_keeps_it() -> None:
    table = LeaseTable(LEASE_S, 10)
    for now in (0.0, 9.0, 18.0, 27.0):
        assert heard(table, now, "a") == Granted(now + LEASE_S)
        assert heard(table, now + 8.9, "b") == Taken("a")


def test_groups_and_topics_are_each_their_own() -> None:
    table = LeaseTable(LEASE_S, 10)
    for consumer, place in (("a", PLACE), ("b", Place("t", "h")), ("c", Place("u", "g"))):
        assert heard(table, 0.0, consumer, place) == Granted(10.0)
    assert [(place, lease.consumer) for place, lease in table.held(1.0)] == [
        (PLACE, "a"),
        (Place("t", "h"), "b"),
        (Place("u", "g"), "c"),
    ]
    assert list(table.held(10.0)) == []


def test_a_full_table_refuses_a_new_group_keeps_the_old_and_has_room_when_one_ran_out() -> None:
    table = LeaseTable(LEASE_S, 2)
    heard(table, 0.0, "a", Place("t", "1"))
    heard(table, 1.0, "a", Place("t", "2"))
    assert heard(table, 2.0, "a", Place("t", "3")) == Full(2)
    assert heard(table, 2.0, "b", Place("t", "1")) == Taken("a")
    assert heard(table, 2.0, "a", Place("t", "1")) == Granted(12.0)  # now the second ends first
    assert heard(table, 11.0, "a", Place("t", "3")) == Granted(21.0)
    assert heard(table, 11.0, "b", Place("t", "2")) == Full(2)


def test_a_topic_that_goes_frees_its_leases_and_no_others() -> None:
    table = LeaseTable(LEASE_S, 3)
    for place in (PLACE, Place("t", "h"), Place("u", "g")):
        heard(table, 0.0, "a", place)
    assert table.step(1.0, TopicGone("t")) is None
    assert table.step(1.0, TopicGone("nowhere")) is None
    assert [place for place, _ in table.held(1.0)] == [Place("u", "g")]
    assert heard(table, 1.0, "b") == Granted(11.0)


def test_a_step_forgets_a_few_of_many_that_ran_out_and_what_it_did_not_is_free_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lease_table, "FORGOTTEN_AT_ONCE", 3)
    table = LeaseTable(LEASE_S, 10)
    for number in range(10):
        heard(table, 0.0, "a", Place("t", str(number)))
    assert heard(table, 10.0, "b", Place("t", "9")) == Granted(20.0)
    assert len(table) == 7
    table.step(10.0, TopicGone("t"))
    assert len(table) == 0


# From seeds


class Violation(AssertionError):
    pass


class Believed:
    """What consumers know: each grant, and until when. The checker's own account, kept without looking inside."""

    def __init__(self, max_leases: int) -> None:
        self._max_leases = max_leases
        self._held: dict[Place, tuple[str, float]] = {}
        self.grants = self.handovers = self.refusals = self.fulls = 0

    def live(self, now: float) -> dict[Place, tuple[str, float]]:
        return {place: lease for place, lease in self._held.items() if lease[1] > now}

    def check(self, now: float, event: Heard, outcome: Outcome) -> None:
        live = self.live(now)
        holder = live.get(event.place, (None, 0.0))[0]
        match outcome:
            case Granted(until):
                if holder not in (None, event.consumer):
                    raise Violation(f"{event.consumer} got {event.place} at {now} while {holder} held it")
                if until != now + LEASE_S:
                    raise Violation(f"{event.place} is granted until {until} at {now}")
                self.grants += 1
                self.handovers += self._held.get(event.place, (event.consumer, 0.0))[0] != event.consumer
                self._held[event.place] = event.consumer, until
                if len(self.live(now)) > self._max_leases:
                    raise Violation(f"more than {self._max_leases} leases at {now}")
            case Taken(other):
                if holder is None or holder != other or holder == event.consumer:
                    raise Violation(
                        f"{event.consumer} was refused {event.place} at {now} for {other}; holder: {holder}"
                    )
                self.refusals += 1
            case Full():
                if holder == event.consumer:
                    raise Violation(f"{holder} was displaced from {event.place} at {now} though it came in time")
                if len(live) < self._max_leases:
                    raise Violation(f"full with {len(live)} of {self._max_leases} leases at {now}")
                self.fulls += 1
            case None:
                raise Violation("no outcome")

    def gone(self, topic: str) -> None:
        self._held = {place: lease for place, lease in self._held.items() if place.topic != topic}


def run(seed: int, steps: int = 300) -> tuple[Believed, list[str]]:
    """Consumers come, stay away and come back; topics go. What was seen, and every step as text."""
    chance = random.Random(seed)
    max_leases = chance.choice((2, 5, 100))
    table, believed = LeaseTable(LEASE_S, max_leases), Believed(max_leases)
    pace_s, now, trace = chance.choice((0.1, 1.0, 6.0)), 0.0, []
    for _ in range(steps):
        now += chance.choice((0.0, chance.uniform(0, 2 * pace_s), LEASE_S if chance.random() < 0.05 else 0.0))
        if chance.random() < 0.02:
            topic = chance.choice("tu")
            table.step(now, TopicGone(topic))
            believed.gone(topic)
            trace.append(f"{now} gone {topic}")
        else:
            event = Heard(Place(chance.choice("tu"), chance.choice("ghijk")), chance.choice("abc"))
            outcome = table.step(now, event)
            trace.append(f"{now} {event} {outcome}")
            believed.check(now, event, outcome)
        held = {place: (lease.consumer, lease.until) for place, lease in table.held(now)}
        if held != believed.live(now):
            raise Violation(f"at {now} the table has {held}, and consumers believe {believed.live(now)}")
        if len(table) > max_leases:
            raise Violation(f"{len(table)} leases are kept")
    return believed, trace


def test_over_many_seeds_a_group_has_one_holder_and_who_renews_in_time_is_not_displaced() -> None:
    seen = [run(seed)[0] for seed in range(500)]
    for what in ("grants", "handovers", "refusals", "fulls"):
        assert sum(getattr(one, what) for one in seen) > 1000, f"too few {what} for the run to mean anything"


def test_the_same_seed_gives_the_same_run() -> None:
    assert run(7)[1] == run(7)[1]


# Bugs, planted on purpose


def found_by_seeds() -> str:
    for seed in range(100):
        try:
            run(seed)
        except Violation as violation:
            return str(violation)
    return ""


def test_a_lease_that_another_gets_a_moment_early_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LeaseTable._heard

    def early(self: LeaseTable, now: float, place: Place, consumer: str) -> Outcome:
        lease = self._leases.get(place)
        if lease is not None and lease.until - now < 0.5:
            del self._leases[place]
        return honest(self, now, place, consumer)

    monkeypatch.setattr(LeaseTable, "_heard", early)
    assert "held it" in found_by_seeds()


def test_an_order_that_is_not_that_of_their_ends_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = LeaseTable._heard

    def to_the_front(self: LeaseTable, now: float, place: Place, consumer: str) -> Outcome:
        outcome = honest(self, now, place, consumer)
        if place in self._leases:
            self._leases = {place: self._leases.pop(place), **self._leases}
        return outcome

    monkeypatch.setattr(LeaseTable, "_heard", to_the_front)
    assert "full with" in found_by_seeds()
