"""The stream's reader without Spark around it: what it says of offsets, asked as Spark asks."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import headrace
from headrace.spark import reading
from headrace.spark.errors import DataLost, InvalidOption
from headrace.spark.options import source_options
from headrace.spark.planning import Range
from headrace.spark.schema import spark_schema
from headrace.spark.stream import StreamReader
from tests.spark.data import create, fill

ALL = ReadAllAvailable()


def reader(address: str, topic: str, **options: Any) -> StreamReader:
    given = {"servers": address, "subscribe": topic, **{name: str(value) for name, value in options.items()}}
    return StreamReader(source_options(given, is_stream=True), spark_schema(False))


def offsets(place: dict[str, Any]) -> dict[str, Any]:
    return {topic: partitions for topic, partitions in place.items() if topic}


def ranges(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Range]:
    return sorted(one for task in reader.partitions(start, end) for one in task.value.ranges)


def test_a_first_batch_that_runs_again_after_a_restart_starts_where_it_did(address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    first = reader(address, topic)
    start = first.initialOffset()
    assert offsets(start) == {topic: {"0": 10}}  # a stream starts at the end
    fill(address, topic, 5, 1)
    end = first.latestOffset(start, ALL)
    assert ranges(first, start, end) == [(topic, 0, 10, 15)]
    first.stop()
    fill(address, topic, 5, 1)
    second = reader(address, topic)
    later = second.initialOffset()
    assert offsets(later) == {topic: {"0": 20}}
    assert ranges(second, later, end) == [(topic, 0, 10, 15)]
    assert ranges(second, end, second.latestOffset(end, ALL)) == [(topic, 0, 15, 20)]
    second.stop()


def test_without_news_the_answer_is_the_question(address: str, topic: str) -> None:
    create(address, topic, 2)
    fill(address, topic, 10, 2)
    found = reader(address, topic, startingOffsets="earliest")
    end = found.latestOffset(found.initialOffset(), ALL)
    assert found.latestOffset(end, ALL) == end
    assert list(found.latestOffset(end, ALL)) == list(end)  # to the letter: Spark compares texts
    assert found.partitions(end, end) == []
    assert offsets(found.reportLatestOffset() or {}) == {topic: {"0": 5, "1": 5}}
    found.stop()


def test_available_now_ends_where_the_topic_ended_when_it_began(address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    found = reader(address, topic, startingOffsets="earliest", maxOffsetsPerTrigger=7)
    start = found.initialOffset()
    found.prepareForTriggerAvailableNow()
    fill(address, topic, 10, 1)
    with headrace.connect(address) as client:
        client.admin.add_partitions(topic, 2)
    limit = found.getDefaultReadLimit()
    assert limit == ReadMaxRows(7)
    middle = found.latestOffset(start, limit)
    end = found.latestOffset(middle, limit)
    assert [offsets(one) for one in (middle, end)] == [{topic: {"0": 7}}, {topic: {"0": 10}}]
    assert found.latestOffset(end, limit) == end
    found.stop()


def test_few_records_wait_for_company_but_not_for_ever(address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    found = reader(address, topic, startingOffsets="earliest", minOffsetsPerTrigger=50, maxTriggerDelay="1h")
    limit = found.getDefaultReadLimit()
    assert limit == ReadMinRows(50)
    start = found.latestOffset(found.initialOffset(), limit)
    assert offsets(start) == {topic: {"0": 10}}  # the first waits for nobody, as in Spark's own source
    fill(address, topic, 10, 1)
    assert found.latestOffset(start, limit) == start
    assert found.latestOffset(start, ALL) != start
    hasty = reader(address, topic, startingOffsets="earliest", minOffsetsPerTrigger=50, maxTriggerDelay="1ms")
    start = hasty.latestOffset(hasty.initialOffset(), limit)
    fill(address, topic, 10, 1)
    while hasty.latestOffset(start, limit) == start:
        pass
    found.stop()
    hasty.stop()


def test_a_topic_that_is_gone_is_an_error_or_left_out(address: str, topic: str) -> None:
    for name in (topic, f"{topic}-2"):
        create(address, name, 1)
        fill(address, name, 10, 1)
    strict = reader(address, f"{topic},{topic}-2", startingOffsets="earliest")
    lenient = reader(address, f"{topic},{topic}-2", startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    with headrace.connect(address) as client:
        client.admin.delete_topic(topic)
    with pytest.raises(headrace.errors.UnknownTopic):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ALL)
    assert ranges(lenient, start, end) == [(f"{topic}-2", 0, 0, 10)]
    strict.stop()
    lenient.stop()


def test_a_start_by_time_after_every_record_is_an_error_or_the_end(address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    late = {"startingTimestamp": 1_800_000_000_000_000}
    with pytest.raises(InvalidOption, match="has no record of time 1800000000000000 or later"):
        reader(address, topic, **late).initialOffset()
    lenient = reader(address, topic, **late, startingOffsetsByTimestampStrategy="latest")
    assert offsets(lenient.initialOffset()) == {topic: {"0": 10}}
    lenient.stop()


def test_a_log_that_was_cut_is_told(address: str, topic: str) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    found = reader(address, topic, startingOffsets="earliest")
    start = found.initialOffset()
    start[topic]["0"] = 99
    with pytest.raises(DataLost, match="ends at 10, and was read or planned up to 99"):
        found.latestOffset(start, ALL)
    found.stop()


def test_a_batch_that_was_planned_before_its_topic_was_made_anew_reads_nothing_of_the_new_one(
    address: str, topic: str
) -> None:
    """As after a restart: Spark asks for the batch that is in its log, and not where the topic ends."""
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    planner = reader(address, topic, startingOffsets="earliest")
    start = planner.initialOffset()
    first = planner.latestOffset(start, ReadMaxRows(6))
    second = planner.latestOffset(first, ReadMaxRows(6))
    task = planner.partitions(first, second)[0]
    planner.stop()
    with headrace.connect(address) as client:
        client.admin.delete_topic(topic)
    lenient = reader(address, topic, startingOffsets="earliest", failOnDataLoss="false")
    with pytest.raises(DataLost, match="is not there any more"):
        reader(address, topic).partitions(first, second)
    assert ranges(lenient, first, second) == []
    create(address, topic, 1)
    fill(address, topic, 30, 1)
    strict = reader(address, topic, startingOffsets="earliest")
    for before, after in ((start, first), (strict.initialOffset(), first), (first, second)):
        with pytest.raises(DataLost, match="was deleted and made again"):
            strict.partitions(before, after)
        assert ranges(lenient, before, after) == []
    with pytest.raises(DataLost, match="was deleted and made again"):  # since the tasks were planned
        list(strict.read(task))
    assert list(lenient.read(task)) == []
    assert ranges(lenient, second, lenient.latestOffset(second, ALL)) == [(topic, 0, 0, 30)]
    strict.stop()
    lenient.stop()


def test_a_batch_that_was_planned_beyond_the_end_of_its_log_is_told_and_not_waited_for(
    address: str, topic: str
) -> None:
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    strict = reader(address, topic, startingOffsets="earliest")
    lenient = reader(address, topic, startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    end = strict.latestOffset(start, ALL)
    end[topic]["0"] = 99
    with pytest.raises(DataLost, match="ends at 10, and was read or planned up to 99"):
        strict.partitions(start, end)
    assert ranges(lenient, start, end) == [(topic, 0, 0, 10)]
    beyond = [Range(topic, 0, 4, 99)]  # as when the log is cut after the tasks were planned
    with pytest.raises(DataLost, match="ends at 10, and was read or planned up to 99"):
        list(reading.read(strict._options, strict._schema, beyond, {}))
    assert sum(table.num_rows for table in reading.read(lenient._options, lenient._schema, beyond, {})) == 6
    strict.stop()
    lenient.stop()


def test_a_reader_travels_without_its_connections(address: str, topic: str) -> None:
    create(address, topic, 1)
    found = reader(address, topic)
    found.initialOffset()
    assert pickle.loads(pickle.dumps(found))._lookup is None
    found.stop()
