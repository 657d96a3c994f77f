"""What a Kafka producer writes in transactions, as it looks from here: committed records alone, past the gaps."""

from __future__ import annotations

from confluent_kafka import Producer

from headrace.compat import HttpClient
from headrace.testing import Broker

LIMIT_S = 30.0


def write(producer: Producer, *values: str) -> None:
    producer.begin_transaction()
    for value in values:
        producer.produce("t", value, partition=0)
    producer.flush(LIMIT_S)


def test_only_what_is_committed_is_polled_and_offsets_step_over_the_rest() -> None:
    with Broker() as broker, HttpClient(broker.http) as client:
        client.create_topic("t")
        producer = Producer({"bootstrap.servers": broker.kafka, "transactional.id": "x"})
        producer.init_transactions(LIMIT_S)
        write(producer, "never", "never")
        assert client.poll("t", timeout_ms=0).records == []
        producer.abort_transaction(LIMIT_S)
        polled = client.poll("t", timeout_ms=0)
        assert (polled.records, polled.next_offset) == ([], 0)
        write(producer, "one", "two")
        assert client.poll("t", timeout_ms=0).records == []
        producer.commit_transaction(LIMIT_S)
        polled = client.poll("t")
        assert [(record.offset, record.value) for record in polled.records] == [(3, "one"), (4, "two")]
        assert polled.next_offset == 5
        assert client.publish("t", "three").offset == 6  # after the end of the transaction
        assert [record.value for record in client.records("t")] == ["one", "two", "three"]
        stream = client.stream("t", from_offset=0)
        assert [next(stream).offset for _ in range(3)] == [3, 4, 6]
        assert client.poll("t", from_offset=5).records[0].offset == 6
        del stream
        producer.flush(LIMIT_S)
