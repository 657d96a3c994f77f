"""What is read equals what was produced, byte for byte, by a batch and by a stream, from ours and from Apache Kafka:
every compression, null and empty keys and values, headers that repeat, committed and aborted transactions, topics of
one and of fifty partitions, empty at first and growing between two looks, a start that retention has passed.

What was produced is what the test itself gave to producers, and the offsets are those that another client reads: our
own client, which Spark reads through, is not asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from pyspark.sql import SparkSession

import headrace
from headrace.records.compression import NAMES as COMPRESSIONS
from tests.client.marks import wait_until_marked
from tests.spark.data import BASE_MS, Row, create, fill, rows
from tests.spark.test_stream import run, stream

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka

Look = Callable[..., list[Row]]


@pytest.fixture(params=["batch", "stream"])
def look(request: pytest.FixtureRequest, spark: SparkSession, address: str, tmp_path: Path) -> Look:
    """All that there is in topics: a batch reads it each time, a stream what is new."""

    def batch(topics: str, **options: Any) -> list[Row]:
        given = {"servers": address, "subscribe": topics, "includeHeaders": "true", **options}
        return rows(spark.read.format("headrace").options(**given).load())

    def streamed(topics: str, **options: Any) -> list[Row]:
        run(stream(spark, address, topics, **options), tmp_path)
        has_files = any((tmp_path / "out").glob("*.parquet"))
        return rows(spark.read.parquet(str(tmp_path / "out"))) if has_files else []

    return batch if request.param == "batch" else streamed


def transact(address: str, topic: str, first: int, partitions: int) -> list[Row]:
    """A transaction that is committed and one that is aborted, over all partitions; the rows of the first."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": f"{topic}-{first}"})
    producer.init_transactions(60)
    for number, end in enumerate([producer.commit_transaction, producer.abort_transaction]):
        producer.begin_transaction()
        for count in range(2 * partitions):
            value, partition = f"{first} {number} {count}", count % partitions
            producer.produce(topic, value, partition=partition, timestamp=BASE_MS + count)
        producer.flush()
        end(60)
    wait_until_marked(address, topic)
    return [
        (None, f"{first} 0 {count}".encode(), topic, count % partitions, BASE_MS + count, 0, ())
        for count in range(2 * partitions)
    ]


def places(address: str, topics: dict[str, int]) -> list[tuple[str, int, int]]:
    """Topic, partition and offset of every committed record, as librdkafka reads them."""
    settings = {"bootstrap.servers": address, "group.id": "places", "enable.auto.commit": False}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    where = [(topic, partition) for topic, partitions in topics.items() for partition in range(partitions)]
    consumer.assign([TopicPartition(*one, OFFSET_BEGINNING) for one in where])
    found, ended = [], set()
    while len(ended) < len(where):
        message = consumer.poll(30)
        assert message is not None, "the broker fell silent"
        if message.error() is None:
            found.append((message.topic(), message.partition(), message.offset()))
        else:
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            ended.add((message.topic(), message.partition()))
    consumer.close()
    return sorted(found)


def by_place(found: list[Row]) -> list[Row]:
    return sorted(found, key=lambda row: row[2:5])


def without_offsets(found: list[Row]) -> list[Row]:
    return [(*row[:4], *row[5:]) for row in found]


def test_what_is_read_is_what_was_produced(look: Look, address: str, topic: str) -> None:
    topics = {f"{topic}-1": 1, f"{topic}-50": 50}
    for name, partitions in topics.items():
        create(address, name, partitions)
    wanted = ",".join(topics)
    assert look(wanted) == []
    produced: list[Row] = []
    for turn in range(2):
        for name, partitions in topics.items():
            for number, compression in enumerate(COMPRESSIONS):
                first = 1_000 * turn + 100 * number
                produced += fill(address, name, 100, partitions, compression, first=first)
            produced += transact(address, name, turn, partitions)
        found = by_place(look(wanted))
        # Sorting keeps the order within a partition, which is the order in which rows were put.
        assert without_offsets(found) == sorted(produced, key=lambda row: row[2:4])
        assert [row[2:5] for row in found] == places(address, topics)
        assert len(found) == (turn + 1) * (2 * 100 * len(COMPRESSIONS) + 2 * 51)


def test_what_retention_took_before_the_start_is_left_out(look: Look, address: str, topic: str) -> None:
    """The start is where the log begins by now; a start that names what is gone is told (test_batch, test_stream)."""
    create(address, topic, 1)
    produced = fill(address, topic, 100, 1)
    with headrace.connect(address) as client:
        client.admin.delete_records(topic, {0: 40})
    found = look(topic)
    assert without_offsets(found) == produced[40:]
    assert [row[4] for row in found] == [*range(40, 100)]
