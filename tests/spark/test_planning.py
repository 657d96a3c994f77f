"""Which task reads what: every offset once, in few tasks of about the same size."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.client.values import TopicPartition
from headrace.spark.offsets import Place, place_of
from headrace.spark.planning import Range, limited, rounds, tasks

SIZES = st.lists(st.integers(0, 5_000), min_size=1, max_size=40)


def ranges(sizes: list[int]) -> list[Range]:
    return [Range("t", index, 100, 100 + size) for index, size in enumerate(sizes)]


@given(SIZES, st.none() | st.integers(1, 60), st.none() | st.integers(1, 3_000))
def test_tasks_hold_every_offset_once(sizes: list[int], least: int | None, most: int | None) -> None:
    found = tasks(ranges(sizes), 2_000, least, most)
    seen = sorted((one.partition, offset) for task in found for one in task for offset in (one.start, one.end - 1))
    pieces = sorted(one for task in found for one in task)
    for index, size in enumerate(sizes):
        mine = [one for one in pieces if one.partition == index]
        assert sum(one.size for one in mine) == size
        assert all(before.end == after.start for before, after in pairwise(mine))
    assert all(one.size > 0 for one in pieces) and len(seen) == 2 * len(pieces)
    if least is not None:
        assert len(found) >= min(least, sum(sizes))
    if most is not None:
        assert all(sum(one.size for one in task) <= most for task in found)


def test_small_partitions_share_tasks_of_about_the_same_size() -> None:
    found = tasks(ranges([100] * 50), 1_000)
    assert len(found) == 5
    assert {sum(one.size for one in task) for task in found} == {1_000}
    assert len(tasks(ranges([10_000]), 1_000)) == 1  # in order, so not split
    assert tasks(ranges([0, 0]), 1_000, 7) == []


@given(SIZES, st.integers(1, 20_000))
def test_a_limit_is_kept_and_progress_is_made(sizes: list[int], most: int) -> None:
    starts = {TopicPartition("t", index): 7 for index in range(len(sizes))}
    ends = {TopicPartition("t", index): 7 + size for index, size in enumerate(sizes)}
    found = limited(starts, ends, most)
    taken = sum(found[where] - starts[where] for where in starts)
    assert taken == min(most, sum(sizes))
    assert all(starts[where] <= found[where] <= ends[where] for where in starts)


@given(SIZES, st.integers(1, 20_000))
def test_a_limit_leaves_no_partition_out_that_has_something(sizes: list[int], most: int) -> None:
    starts = {TopicPartition("t", index): 7 for index in range(len(sizes))}
    ends = {TopicPartition("t", index): 7 + size for index, size in enumerate(sizes)}
    waiting = [where for where in starts if starts[where] < ends[where]]
    found = limited(starts, ends, most)
    assert sum(found[where] > starts[where] for where in waiting) >= min(most, len(waiting))
    fair = min(1.0, max(0, most - len(waiting)) / max(1, sum(sizes)))
    assert all(found[where] - starts[where] >= int(fair * (ends[where] - starts[where] - 1)) for where in waiting)


@given(st.integers(1, 40), st.integers(1, 60), st.integers(0, 1000))
def test_partitions_take_turns_below_a_limit_that_is_smaller_than_their_number(
    count: int, most: int, first: int
) -> None:
    starts = {TopicPartition("t", index): first for index in range(count)}
    ends = dict.fromkeys(starts, 1000000)
    at = dict(starts)
    for _ in range(-(-count // most)):
        at = limited(at, ends, most)
    assert all(at[where] > starts[where] for where in starts)


def test_a_small_partition_does_not_wait_for_a_large_one() -> None:
    large, small = TopicPartition("t", 0), TopicPartition("t", 1)
    at, ends = {large: 0, small: 0}, {large: 1_000_000, small: 5}
    for batch in range(1, 6):
        at = limited(at, ends, 1000)
        assert at == {large: 999 * batch, small: batch}


def test_ranges_of_one_partition_are_read_one_after_the_other() -> None:
    found = rounds([Range("t", 0, 5, 9), Range("t", 1, 0, 3), Range("t", 0, 0, 5)])
    assert found == [[Range("t", 0, 0, 5), Range("t", 1, 0, 3)], [Range("t", 0, 5, 9)]]


@pytest.mark.parametrize("group", [None, "g"])
def test_a_place_comes_back_from_its_text(group: str | None) -> None:
    offsets = {TopicPartition("t", index): index for index in range(12)}
    place = Place(offsets=offsets, ids={"t": "x"}, began=offsets, group=group, servers="h:1" if group else None)
    assert place_of(place.to_json()) == place
    assert list(place.to_json()["t"]) == [str(index) for index in range(12)]
