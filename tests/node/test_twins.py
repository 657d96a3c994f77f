"""A node without native kernels, as on a machine without cargo: slower, and the same in everything else."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import headrace
from headrace.records import kernel
from headrace.testing.served import ServedBroker
from tests.support import assert_no_fault

COUNT = 2_000


def produced(address: str, compression: str, first: int) -> None:
    """By a client that knows nothing of us, idempotent, waiting for all acknowledgements."""
    refused: list[object] = []
    producer = Producer({"bootstrap.servers": address, "enable.idempotence": True, "compression.type": compression})
    for number in range(first, first + COUNT):
        producer.produce("t", b"%d" % number, partition=0, on_delivery=lambda error, _: error and refused.append(error))
    assert producer.flush(30) == 0 and not refused


def consumed(address: str, count: int) -> list[bytes | None]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g", "enable.auto.commit": False})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        return [message.value() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


def test_a_node_without_native_kernels_serves_others_and_keeps_what_it_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_NATIVE", "0")
    with ServedBroker(tmp_path) as broker:
        with headrace.connect(broker.address) as client:
            client.admin.create_topic("t", partitions=1)
        for turn, compression in enumerate(("none", "gzip", "snappy", "lz4", "zstd")):
            produced(broker.address, compression, turn * COUNT)
            broker.kill()
            broker.start()
        wanted = [b"%d" % number for number in range(5 * COUNT)]
        assert consumed(broker.address, 5 * COUNT) == wanted
        monkeypatch.delenv("HEADRACE_NATIVE")
        broker.stop()
        broker.start()  # and with them it reads what was written without
        assert consumed(broker.address, 5 * COUNT) == wanted
    assert_no_fault(broker)
    assert broker.log().count("HEADRACE_NATIVE=0") == 6
    missing = 6 if kernel.NATIVE else 7
    assert broker.log().count("native.missing") == missing, "once for each start without them"
