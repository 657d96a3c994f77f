"""`headrace bench` on a real server: what it measures, what it leaves behind (nothing), how it fails."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from headrace.cli.bench.figures import MAX_SAMPLES, MAX_STEPS, Measured, Meter, Series, percentiles
from headrace.cli.bench.load import LEAST_SLEEP_S, OWN_TOPIC, Pace, values
from tests.cli.planting import Terminal, closed_port, environment
from tests.cli.running import Run
from tests.support import Wire, batch_of, wait_until

FEW = ("-n", "500")


def topics_of(cli: Run) -> str:
    ended = cli("topic", "list", "-o", "csv")
    assert ended.code == 0, ended.err
    return ended.out


def test_produce_measures_rate_and_latency_and_leaves_no_topic(cli: Run) -> None:
    (measured,) = cli("bench", "produce", *FEW, "--size", "1KiB", "--partitions", "2", "-o", "json").rows(Measured)
    assert (measured.work, measured.records, measured.bytes) == ("produce", 500, 500 * 1024)
    assert measured.records_per_second > 0
    assert measured.p50_ms is not None and measured.max_ms is not None
    assert 0 < measured.p50_ms <= measured.max_ms
    assert OWN_TOPIC not in topics_of(cli)


def test_consume_reads_what_it_put_there(cli: Run) -> None:
    (measured,) = cli("bench", "consume", *FEW, "--compression", "zstd", "-o", "json").rows(Measured)
    assert (measured.work, measured.records, measured.bytes) == ("consume", 500, 50_000)
    assert measured.p50_ms is None, "reading in bulk has no latency"
    assert OWN_TOPIC not in topics_of(cli)


def test_latency_is_told_to_the_ack_and_to_a_consumer(cli: Run) -> None:
    to_ack, to_consumer = cli("bench", "latency", "-n", "100", "--rate", "500", "-o", "json").rows(Measured)
    assert (to_ack.work, to_consumer.work) == ("to the ack", "to a consumer")
    assert to_ack.records == to_consumer.records == 100
    assert to_ack.p50_ms is not None and to_consumer.p50_ms is not None
    assert 0 < to_ack.p50_ms < 1000 and 0 < to_consumer.p50_ms < 1000
    assert 0.1 < to_ack.seconds < 5, "a hundred at five hundred a second"


def test_a_rate_is_kept(cli: Run) -> None:
    (measured,) = cli("bench", "produce", "-n", "200", "--rate", "400", "-o", "json").rows(Measured)
    assert 0.45 < measured.seconds < 3
    assert measured.records_per_second < 450


def test_a_topic_that_was_named_is_used_and_stays(cli: Run, server: str) -> None:
    with Wire(server) as wire:
        wire.create_topic("mine")
        wire.produce("mine", batch_of([b"abc"] * 7))
        (measured,) = cli("bench", "consume", "--topic", "mine", "-o", "json").rows(Measured)
        assert (measured.records, measured.bytes) == (7, 21), "all that is there, however many were asked"
        assert cli("bench", "produce", "--topic", "mine", *FEW).code == 0
        assert cli("bench", "latency", "--topic", "mine", "-n", "20").code == 0, "beside records of others"
        assert len(wire.read_all("mine")) == 527


def test_keep_keeps_the_topic(cli: Run) -> None:
    (measured,) = cli("bench", "produce", *FEW, "--keep", "-o", "json").rows(Measured)
    assert measured.topic in topics_of(cli)


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_every_level_of_acks_can_be_measured(cli: Run, acks: str) -> None:
    (measured,) = cli("bench", "produce", *FEW, "--acks", acks, "-o", "json").rows(Measured)
    assert measured.records == 500


def test_the_table_and_csv_have_the_figures(cli: Run) -> None:
    table = cli("bench", "produce", *FEW)
    assert table.out.splitlines()[0].split()[:2] == ["WORK", "RECORDS"]
    assert "RECORDS/S" in table.out and "P99 MS" in table.out
    csv = cli("bench", "produce", *FEW, "-o", "csv")
    assert csv.out.startswith("work,topic,records,bytes,seconds,records_per_second,")
    assert len(csv.out.splitlines()) == 2


@pytest.mark.parametrize(("ending", "begins"), [("png", b"\x89PNG"), ("svg", b"<?xml")])
def test_a_plot_is_drawn(cli: Run, tmp_path: Path, ending: str, begins: bytes) -> None:
    picture = tmp_path / f"run.{ending}"
    ended = cli("bench", "latency", "-n", "50", "--plot", str(picture))
    assert ended.code == 0, ended.err
    assert picture.read_bytes().startswith(begins)


@pytest.mark.parametrize("name", ["run.txt", "nowhere/run.png"])
def test_a_plot_that_cannot_be_drawn_is_told_before_the_work(run: Run, name: str, tmp_path: Path) -> None:
    ended = run("-s", f"127.0.0.1:{closed_port()}", "bench", "produce", "--plot", str(tmp_path / name))
    assert ended.code == 2, "not even the server was asked"


def test_without_matplotlib_the_extra_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "matplotlib.py").write_text("raise ImportError\n")
    ended = run.apart("bench", "produce", "--plot", "a.png", env=environment(PYTHONPATH=str(tmp_path)))
    assert ended.code == 5
    assert "headrace[plot]" in ended.err


@pytest.mark.parametrize(
    "options",
    [
        ("produce", "--acks", "2"),
        ("produce", "--compression", "rar"),
        ("produce", "-n", "0"),
        ("produce", "--size", "many"),
        ("produce", "--size", "10GiB"),
        ("latency", "--size", "4"),
        ("latency", "--rate", "0"),
        ("latency", "-n", "100000000"),
    ],
)
def test_what_makes_no_sense_is_refused(cli: Run, options: tuple[str, ...]) -> None:
    ended = cli("bench", *options)
    assert ended.code == 2
    assert "headrace: " in ended.err


def test_a_topic_that_is_not_there_is_named(cli: Run) -> None:
    assert cli("bench", "consume", "--topic", "nowhere").code == 4


def test_a_server_that_is_not_there_is_named(run: Run) -> None:
    assert run("-s", f"127.0.0.1:{closed_port()}", "bench", "produce", "--timeout", "1s").code == 3


def test_a_record_that_the_server_refuses_is_told_and_the_topic_goes(cli: Run) -> None:
    before = topics_of(cli)
    ended = cli("bench", "produce", "-n", "2", "--size", "2MiB", "--batch", "4MiB")
    assert ended.code == 5
    assert "max.message.bytes" in ended.err or "large" in ended.err
    assert topics_of(cli) == before


def test_an_interrupted_run_deletes_its_topic(cli: Run) -> None:
    before = topics_of(cli)
    running = cli.start("bench", "produce", "-n", "1000000", "--rate", "1000")
    try:
        wait_until(lambda: topics_of(cli) != before)
        running.send_signal(signal.SIGINT)
        assert running.wait(20) == 130
    finally:
        running.kill()
        running.communicate()
    assert topics_of(cli) == before


@pytest.mark.parametrize("verb", ["produce", "consume", "latency"])
def test_help_shows_examples(run: Run, verb: str) -> None:
    ended = run("bench", verb, "--help")
    assert ended.code == 0
    assert f"headrace bench {verb}" in ended.out


def test_progress_is_for_terminals_only(cli: Run) -> None:
    assert cli.apart("bench", "produce", *FEW).err == ""
    with Terminal(*cli.line("bench", "produce", "-n", "300", "--rate", "300")) as terminal:
        wait_until(lambda: b"/300" in terminal.seen)
        assert terminal.wait() == 0
    assert b"RECORDS/S" in terminal.seen


# Figures


def test_percentiles_are_values_that_were_there() -> None:
    assert percentiles([]) == {}
    found = percentiles([float(ms) for ms in range(1, 1001)])
    assert found == {"p50_ms": 501, "p95_ms": 951, "p99_ms": 991, "p999_ms": 1000, "max_ms": 1000}


def test_an_hour_costs_no_more_than_a_minute() -> None:
    series = Series()
    for second in range(100_000):
        series.add(second, 3)
    assert len(series.counts) <= MAX_STEPS
    assert sum(series.counts) == 300_000
    meter = Meter("produce", "t", 50_000_000)
    for _ in range(1_000_000):
        meter.done(20, 20, 0.001)
    assert len(meter.latencies_ms) <= MAX_SAMPLES


def test_values_are_the_same_each_time_and_of_the_size_asked() -> None:
    assert values(100) == values(100)
    assert {len(value) for value in values(10_000)} == {10_000}
    assert values(0) == [b""] * len(values(0))
    assert len(values(50 << 20)) == 1


async def test_latency_counts_from_when_a_record_was_due() -> None:
    pace = Pace(100)
    first = await pace.wait(0)
    assert await pace.wait(10) - first == pytest.approx(0.1, abs=LEAST_SLEEP_S)
    assert pace.due(20) - pace.due(10) == pytest.approx(0.1)
