"""Ten thousand partitions on one node: what is quiet costs next to nothing, and all of it can be used."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace.records import codec
from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header, produce_client
from tests.growth.test_size import stood_in_line_s
from tests.support import MIB, PRODUCE_VERSION, Bystander, Wire, batch_of, cpu_s, open_files, rss_bytes, serving

TOPICS, PARTITIONS = 10, 1000  # of each
SAMPLE = 300
START_LIMIT_S, STOP_LIMIT_S = 5.0, 10.0  # generous: the machine may be shared
IDLE_BYTES, USED_BYTES = 150 * MIB, 400 * MIB


def create(wire: Wire) -> None:
    for number in range(TOPICS):
        wire.create_topic(f"wide-{number}", PARTITIONS)


def place(number: int) -> tuple[str, int]:
    return f"wide-{number // PARTITIONS}", number % PARTITIONS


def test_ten_thousand_partitions_start_serve_stop_and_start_again(tmp_path: Path) -> None:
    chosen = random.Random(1).sample(range(TOPICS * PARTITIONS), SAMPLE)
    with serving(tmp_path) as node:
        with Wire(node.address) as wire:
            create(wire)
            assert rss_bytes(node.pid) < IDLE_BYTES
            for number in chosen:
                write(wire, number)
            for number in chosen:
                read(wire, number)
        restart(node)
        assert rss_bytes(node.pid) < IDLE_BYTES
        with Wire(node.address) as wire:
            for number in chosen:
                read(wire, number)
            topic, partition = place(next(n for n in range(TOPICS * PARTITIONS) if n not in chosen))
            assert wire.fetch(topic, 0, partition, max_wait_ms=0).high_watermark == 0


def test_an_idle_node_of_ten_thousand_partitions_does_next_to_nothing(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        with Wire(node.address) as wire:
            create(wire)
        time.sleep(1)
        before = cpu_s(node.pid)
        time.sleep(3)
        assert cpu_s(node.pid) - before < 0.5


def test_one_fetch_follows_ten_thousand_partitions_and_finds_the_one_with_news(tmp_path: Path) -> None:
    with serving(tmp_path) as node, Wire(node.address) as reader, Wire(node.address) as writer:
        writer.create_topic("followed", TOPICS * PARTITIONS)
        offsets = dict.fromkeys(range(TOPICS * PARTITIONS), 0)
        asked = reader.send_fetch("followed", offsets, max_wait_ms=30_000)
        time.sleep(1)
        writer.produce("followed", batch_of([b"news"]), partition=7777)
        answered, fetched = reader.receive_fetched()
        assert answered == asked
        assert [one.partition for one in fetched if one.size] == [7777]
        assert len(fetched) == len(offsets)


@pytest.mark.long
@pytest.mark.timeout(600)
def test_all_ten_thousand_are_written_read_and_survive_a_kill(tmp_path: Path) -> None:
    with serving(tmp_path) as node:
        with Wire(node.address) as wire, Bystander(node.address) as other:
            create(wire)
            for number in range(TOPICS):
                write_topic(wire, f"wide-{number}")
            other.assert_undisturbed(10.0)
        assert rss_bytes(node.pid) < USED_BYTES
        assert open_files(node.pid) < 20_000
        node.kill()
        assert node.start() - stood_in_line_s(node.pid) < START_LIMIT_S
        with Wire(node.address) as wire:
            for number in range(TOPICS * PARTITIONS):
                read(wire, number)
        assert rss_bytes(node.pid) < USED_BYTES
        restart(node)
        with Wire(node.address) as wire:
            for number in range(0, TOPICS * PARTITIONS, 97):
                read(wire, number)


def restart(node: ServedBroker) -> None:
    begin = time.monotonic()
    assert node.stop() == 0
    assert time.monotonic() - begin < STOP_LIMIT_S
    assert node.start() - stood_in_line_s(node.pid) < START_LIMIT_S


def write(wire: Wire, number: int) -> None:
    topic, partition = place(number)
    result = wire.produce(topic, batch_of([b"%d" % number]), partition, acks=-1)
    assert (result.error, result.base_offset) == (0, 0)


def write_topic(wire: Wire, topic: str) -> None:
    """One request for all of its partitions."""
    first = int(topic.rpartition("-")[2]) * PARTITIONS
    batches = [(index, batch_of([b"%d" % (first + index)])) for index in range(PARTITIONS)]
    asked = wire.next_id()
    topics = [(topic, None, batches)]
    wire.send(*produce_client.encode_request(PRODUCE_VERSION, asked, "x", None, -1, 60_000, topics))
    answered, frame, at = wire.receive_answer(header.PRODUCE, PRODUCE_VERSION)
    assert answered == asked
    response = produce_client.decode_response(frame, at, len(frame), PRODUCE_VERSION)
    assert {(one.error, one.base_offset) for one in response.topics[0].partitions} == {(0, 0)}


def read(wire: Wire, number: int) -> None:
    topic, partition = place(number)
    fetched = wire.fetch(topic, 0, partition, max_wait_ms=0)
    assert fetched.error == 0
    assert [record.value for record in codec.decode(b"".join(fetched.pieces or []))] == [b"%d" % number]
