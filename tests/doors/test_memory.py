"""The budget for frames on their way in."""

from __future__ import annotations

from headrace.doors.kafka.limits import FIRST_STEP_BYTES
from headrace.doors.kafka.memory import RequestMemory

MIB = 1 << 20


def test_a_usual_frame_is_made_whole_at_once_and_a_huge_claim_is_not() -> None:
    memory = RequestMemory(64 * MIB)
    assert memory.first_step(MIB) == MIB
    assert memory.first_step(100 * MIB) == FIRST_STEP_BYTES


def test_when_memory_is_short_a_claim_costs_only_what_has_come() -> None:
    memory = RequestMemory(4 * MIB)
    assert memory.take("a", 2 * MIB, lambda: None)
    assert memory.first_step(MIB) == FIRST_STEP_BYTES


def test_past_the_budget_connections_take_turns_in_the_order_they_came() -> None:
    memory = RequestMemory(4 * MIB)
    woken: list[str] = []
    assert memory.take("a", 4 * MIB, lambda: woken.append("a"))
    assert memory.take("a", MIB, lambda: woken.append("a"))  # the first in line may always go on
    assert not memory.take("b", MIB, lambda: woken.append("b"))
    assert not memory.take("c", MIB, lambda: woken.append("c"))
    memory.give_back("a", 5 * MIB)
    assert woken == ["b", "c"]  # there is room for both
    assert memory.take("b", MIB, lambda: None)
    memory.give_back("b", MIB)
    assert memory.take("c", MIB, lambda: None)
    memory.give_back("c", MIB)
    assert memory.used_bytes == 0


def test_the_budget_is_passed_by_one_frame_at_most_so_that_there_is_always_one_who_goes_on() -> None:
    memory = RequestMemory(MIB)
    woken: list[str] = []
    assert memory.take("a", MIB, lambda: None)
    assert memory.take("b", MIB, lambda: woken.append("b"))
    assert not memory.take("c", MIB, lambda: woken.append("c"))
    memory.give_back("b", MIB)  # gone, finished or closed
    assert woken == ["c"]
    assert memory.take("c", MIB, lambda: None)
    memory.give_back("c", MIB)
    memory.give_back("a", MIB)
    assert memory.used_bytes == 0


def test_the_first_in_line_is_woken_even_past_the_budget_because_all_others_may_wait_too() -> None:
    memory = RequestMemory(4 * MIB)
    woken: list[str] = []
    assert memory.take("a", 4 * MIB, lambda: None)
    assert memory.take("a", MIB, lambda: None)
    assert not memory.take("b", MIB, lambda: woken.append("b"))
    assert not memory.take("c", MIB, lambda: woken.append("c"))
    memory.used_bytes += 6 * MIB  # what b and c had received when they were made to wait
    memory.give_back("a", 5 * MIB)
    assert woken == ["b"]
