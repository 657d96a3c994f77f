"""`headrace top` on a real node, by its metrics and without them."""

from __future__ import annotations

import contextlib
import csv
import io
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli.top.sample import Sample, parsed
from headrace.cli.top.screen import lines
from headrace.cli.top.view import View, view
from headrace.testing.served import ServedBroker
from tests.cli.planting import Terminal, closed_port
from tests.cli.running import Run
from tests.support import Wire, batch_of, wait_until

SHORT = ("--interval", "300ms")


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    with ServedBroker(tmp_path_factory.mktemp("top")) as served:
        with Wire(served.address) as wire:
            wire.create_topic("busy", 2)
            wire.create_topic("idle")
        yield served


@pytest.fixture
def top(broker: ServedBroker) -> Run:
    return Run(broker.address)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    """A node without an http door: all that a server of another make would tell."""
    with ServedBroker(tmp_path_factory.mktemp("closed"), "--http", "off") as served:
        with Wire(served.address) as wire:
            wire.create_topic("busy", 2)
        yield served


@contextlib.contextmanager
def traffic(address: str) -> Iterator[None]:
    """Somebody who sends ten records and reads them, again and again."""
    ended = threading.Event()

    def send() -> None:
        with Wire(address) as wire:
            while not ended.wait(0.01):
                produced = wire.produce("busy", batch_of([b"x" * 100] * 10), acks=-1)
                wire.fetch("busy", produced.base_offset)

    thread = threading.Thread(target=send, name="traffic")
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def test_rates_connections_and_disk_come_from_the_metrics(top: Run, broker: ServedBroker) -> None:
    with traffic(broker.address):
        (seen,) = top("top", "--once", "--http", broker.http, *SHORT, "-o", "json").rows(View)
    assert seen.source == "metrics"
    node = seen.node
    assert node.ready is True
    assert node.version
    assert node.connections is not None and node.connections >= 1
    assert node.in_records_per_second is not None and node.in_records_per_second > 10
    assert node.out_bytes_per_second is not None and node.out_bytes_per_second > 1000
    assert node.produce_p99_ms is not None and node.sync_p99_ms is not None
    assert node.disk_free_bytes is not None and node.disk_total_bytes is not None
    assert 0 < node.disk_free_bytes <= node.disk_total_bytes
    assert (node.failed_partitions, node.refusing_partitions) == (0, 0)
    assert [topic.topic for topic in seen.topics] == ["busy", "idle"], "the busiest comes first"
    assert seen.topics[0].partitions == 2
    assert (seen.topics[0].in_records_per_second or 0) > 10
    assert seen.topics[1].in_records_per_second == 0


def test_the_table_has_the_node_and_its_topics(top: Run, broker: ServedBroker) -> None:
    ended = top("top", "--once", "--http", broker.http, *SHORT)
    assert ended.code == 0, ended.err
    assert "ready" in ended.out and "connections" in ended.out and "free" in ended.out
    heading = next(line for line in ended.out.splitlines() if line.startswith("TOPIC"))
    assert "IN REC/S" in heading and "OUT B/S" in heading
    assert "busy" in ended.out


def test_the_http_door_is_found_where_the_node_says_that_it_is(run: Run, tmp_path: Path) -> None:
    http = f"127.0.0.1:{closed_port()}"
    with ServedBroker(tmp_path, "--http", http) as served:
        (seen,) = run("-s", served.address, "top", "--once", *SHORT, "-o", "json").rows(View)
    assert seen.source == "metrics"


def test_fewer_topics_are_shown_where_that_is_asked(top: Run, broker: ServedBroker) -> None:
    ended = top("top", "--once", "--http", broker.http, *SHORT, "--topics", "1")
    assert ended.out.endswith("and 1 more\n")


def test_without_an_http_door_the_kafka_protocol_tells_of_topics(closed: ServedBroker) -> None:
    """As on another Kafka-compatible server. Whatever listens at the usual http port here is not this node's."""
    with traffic(closed.address):
        ended = Run(closed.address)("top", "--once", *SHORT, "-o", "json")
    (seen,) = ended.rows(View)
    assert seen.source == "kafka"
    assert seen.node.cpu_percent is None
    assert seen.topics[0].topic == "busy"
    assert (seen.topics[0].in_records_per_second or 0) > 10
    assert "--http HOST:PORT" in ended.err


def test_the_table_of_another_server_has_the_columns_that_are_known(closed: ServedBroker) -> None:
    ended = Run(closed.address)("top", "--once", *SHORT)
    heading = next(line for line in ended.out.splitlines() if line.startswith("TOPIC"))
    assert "IN REC/S" in heading
    assert "OUT REC/S" not in heading


def test_the_http_door_of_another_cluster_is_refused(top: Run, tmp_path_factory: pytest.TempPathFactory) -> None:
    with ServedBroker(tmp_path_factory.mktemp("other")) as other:
        ended = top("top", "--once", "--http", other.http)
    assert ended.code == 2
    assert "belongs to cluster" in ended.err


def test_an_http_door_that_is_not_there_is_named(top: Run) -> None:
    at = f"127.0.0.1:{closed_port()}"
    ended = top("top", "--once", "--http", at)
    assert ended.code == 3
    assert f"no HTTP answer from {at}" in ended.err


def test_a_server_that_is_not_there_is_named(run: Run) -> None:
    ended = run("-s", f"127.0.0.1:{closed_port()}", "top", "--once", "--timeout", "1s")
    assert ended.code == 3


def test_as_many_views_come_as_were_asked_one_a_line(top: Run, broker: ServedBroker) -> None:
    ended = top("top", "-n", "3", "--http", broker.http, *SHORT, "-o", "jsonl")
    assert len(ended.lines(View)) == 3


def test_csv_has_one_heading_and_a_row_for_each_topic_and_time(top: Run, broker: ServedBroker) -> None:
    ended = top("top", "-n", "2", "--http", broker.http, *SHORT, "-o", "csv")
    rows = list(csv.DictReader(io.StringIO(ended.out)))
    assert sorted(row["topic"] for row in rows) == ["busy", "busy", "idle", "idle"]
    assert len({row["time_ms"] for row in rows}) == 2


def test_an_interval_of_nothing_is_refused(top: Run) -> None:
    assert top("top", "--interval", "1ms").code == 2


def test_help_shows_examples(run: Run) -> None:
    ended = run("top", "--help")
    assert ended.code == 0
    assert "headrace top --once -o json" in ended.out


def test_on_a_terminal_the_screen_is_drawn_until_it_is_left(top: Run, broker: ServedBroker) -> None:
    with Terminal(*top.line("top", "--http", broker.http, *SHORT)) as terminal:
        wait_until(lambda: terminal.seen.count(b"busy") >= 2)
        terminal.interrupt()
        assert terminal.wait() == 0, terminal.seen.decode(errors="replace")
    assert b"Traceback" not in terminal.seen


# Rates


METRICS = """\
# TYPE headrace_kafka_requests_total counter
headrace_kafka_requests_total{{api="Produce"}} {produce}
headrace_kafka_requests_total{{api="Fetch"}} 5
# TYPE headrace_topic_appended_records_total counter
headrace_topic_appended_records_total{{topic="a"}} {records}
# TYPE headrace_kafka_request_seconds histogram
headrace_kafka_request_seconds_bucket{{api="Produce",le="0.001"}} {quick}
headrace_kafka_request_seconds_bucket{{api="Produce",le="0.5"}} {produce}
headrace_kafka_request_seconds_bucket{{api="Produce",le="+Inf"}} {produce}
headrace_kafka_request_seconds_count{{api="Produce"}} {produce}
headrace_kafka_request_seconds_sum{{api="Produce"}} 1
"""


def looked(at_s: float, **numbers: int) -> Sample:
    return parsed(METRICS.format(**numbers), at_s)


def test_a_rate_is_what_came_between_two_looks() -> None:
    seen = view(
        "s", "metrics", looked(10, produce=100, records=7, quick=0), looked(12, produce=300, records=27, quick=199)
    )
    assert seen.node.requests_per_second == 100
    assert seen.topics[0].in_records_per_second == 10
    assert seen.node.produce_p99_ms == 1, "199 of the 200 in between took at most a millisecond"


def test_a_counter_that_fell_has_begun_anew() -> None:
    seen = view("s", "metrics", looked(10, produce=100, records=7, quick=0), looked(11, produce=30, records=2, quick=0))
    assert seen.topics[0].in_records_per_second == 2


def test_what_is_not_told_is_null_and_what_did_not_happen_has_no_latency() -> None:
    same = looked(10, produce=100, records=7, quick=100)
    seen = view("s", "metrics", same, looked(11, produce=100, records=7, quick=100))
    assert seen.node.produce_p99_ms is None
    assert seen.node.disk_free_bytes is None
    assert seen.topics[0].out_records_per_second is None
    assert time.time() * 1000 - seen.time_ms < 60_000


def test_groups_are_shown_by_how_far_they_are_behind() -> None:
    text = "".join(
        f'headrace_group_lag_records{{group="{group}",topic="{topic}"}} {lag}\n'
        f'headrace_group_lag_seconds{{group="{group}",topic="{topic}"}} {seconds}\n'
        for group, topic, lag, seconds in (("slow", "a", 5, 61.0), ("slow", "b", 7, 3.0), ("quick", "a", 900, 0.5))
    )
    now = parsed(text, 1.0)
    now.topics["a"] = {}
    seen = view("server", "metrics", Sample(0.0), now)
    assert [(one.group, one.lag, one.lag_seconds) for one in seen.groups] == [
        ("slow", 12, 61.0),
        ("quick", 900, 0.5),
    ]
    table = lines(seen, 10)
    at = next(number for number, line in enumerate(table) if line.startswith("GROUP"))
    assert [line.split() for line in table[at : at + 2]] == [
        ["GROUP", "LAG", "BEHIND"],
        ["slow", "12", "1m1s"],
    ]


def test_a_group_that_lags_is_seen_on_a_real_node(top: Run, broker: ServedBroker) -> None:
    with Wire(broker.address) as wire:
        wire.produce("idle", batch_of([b"one", b"two"]), acks=-1)
    assert top("group", "seek", "sleeper", "--topic", "idle", "--to", "start", "--yes").code == 0

    def lags() -> list[int | None]:
        (seen,) = top("top", "--once", *SHORT, "--http", broker.http, "-o", "json").rows(View)
        return [one.lag for one in seen.groups if one.group == "sleeper" and one.lag_seconds is not None]

    wait_until(lambda: bool(lags()), 30.0)  # the node looks every few seconds
    assert lags() == [2]
    assert "sleeper" in top("top", "--once", *SHORT, "--http", broker.http).out


def test_an_http_door_on_any_free_port_is_found(top: Run, broker: ServedBroker) -> None:
    """The node was given port 0 and says where it listens; nobody names it here."""
    seen = top("top", *SHORT, "--count", "1", "-o", "jsonl").lines(View)
    assert [view.source for view in seen] == ["metrics"]
