"""A real process under load while it is scraped: the text stays right, and nobody is held up by it."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from headrace.testing.served import ServedBroker
from tests.metrics.promtool import complaints, families
from tests.support import Bystander, open_files, rss_bytes

MIB = 1 << 20
SCRAPES = 60


def rising(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Everything that may only rise."""
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families(text).values()
        if family.type in ("counter", "histogram")
        for sample in family.samples
    }


def test_scrapes_under_load_are_right_and_hold_nobody_up(tmp_path: Path) -> None:
    with (
        ServedBroker(tmp_path) as broker,
        httpx.Client(base_url=f"http://{broker.http}", timeout=30) as web,
        Bystander(broker.address, 10_000, pause_s=0) as one,
        Bystander(broker.address, 100, topic="another", pause_s=0) as other,
    ):
        last: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
        files = memory = 0
        for number in range(SCRAPES):
            text = web.get("/metrics/prometheus").text
            assert complaints(text) == []
            now = rising(text)
            assert not {key for key, value in last.items() if now[key] < value}
            last = now
            if number == SCRAPES // 4:
                files, memory = open_files(broker.pid), rss_bytes(broker.pid)
        one.assert_undisturbed()
        other.assert_undisturbed()
        assert open_files(broker.pid) <= files + 5
        assert rss_bytes(broker.pid) < memory + 30 * MIB
        produced = last["headrace_kafka_requests_total", (("api", "Produce"),)]
        assert 0 < produced <= one.rounds + other.rounds + 2
        assert last["headrace_appended_records_total", ()] <= one.rounds + other.rounds + 2
    assert "node.fault" not in broker.log()


def test_a_node_that_nobody_asks_stays_small(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        assert rss_bytes(broker.pid) < 60 * MIB


# The checks themselves: a ruler that finds nothing is none.

GOOD = """\
# HELP headrace_things_total Things.
# TYPE headrace_things_total counter
headrace_things_total{kind="a"} 1.0
# HELP headrace_time_seconds Times.
# TYPE headrace_time_seconds histogram
headrace_time_seconds_bucket{le="1.0"} 1.0
headrace_time_seconds_bucket{le="+Inf"} 2.0
headrace_time_seconds_count 2.0
headrace_time_seconds_sum 3.0
"""


def test_a_good_text_passes_the_checks() -> None:
    assert complaints(GOOD) == []


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("# HELP headrace_things_total Things.\n", ""),
        ("headrace_things_total", "headrace_things"),
        ("Things.", "Things"),
        ("headrace_time_seconds", "headrace_time_ms"),
        ("headrace_things", "other_things"),
        ('headrace_things_total{kind="a"} 1.0\n', 'headrace_things_total{kind="a"} 1.0\n' * 2),
        ('headrace_things_total{kind="a"} 1.0', 'headrace_things_total{kind="a"} NaN'),
        ('kind="a"', 'instance="a"'),
        ('le="1.0"} 1.0', 'le="1.0"} 3.0'),
        ("_count 2.0", "_count 3.0"),
        ('headrace_time_seconds_bucket{le="+Inf"} 2.0\n', ""),
        ("headrace_time_seconds_sum 3.0\n", ""),
        ("_sum 3.0", "_sum -3.0"),
    ],
)
def test_each_fault_of_a_text_is_found(good: str, bad: str) -> None:
    assert good in GOOD
    assert complaints(GOOD.replace(good, bad))
