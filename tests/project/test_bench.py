"""The benchmark's own parts: a wrong ruler is worse than none."""

from __future__ import annotations

import pytest

from bench import raw, report
from bench.rows import GROWTH, ROWS
from headrace.records.batch import validate
from headrace.records.codec import decode


def test_the_hand_made_batch_is_a_batch_to_our_own_reader() -> None:
    made = bytearray(raw.batch(10, b"value"))
    header = validate(made)
    assert (header.record_count, header.size) == (10, len(made))
    assert [record.value for record in decode(bytes(made))] == [b"value"] * 10


def results(ours: float, kafka: float) -> report.Results:
    measured = report.Results()
    for noise in (0.9, 1.0, 1.2):
        measured.add("headrace", {"produce_100": {"cpu": ours * noise}})
        measured.add("kafka", {"produce_100": {"cpu": kafka * noise}})
    return measured


@pytest.mark.parametrize(("ours", "word"), [(0.39, "PASS"), (0.41, "short")])
def test_a_goal_is_judged_on_the_ratio_of_medians(ours: float, word: str) -> None:
    assert results(ours, 1.0).verdict(ROWS["produce_100"], "cpu").startswith(word)


def test_growth_is_judged_on_the_worst_column_against_the_first() -> None:
    measured = report.Results()
    measured.add_growth("partitions", {1: 1.0, 100: 1.3, 1000: 1.1})
    assert measured.verdict(GROWTH["partitions"], "cpu").startswith("short")


def test_a_row_that_was_not_measured_is_not_in_the_table() -> None:
    assert [line[0] for line in report.lines(results(1.0, 2.0))] == ["work", "produce 100 B, acks=1"]
