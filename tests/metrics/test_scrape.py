"""The metrics of a real node: true, well-formed, complete, bounded."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path

import pytest
from prometheus_client.metrics_core import Metric

from headrace.broker.topic import Topic
from headrace.doors.kafka import metrics as kafka_metrics
from headrace.node.metrics import reading
from headrace.node.metrics.catalogue import METRICS
from tests.doors_http.running import Running, running, until
from tests.metrics.conftest import do_everything
from tests.metrics.promtool import complaints, families, promtool
from tests.support import Refused, Wire


def value(found: dict[str, Metric], name: str, **labels: str) -> float:
    """Of one series, by the name that it has in the text."""
    samples = [sample for family in found.values() for sample in family.samples if sample.name == name]
    (match,) = (sample.value for sample in samples if sample.labels == labels)
    return match


async def test_the_text_has_nothing_that_promtool_would_complain_of(scraped: str) -> None:
    assert complaints(scraped) == []
    assert promtool(scraped) in (None, "")


async def test_every_metric_of_the_table_is_in_a_scrape_and_none_besides(scraped: str) -> None:
    told = {line.split()[2] for line in scraped.splitlines() if line.startswith("# TYPE ")}
    assert told == {metric.name for metric in METRICS}


async def test_what_was_produced_and_read_is_what_is_counted(web: Running) -> None:
    await do_everything(web)
    found = families(await web.scrape())
    assert value(found, "headrace_topic_appended_records_total", topic="t") == 150
    assert value(found, "headrace_appended_records_total") == 151
    assert value(found, "headrace_appended_batches_total") == 16
    assert value(found, "headrace_topic_read_records_total", topic="t") == 150
    log = web.node.broker.topic("t").partitions[0].log  # type: ignore[union-attr]
    assert log is not None
    appended = value(found, "headrace_topic_appended_bytes_total", topic="t")
    assert appended == value(found, "headrace_read_bytes_total")
    assert 0 < log.size_bytes - appended < 1000  # but for the segment's header
    assert value(found, "headrace_partition_end_offset", topic="t", partition="0") == 150
    assert value(found, "headrace_partition_synced_offset", topic="t", partition="0") == 150
    assert value(found, "headrace_partitions", state="closed") == 2
    assert value(found, "headrace_kafka_requests_total", api="Produce") == 17
    assert 5 <= value(found, "headrace_kafka_request_seconds_count", api="Produce") <= 17
    assert value(found, "headrace_kafka_errors_total", api="Produce", error="UNKNOWN_TOPIC_OR_PARTITION") == 1
    assert value(found, "headrace_kafka_errors_total", api="Fetch", error="OFFSET_OUT_OF_RANGE") == 1
    assert value(found, "headrace_kafka_connections_closed_total", cause="client") == 6
    assert value(found, "headrace_http_requests_total", method="GET", route="unknown", status="404") == 1
    assert value(found, "headrace_events_total", event="topic.created") == 2
    assert value(found, "headrace_log_recovery_seconds_count") == 1
    ticks = value(found, "headrace_loop_lag_seconds_count")  # one by hand, and one for each second that this takes
    assert 1 <= ticks <= 1 + value(found, "headrace_uptime_seconds")
    assert value(found, "headrace_ready") == 1
    assert abs(value(found, "headrace_clock_seconds") - time.time()) < 60


async def test_errors_are_counted_under_the_api_that_answered_them(web: Running) -> None:
    def ask() -> None:
        with Wire(str(web.node.addresses["kafka"])) as wire:
            wire.create_topic("t")
            with pytest.raises(Refused):
                wire.create_topic("t")
            wire.fetch("nowhere", 0, max_wait_ms=0)

    await asyncio.to_thread(ask)
    errors = families(await web.scrape())["headrace_kafka_errors"].samples
    assert {(sample.labels["api"], sample.labels["error"]): sample.value for sample in errors} == {
        ("CreateTopics", "TOPIC_ALREADY_EXISTS"): 1,
        ("Fetch", "UNKNOWN_TOPIC_OR_PARTITION"): 1,
    }


async def test_the_wait_of_a_fetch_is_not_how_long_it_took(web: Running) -> None:
    await web.create("t")
    await web.produce("t", [b"x"])

    def poll() -> None:
        with Wire(str(web.node.addresses["kafka"])) as wire:
            assert not wire.fetch("t", 1, max_wait_ms=1500).size

    asked = asyncio.create_task(asyncio.to_thread(poll))
    await until(lambda: len(web.node.kafka.polls) == 1)
    assert value(families(await web.scrape()), "headrace_kafka_polls") == 1
    await asked
    times = web.node.kafka.metrics.times[1]
    assert sum(times.counts) == 1
    assert times.sum < 0.75


async def test_a_request_that_waits_for_its_sync_took_that_long(web: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    await web.create("t")
    await web.produce("t", [b"x"])
    real, seen = web.disk.datasync, threading.Event()
    monkeypatch.setattr(web.disk, "datasync", lambda handle: (time.sleep(0.3), seen.wait(30), real(handle)))
    monkeypatch.setattr(kafka_metrics, "SLOW_S", 0.2)
    asked = asyncio.create_task(web.produce("t", [b"x"], acks=-1, requests=3))
    await until(lambda: sum(len(connection.waiting) for connection in web.node.kafka.connections()) == 3)
    assert value(families(await web.scrape()), "headrace_kafka_sync_waiting") == 3
    seen.set()
    await asked
    times = web.node.kafka.metrics.times[0]
    assert sum(times.counts) == 1 + 3  # the first opened the log, which is timed always
    assert times.sum >= 3 * 0.3
    (slow,) = [fields for name, fields in web.events if name == "kafka.slow"]
    assert (slow["api"], slow["requests"]) == ("Produce", 1)


async def test_counters_only_rise_and_a_deleted_topic_takes_none_along(web: Running) -> None:
    await do_everything(web)
    before = families(await web.scrape())
    await web.node.broker.delete_topics(["t"])
    after = families(await web.scrape())
    for name in ("headrace_appended_bytes_total", "headrace_appended_records_total", "headrace_read_bytes_total"):
        assert value(after, name) == value(before, name) > 0
    assert not [s for s in after["headrace_topic_appended_bytes"].samples if s.labels["topic"] == "t"]


async def test_a_log_that_is_opened_anew_goes_on_counting(web: Running) -> None:
    await web.create("t")
    await web.produce("t", [b"x"] * 5)
    web.disk.fails_syncs = True
    await web.produce("t", [b"x"], acks=-1)
    web.disk.fails_syncs = False
    web.node.broker.maintain()
    assert await web.produce("t", [b"x"] * 5) == [0]
    found = families(await web.scrape())
    assert value(found, "headrace_topic_appended_records_total", topic="t") == 11
    assert value(found, "headrace_log_recovery_seconds_count") == 2
    assert value(found, "headrace_events_total", event="log.failed") == 1


async def test_names_that_need_escaping_are_escaped(web: Running) -> None:
    odd = 'ein "Ding" \\ mit Umlauten äöü'
    await web.create(odd)
    text = await web.scrape()
    assert complaints(text) == []
    assert value(families(text), "headrace_topic_partitions", topic=odd) == 1


async def test_the_number_of_series_is_bounded_and_what_is_left_out_is_said(
    web: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    await do_everything(web)
    monkeypatch.setattr(reading, "MAX_PARTITIONS", 3)
    found = families(await web.scrape())
    assert "headrace_partition_end_offset" not in found
    assert value(found, "headrace_topic_partitions", topic="t") == 3
    assert value(found, "headrace_series_left_out", of="partitions") == 4
    monkeypatch.setattr(reading, "MAX_TOPICS", 1)
    found = families(await web.scrape())
    assert "headrace_topic_partitions" not in found
    assert value(found, "headrace_series_left_out", of="topics") == 2
    assert value(found, "headrace_appended_records_total") == 151


async def test_many_partitions_do_not_hold_up_the_loop(web: Running) -> None:
    for number in range(4):
        await web.create(f"t{number}", partitions=500)
    await asyncio.gather(*(partition.opened() for topic in _topics(web) for partition in topic.partitions))
    await web.scrape()
    began = time.thread_time()
    reading.read(web.node)
    took = time.thread_time() - began
    text = await web.scrape()
    assert len(text) < 4 << 20
    assert complaints(text) == []
    assert took < 0.25


def _topics(web: Running) -> list[Topic]:
    return web.node.broker.topics()


async def test_two_nodes_in_one_process_count_for_themselves(
    web: Running, tmp_path_factory: pytest.TempPathFactory
) -> None:
    from tests.doors_http.running import running

    async with running(tmp_path_factory.mktemp("other")) as other:
        await web.create("t")
        await web.produce("t", [b"x"])
        assert value(families(await web.scrape()), "headrace_appended_records_total") == 1
        assert value(families(await other.scrape()), "headrace_appended_records_total") == 0


async def test_the_size_of_topics_is_told_after_a_restart_though_no_log_is_open(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=3)
        await web.create("never written")
        await web.produce("t", [b"x" * 1000] * 10)
        before = value(families(await web.scrape()), "headrace_topic_size_bytes", topic="t")
    async with running(tmp_path) as web:
        topic = web.node.broker.topic("t")
        assert topic is not None and all(partition.log is None for partition in topic.partitions)
        found = families(await web.scrape())
        assert value(found, "headrace_topic_size_bytes", topic="t") == before > 10_000
        assert value(found, "headrace_topic_size_bytes", topic="never written") == 0
        assert all(partition.log is None for partition in topic.partitions), "a scrape opens nothing"
        await web.produce("t", [b"x" * 1000] * 10)
        assert value(families(await web.scrape()), "headrace_topic_size_bytes", topic="t") > before + 10_000


async def test_a_size_that_the_disk_does_not_tell_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(tmp_path) as web:
        await web.create("t")
        await web.produce("t", [b"x"])
    async with running(tmp_path) as web:

        def broken(path: str) -> list[str]:
            raise OSError(5, "input/output error")

        monkeypatch.setattr(web.disk, "list", broken)
        assert "headrace_topic_size_bytes{" not in await web.scrape()
        monkeypatch.undo()
        assert value(families(await web.scrape()), "headrace_topic_size_bytes", topic="t") > 0
