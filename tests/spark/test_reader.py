"""The stream's reader without Spark around it: what it says of offsets, asked as Spark asks."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import headrace
from headrace.client.columns import STRETCH_BYTES
from headrace.client.values import OffsetAt, TopicPartition
from headrace.errors import OffsetOutOfRange
from headrace.spark import reading
from headrace.spark.errors import DataLost, InvalidOption
from headrace.spark.options import source_options
from headrace.spark.planning import Range
from headrace.spark.schema import spark_schema
from headrace.spark.source import BatchReader
from headrace.spark.stream import StreamReader
from tests.spark.data import create, fill

ALL = ReadAllAvailable()


def reader(address: str, topic: str, **options: Any) -> StreamReader:
    given = {"servers": address, "subscribe": topic, **{name: str(value) for name, value in options.items()}}
    return StreamReader(source_options(given, is_stream=True), spark_schema(False))


def batch(address: str, topic: str, **options: str) -> BatchReader:
    given = {"servers": address, "subscribe": topic, **options}
    return BatchReader(source_options(given, is_stream=False), spark_schema(False))


@contextlib.contextmanager
def open_transaction(address: str, topic: str, rows: int) -> Iterator[None]:
    """Aborted at the end."""
    with headrace.connect(address) as client:
        member = client.admin.open_member(f"spark:{topic}", client.admin.draw_write(), "0.0", 60_000)
        with client.column_producer(member=member) as producer:
            producer.put(topic, pa.record_batch({"value": pa.array([b"open"] * rows)}))
        yield
        client.admin.abort_batch(f"spark:{topic}", 0, [member])


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


@pytest.mark.parametrize("least", [None, 1_000], ids=["nothing waits", "few wait for company"])
def test_what_a_log_that_was_cut_grows_by_is_read(address: str, topic: str, least: int | None) -> None:
    """The stream stands where the log ends when that is seen, and not where it was before the cut."""
    create(address, topic, 2)
    fill(address, topic, 10, 1)
    options = {} if least is None else {"minOffsetsPerTrigger": least}
    found = reader(address, topic, startingOffsets="earliest", failOnDataLoss="false", **options)
    start = found.latestOffset(found.initialOffset(), ALL)
    limit = found.getDefaultReadLimit()
    assert offsets(start) == {topic: {"0": 10, "1": 0}}
    start[topic]["0"] = 99
    if least is not None:
        fill(address, topic, 2, 2, first=10)
    seen = found.latestOffset(start, limit)
    end = 10 if least is None else 11
    assert offsets(seen) == {topic: {"0": end, "1": 0}} and seen[""]["ids"] == start[""]["ids"]
    assert ranges(found, start, seen) == []
    assert found.latestOffset(seen, limit) == seen
    fill(address, topic, 5, 1)
    after = found.latestOffset(seen, ALL)
    assert (topic, 0, end, end + 5) in ranges(found, seen, after)
    (lost,) = (found.reportLatestOffset() or {})[""]["lost"]
    assert f"ends at {end}, and was read or planned up to 99" in lost
    found.stop()


def test_what_was_read_uncommitted_is_neither_lost_nor_read_again_by_who_reads_committed(
    headrace_address: str, topic: str
) -> None:
    create(headrace_address, topic, 1)
    fill(headrace_address, topic, 10, 1)
    loose = reader(headrace_address, topic, startingOffsets="earliest", isolation="read_uncommitted")
    with open_transaction(headrace_address, topic, 5):
        end = loose.latestOffset(loose.initialOffset(), ALL)
        assert offsets(end) == {topic: {"0": 15}}
        strict = reader(headrace_address, topic)
        assert strict.latestOffset(end, ALL) == end
    fill(headrace_address, topic, 5, 1)
    (one,) = ranges(strict, end, strict.latestOffset(end, ALL))
    assert one.start == 15
    loose.stop()
    strict.stop()


def test_an_end_within_an_open_transaction_is_told_as_that_and_not_as_a_loss(headrace_address: str, topic: str) -> None:
    create(headrace_address, topic, 1)
    fill(headrace_address, topic, 10, 1)
    within = {"endingOffsets": f'{{"{topic}": {{"0": 15}}}}'}
    with open_transaction(headrace_address, topic, 5):
        words = "can be read up to 10, not 15, while a transaction is open in it: wait until that ends, or read with"
        with pytest.raises(InvalidOption, match=words):
            batch(headrace_address, topic, **within).partitions()
        with pytest.raises(InvalidOption, match="can be read up to 10, not 12, while a transaction"):
            batch(headrace_address, topic, startingOffsets=f'{{"{topic}": {{"0": 12}}}}').partitions()
        (lenient,) = batch(headrace_address, topic, **within, failOnDataLoss="false").partitions()
        assert lenient.value.ranges == [(topic, 0, 0, 10)]
        (loose,) = batch(headrace_address, topic, **within, isolation="read_uncommitted").partitions()
        assert loose.value.ranges == [(topic, 0, 0, 15)]
        beyond = f'{{"{topic}": {{"0": 16}}}}'
        with pytest.raises(DataLost, match="ends at 10, and was read or planned up to 16: the log was cut"):
            batch(headrace_address, topic, endingOffsets=beyond).partitions()


def test_a_batch_from_the_earliest_starts_where_that_is_by_now() -> None:
    """Retention may pass between two looks at the log, and the user named no offset that is lost by it."""
    where = TopicPartition("t", 0)
    earliest, named = batch("h:1", "t"), batch("h:1", "t", startingOffsets='{"t": {"0": 3}}')
    assert earliest._range(where, 3, 10, 5, 10, 10) == (*where, 5, 10)
    assert earliest._range(where, 3, 10, 20, 20, 20) == (*where, 20, 20)
    with pytest.raises(DataLost, match="took 3 to 4 before it was read"):
        named._range(where, 3, 10, 5, 10, 10)


def test_positions_of_a_group_are_published_when_spark_asks_what_comes_next(address: str, topic: str) -> None:
    """With no listener; once for each place."""
    create(address, topic, 1)
    fill(address, topic, 10, 1)
    found = reader(address, topic, startingOffsets="earliest", group=f"g-{topic}")
    end = found.latestOffset(found.initialOffset(), ALL)
    with headrace.connect(address) as client:
        assert [at.offset for at in client.admin.group_offsets(f"g-{topic}").values()] == [0]
        found.latestOffset(end, ALL)
        assert [at.offset for at in client.admin.group_offsets(f"g-{topic}").values()] == [10]
        client.admin.alter_group_offsets(f"g-{topic}", {(topic, 0): 7})
        found.latestOffset(end, ALL)
        assert [at.offset for at in client.admin.group_offsets(f"g-{topic}").values()] == [7]
    found.stop()


def test_what_retention_took_is_told_with_the_latest_offsets_and_no_batch_is_filled_with_it(
    address: str, topic: str
) -> None:
    create(address, topic, 1)
    fill(address, topic, 30, 1)
    strict = reader(address, topic, startingOffsets="earliest")
    lenient = reader(address, topic, startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    lenient.latestOffset(start, ALL)
    assert "lost" not in (lenient.reportLatestOffset() or {})[""]
    with headrace.connect(address) as client:
        client.admin.delete_records(topic, {0: 20})
    words = "retention or a deletion took 0 to 19 before it was read"
    with pytest.raises(DataLost, match=words):
        strict.latestOffset(start, ALL)
    end = lenient.latestOffset(start, ReadMaxRows(4))
    assert ranges(lenient, start, end) == [(topic, 0, 20, 24)]
    (lost,) = (lenient.reportLatestOffset() or {})[""]["lost"]
    assert lost.endswith(words) and "lost" not in end[""]
    strict.stop()
    lenient.stop()


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


def test_large_records_come_in_tables_that_fit_into_a_tasks_memory(headrace_address: str, topic: str) -> None:
    create(headrace_address, topic, 1)
    with headrace.connect(headrace_address) as client, client.producer() as producer:
        for number in range(200):
            producer.put(topic, b"%d" % number + bytes(500_000))
    found = reader(headrace_address, topic)
    sizes, numbers = [], []
    for table in reading.read(found._options, found._schema, [Range(topic, 0, 0, 200)], {}):
        sizes.append(table.nbytes)
        numbers += [value.as_py().rstrip(b"\0") for value in table.column("value")]
    assert numbers == [b"%d" % number for number in range(200)]
    assert max(sizes) < reading.GATHERED_BYTES + STRETCH_BYTES


def test_a_batch_that_was_planned_over_what_is_not_committed_waits_for_it_and_has_lost_nothing(
    headrace_address: str, topic: str
) -> None:
    create(headrace_address, topic, 1)
    fill(headrace_address, topic, 10, 1)
    loose = reader(headrace_address, topic, startingOffsets="earliest", isolation="read_uncommitted")
    strict = reader(headrace_address, topic, startingOffsets="earliest")
    start = loose.initialOffset()
    rows = []

    def read() -> None:
        rows.append(sum(table.num_rows for table in reading.read(strict._options, strict._schema, planned, {})))

    with open_transaction(headrace_address, topic, 5):
        planned = ranges(strict, start, loose.latestOffset(start, ALL))
        assert planned == [(topic, 0, 0, 15)]
        task = threading.Thread(target=read)
        task.start()
        task.join(reading.QUIET_S + 1.0)
        assert task.is_alive()
    task.join(30.0)
    assert rows == [10]
    loose.stop()
    strict.stop()


class CutAndGrown:
    """A client and its reader, whose log was cut below where the reader stands, and has grown again before it is asked
    where it ends."""

    def __init__(self) -> None:
        self.admin = self
        self.at, self.is_told = 5, False

    def columns(self, *topics: str, **options: Any) -> contextlib.nullcontext[CutAndGrown]:
        return contextlib.nullcontext(self)

    def offsets(self, topic: str, at: str) -> dict[int, OffsetAt]:
        return {0: OffsetAt(0 if at == "start" else 20, -1)}

    def position(self, topic: str, partition: int) -> int:
        return self.at

    def seek(self, topic: str, partition: int, to: int) -> None:
        self.at, self.is_told = to, True

    def take(self, timeout: float) -> pa.RecordBatch | None:
        if not self.is_told:
            error = OffsetOutOfRange(5, -1, 3)
            error.cause = "the log was cut at 3 and has gone on"
            raise error
        first, self.at = self.at, 10
        return pa.record_batch({"offset": pa.array(range(first, 10))}) if first < 10 else None


def test_a_log_that_is_cut_and_grows_again_under_a_task_is_told() -> None:
    ranges = [Range("t", 0, 0, 10)]
    strict, lenient = (
        source_options({"servers": "h:1", "subscribe": "t", "failOnDataLoss": word}, is_stream=False)
        for word in ("true", "false")
    )
    with pytest.raises(DataLost, match="the log was cut at 3 and has gone on; failOnDataLoss=false"):
        list(reading._tables(CutAndGrown(), strict, ranges, []))  # type: ignore[arg-type]
    (table,) = reading._tables(CutAndGrown(), lenient, ranges, [])  # type: ignore[arg-type]
    assert table.column("offset").to_pylist() == [5, 6, 7, 8, 9]


def test_a_reader_travels_without_its_connections(address: str, topic: str) -> None:
    create(address, topic, 1)
    found = reader(address, topic)
    found.initialOffset()
    assert pickle.loads(pickle.dumps(found))._lookup is None
    found.stop()
