"""Counters and histograms themselves, and what they cost."""

from __future__ import annotations

import asyncio
import sys
from itertools import accumulate
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import metrics
from headrace.doors.kafka import metrics as kafka_metrics
from headrace.doors.kafka.metrics import SLOW_PAUSE_S, SLOW_S, KafkaMetrics
from headrace.metrics import Histogram, Traffic
from headrace.node.metrics.sheet import Sheet
from headrace.node.metrics.text import buckets
from headrace.wire.kafka import header
from tests.doors_http.running import running
from tests.support import Wire, batch_of


@given(st.lists(st.floats(0, 1000), max_size=50))
def test_a_histogram_says_of_every_bound_how_many_are_below(values: list[float]) -> None:
    histogram = Histogram()
    for value in values:
        histogram.observe(value)
    below = list(accumulate(histogram.counts))
    assert below[-1] == len(values)
    assert histogram.sum == pytest.approx(sum(values))
    for place in range(4, 30):
        bound = histogram.bound(place)
        slack = bound * 1e-9  # a float's own
        assert (
            sum(value < bound - slack for value in values)
            <= below[place]
            <= sum(value < bound + slack for value in values)
        )


def test_several_at_once_count_as_often() -> None:
    histogram = Histogram()
    histogram.observe(0.5, 7)
    assert (sum(histogram.counts), histogram.sum) == (7, 3.5)


def test_a_histogram_of_things_counts_things() -> None:
    histogram = Histogram(unit=1)
    for logs in (1, 1, 2, 3, 32):
        histogram.observe(logs)
    sheet = Sheet()
    sheet.spread("headrace_log_sync_logs", histogram)
    ((_, spread),) = sheet.values["headrace_log_sync_logs"]
    assert not isinstance(spread, float)
    shown = [("1.0", 2.0), ("3.0", 4.0), ("7.0", 4.0), ("15.0", 4.0), ("31.0", 4.0), ("+Inf", 5.0)]
    assert buckets(spread) == shown


def test_what_a_deleted_topic_had_is_not_forgotten() -> None:
    gone, topic = Traffic(), Traffic()
    topic.appended_bytes, topic.read_records = 5, 7
    gone.add(topic)
    gone.add(topic)
    assert (gone.appended_bytes, gone.read_records, gone.read_bytes) == (10, 14, 0)


def test_labels_that_a_metric_does_not_have_are_a_mistake() -> None:
    with pytest.raises(AssertionError, match="takes the labels"):
        Sheet().put("headrace_topics", 1, "surplus")


def test_slow_requests_are_told_once_in_a_while_with_how_many_there_were() -> None:
    told: list[tuple[int, float, int]] = []
    now = 100.0
    kafka = KafkaMetrics(lambda: now, lambda *slow: told.append(slow))
    kafka.done(0, SLOW_S / 2)
    kafka.done(0, SLOW_S, 3)
    kafka.done(1, SLOW_S * 2)
    assert told == [(0, SLOW_S, 3)]
    now += SLOW_PAUSE_S
    kafka.done(1, SLOW_S * 3)
    assert told == [(0, SLOW_S, 3), (1, SLOW_S * 3, 2)]


def test_who_waits_for_the_other_members_of_a_group_is_not_slow() -> None:
    told: list[int] = []
    kafka = KafkaMetrics(lambda: 0.0, lambda api_key, took_s, count: told.append(api_key))
    kafka.done(header.JOIN_GROUP, 60.0)
    kafka.done(header.SYNC_GROUP, 60.0)
    assert told == []
    kafka.done(header.HEARTBEAT, 60.0)
    assert told == [header.HEARTBEAT]
    assert sum(kafka.times[header.JOIN_GROUP].counts) == 1


async def test_a_sample_of_the_quick_requests_is_timed_and_every_one_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t")
        await web.produce("t", [b"x"])  # opens the log, which is timed always
        kafka = web.node.kafka.metrics
        timed, counted = sum(kafka.times[0].counts), kafka.produced
        address = str(web.node.addresses["kafka"])
        await asyncio.to_thread(one_after_the_other, address, 160)
        assert kafka.produced - counted == 160
        assert sum(kafka.times[0].counts) - timed in range(18, 21)


def one_after_the_other(address: str, requests: int) -> None:
    with Wire(address) as wire:
        for _ in range(requests):
            assert wire.produce("t", batch_of([b"x"])).error == 0


async def test_counting_is_a_small_part_of_what_a_turn_costs(tmp_path: Path) -> None:
    """Counted in the interpreter's own steps: they do not depend on the machine."""
    async with running(tmp_path) as web:
        await web.create("t")
        await web.produce("t", [b"x"])
        steps = {"counting": 0, "all": 0}

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if "/headrace/" not in frame.f_code.co_filename:
                return None
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            if event == "opcode":
                steps["all"] += 1
                steps["counting"] += frame.f_code.co_filename in (kafka_metrics.__file__, metrics.__file__)
            return step

        sys.settrace(step)
        try:
            await web.produce("t", [b"x"], requests=200)
        finally:
            sys.settrace(None)
    assert 0 < steps["counting"] <= steps["all"] * 0.02
