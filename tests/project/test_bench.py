"""The benchmark's own parts: a wrong ruler is worse than none."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace
from bench import raw, report
from bench.producers import Producers, cores
from bench.rdkafka import LoadError
from bench.rows import GROWTH, ROWS
from headrace.records.batch import validate
from headrace.records.codec import decode
from headrace.testing.served import ServedBroker


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
    measured.add_growth("partitions", {5: 1.0, 100: 1.3, 1000: 1.1})
    assert measured.verdict(GROWTH["partitions"], "cpu").startswith("short")


def test_growth_is_judged_from_where_the_work_is_equal() -> None:
    """One partition with five requests in flight writes batches five times as large."""
    measured = report.Results()
    measured.add_growth("partitions", {1: 0.7, 5: 1.0, 100: 1.1, 1000: 1.1})
    assert measured.verdict(GROWTH["partitions"], "cpu").startswith("PASS")
    told = {line[1].split()[0]: line[4] for line in report.growth_lines(measured, GROWTH["partitions"])}
    assert told == {"1": "0.70x", "5": "1.00x", "100": "1.10x", "1,000": "1.10x"}
    measured = report.Results()
    measured.add_growth("partitions_single", {1: 0.7, 100: 1.0, 1000: 1.0})
    assert measured.verdict(GROWTH["partitions_single"], "cpu").startswith("short")


def test_a_row_that_was_not_measured_is_not_in_the_table() -> None:
    assert [line[0] for line in report.lines(results(1.0, 2.0))] == ["work", "produce 100 B, acks=1"]


def test_producers_on_every_core_send_all_the_records_between_them(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker, headrace.connect(broker.address) as client:
        client.admin.create_topic("crowd", partitions=len(cores()))
        with Producers(broker.address, "crowd", 100, 54_321) as producers:
            producers.run()
        ends = client.admin.offsets("crowd", "end")
        assert sum(at.offset for at in ends.values()) == 54_321 + len(cores()), "and one that connected each"


def test_a_producer_that_cannot_work_is_an_error_and_leaves_none_behind() -> None:
    with pytest.raises(LoadError, match=r"a producer ended early: (?s:.*)must be >= 0"):
        Producers("127.0.0.1:9", "crowd", -1, 10)
