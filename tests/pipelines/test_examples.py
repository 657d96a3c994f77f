"""The examples, run as they are on real Spark: over the first half of the orders from their files, and after a restart
over the second half from Python. Both are one pipeline, so each result is exact over both."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from examples.orders import Order, last, orders, send
from headrace.spark import pipelines
from headrace.spark.pipelines.kinds import KINDS
from headrace.spark.pipelines.settings import tree_of
from tests.pipelines.test_topics import read
from tests.support import serving

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ALL: list[Order] = [*orders(), last()]
HALF = 600


@pytest.mark.parametrize("kind", KINDS)
def test_an_example_is_what_show_prints_and_the_same_from_python(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (EXAMPLES / f"{kind}.toml").read_text() == KINDS[kind].sample
    from_python = pipelines.settings_of(import_module(f"examples.{kind}").PIPELINE)
    monkeypatch.chdir(EXAMPLES)
    assert tree_of(from_python) == tree_of(pipelines.load(f"{kind}.toml"))


def test_the_pages_name_every_example() -> None:
    told = (EXAMPLES / "README.md").read_text()
    for file in EXAMPLES.glob("*.*"):
        assert file.name in told or file.name == "README.md"
    assert "../examples" in (EXAMPLES.parent / "docs" / "pipelines.md").read_text()


@pytest.fixture(scope="module")
def ran(piping: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Every example has run over all orders; the address of its node, and the folder is the working one."""
    folder = tmp_path_factory.mktemp("examples")
    with serving(folder / "node") as node, pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        send(node.address, ALL[:HALF])
        for kind in KINDS:
            text = (EXAMPLES / f"{kind}.toml").read_text().replace("127.0.0.1:9092", node.address)
            assert pipelines.run(piping, pipelines.parse(text), lambda _: None).state == "done"
        send(node.address, ALL[HALF:])
        for kind in [*KINDS, "steps"]:
            import_module(f"examples.{kind}").run(piping, node.address)
        yield node.address


def rows(address: str, topic: str, count: int) -> list[dict[str, Any]]:
    return [json.loads(record.value or b"") for record in read(address, topic, count)]


def at(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["at"])


@pytest.mark.timeout(600)
class TestOnSpark:
    """One class, so that the long fixture counts for its first test's time."""

    def test_archive_has_every_order_in_the_file_of_its_date(self, ran: str, piping: SparkSession) -> None:
        found = piping.read.parquet(str(Path("archive/orders").absolute())).groupBy("date").count().collect()
        days = Counter(order["at"][:10] for order in ALL)
        assert {str(row["date"]): row["count"] for row in found} == days

    def test_rollup_has_every_minute_once_with_all_its_orders(self, ran: str) -> None:
        minutes = Counter((order["at"][:16], order["country"]) for order in ALL[:-1])
        found = rows(ran, "orders.per-minute", len(minutes))
        assert {(row["window_start"][:16], row["country"]): row["orders"] for row in found} == minutes
        revenue = sum(order["amount"] for order in ALL[:-1])
        assert sum(row["revenue"] for row in found) == pytest.approx(revenue)

    def test_dedup_has_each_id_once(self, ran: str) -> None:
        ids = {order["id"] for order in ALL}
        assert {row["id"] for row in rows(ran, "orders.once", len(ids))} == ids

    def test_order_has_all_orders_of_a_country_by_time(self, ran: str) -> None:
        found = rows(ran, "orders.in-order", len(ALL) - 1)  # the last waits for what may come before it
        for country in ("ch", "de", "fr"):
            times = [at(row) for row in found if row["country"] == country]
            assert times == sorted(times)
        assert Counter(row["id"] for row in found) == Counter(order["id"] for order in ALL[:-1])

    def test_replay_has_the_day_that_was_asked_for_once(self, ran: str) -> None:
        day = Counter(order["id"] for order in ALL if order["at"].startswith("2026-01-31"))
        assert Counter(row["id"] for row in rows(ran, "orders.again", day.total())) == day

    def test_deadletter_has_each_order_in_one_of_two_topics(self, ran: str) -> None:
        good = Counter(order["id"] for order in ALL if order["amount"] > 0)
        assert Counter(row["id"] for row in rows(ran, "orders.checked", good.total())) == good
        aside = read(ran, "orders.bad", len(ALL) - good.total())
        assert {dict(record.headers)["headrace.reason"] for record in aside} == {b"amount is not positive"}

    def test_steps_serve_a_query_of_ones_own(self, ran: str) -> None:
        first = {order["id"]: order for order in reversed(ALL[:-1])}.values()
        hours: Counter[tuple[str, str]] = Counter()
        for order in first:
            hours[order["at"][:13], order["country"]] += order["amount"]
        best = {place: revenue for place, revenue in hours.items() if revenue > 1000}
        found = {
            (row["window_start"][:13], row["country"]): row["revenue"] for row in rows(ran, "orders.best", len(best))
        }
        assert found == pytest.approx(best)
