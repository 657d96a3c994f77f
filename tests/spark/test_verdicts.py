"""The benchmarks say whether their goals are reached."""

from __future__ import annotations

import pytest

from bench import columns
from bench.spark_table import Results, Sample


@pytest.mark.parametrize(("cost_us", "is_reached", "word"), [(0.1, True, "PASS"), (0.11, False, "short")])
def test_reading_columns_is_judged(cost_us: float, is_reached: bool, word: str) -> None:
    assert columns.verdict(cost_us) == (
        is_reached,
        f"100 B none all columns: {cost_us:.3f} µs CPU a row  goal 0.1 µs  {word}",
    )


@pytest.mark.parametrize(
    ("rates", "verdict"),
    [
        ((0.84, 0.22, 0.62), "PASS (>= 2x connector), short (>= 2x tuned)"),
        ((0.84, 0.22, 0.42), "PASS (>= 2x connector), PASS (>= 2x tuned)"),
        ((0.84, 0.5, 0.62), "short (>= 2x connector), short (>= 2x tuned)"),
    ],
)
def test_the_write_is_judged_against_the_connector_as_it_comes_and_as_tuned(
    rates: tuple[float, ...], verdict: str
) -> None:
    found = Results()
    for way, rate in zip(("headrace", "default", "tuned"), rates, strict=True):
        found.add("write", way, Sample(1_000_000, 1.0, {"JVM": 1 / rate}))
    assert found.verdict("write") == verdict
