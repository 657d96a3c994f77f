"""Requests that are not what they claim: each ends in an answer or a clean close, and nobody else notices."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator

import pytest

from headrace.records import codec
from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.hostile import requests
from tests.support import Bystander, Wire, batch_of, no_leak

TOPIC = "odd"
FLIPS = 40  # of each request: enough to meet each of its fields


@pytest.fixture(scope="module")
def samples(node: ServedBroker) -> list[requests.Sample]:
    with Wire(node.address) as wire:
        wire.create_topic(TOPIC)
        return list(requests.samples(TOPIC, wire.topic_id(TOPIC)))


class Connections:
    """One connection for many odd requests: a new one whenever the node closed the last."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._wire: Wire | None = None

    def endure(self, frame: bytes) -> bool:
        if self._wire is None:
            self._wire = Wire(self._address)
        answered = requests.endure(self._wire, frame)
        if not answered:
            self.close()
        return answered

    def close(self) -> None:
        if self._wire is not None:
            self._wire.close()
            self._wire = None


@pytest.fixture
def connections(node: ServedBroker) -> Iterator[Connections]:
    made = Connections(node.address)
    yield made
    made.close()


def test_each_whole_request_is_answered(samples: list[requests.Sample], connections: Connections) -> None:
    assert [sample for sample in samples if not connections.endure(sample.frame)] == []


def test_every_prefix_of_every_request_is_answered_or_closed(
    node: ServedBroker, samples: list[requests.Sample], connections: Connections
) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for sample in samples:
            for size in range(len(sample.frame)):
                connections.endure(sample.frame[:size])
        connections.close()
        other.assert_undisturbed()


def test_a_client_that_goes_away_in_the_middle_of_a_request_leaves_nothing_behind(
    node: ServedBroker, samples: list[requests.Sample]
) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for sample in samples:
            for size in range(0, len(sample.frame), 16):
                with Wire(node.address) as wire:
                    wire.send(struct.pack(">i", len(sample.frame)), sample.frame[:size])
        other.assert_undisturbed()


def test_flipped_bits_in_any_request_are_answered_or_closed(
    node: ServedBroker, samples: list[requests.Sample], connections: Connections
) -> None:
    chance = random.Random(1)
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for sample in samples:
            if sample.api_key == header.FETCH:
                continue  # below: a turned bit may make it wait
            for _ in range(FLIPS):
                connections.endure(requests.flipped(sample.frame, chance))
        connections.close()
        other.assert_undisturbed()


def test_flipped_bits_in_a_fetch_are_answered_or_closed(
    node: ServedBroker, samples: list[requests.Sample], connections: Connections
) -> None:
    chance = random.Random(2)
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for sample in samples:
            if sample.api_key != header.FETCH:
                continue
            # Behind the header, the replica's id, the time to wait and the least number of bytes.
            waits_end = 8 + 2 + len("odd") + header.is_flexible(header.FETCH, sample.version)
            waits_end += 8 if sample.version >= 15 else 12
            for _ in range(FLIPS):
                connections.endure(requests.flipped(sample.frame, chance, at_least=waits_end))
        connections.close()
        other.assert_undisturbed()


def test_no_flipped_bit_of_a_batch_gets_into_the_log(node: ServedBroker) -> None:
    """All but two fields lie under the CRC: the base offset and the leader epoch, which are ours to set."""
    topic = "flipped"
    good = batch_of([b"one", b"two"])
    ours = set(range(8)) | set(range(12, 16))
    with Wire(node.address) as wire:
        wire.create_topic(topic)
        kept = 0
        for bit in range(8 * len(good)):
            bad = bytearray(good)
            bad[bit // 8] ^= 1 << bit % 8
            result = wire.produce(topic, bad)
            if bit // 8 in ours:
                assert result.error == 0, f"bit {bit}: {result}"
                assert result.base_offset == kept
                kept += 2
            else:
                assert result.error != 0, f"bit {bit} was accepted"
        records = wire.read_all(topic)
    assert [record.value for record in records] == [b"one", b"two"] * (kept // 2)
    assert [record.offset for record in records] == list(range(kept))


def test_a_batch_that_is_cut_off_anywhere_or_followed_by_more_is_refused(node: ServedBroker) -> None:
    good = batch_of([b"one", b"two"])
    with Wire(node.address) as wire:
        wire.create_topic("cut")
        for size in range(len(good)):
            assert wire.produce("cut", good[:size]).error != 0, f"{size} bytes were accepted"
        assert wire.produce("cut", good + b"\0").error != 0
        assert wire.produce("cut", good + good).error != 0
        assert wire.read_all("cut") == []


def test_a_wrong_crc_is_called_corrupt(node: ServedBroker) -> None:
    bad = bytearray(batch_of([b"x"]))
    bad[-1] ^= 1
    with Wire(node.address) as wire:
        wire.create_topic("crc")
        assert wire.produce("crc", bad).error == Code.CORRUPT_MESSAGE


def test_the_old_record_formats_are_refused_as_kafka_does(node: ServedBroker) -> None:
    with Wire(node.address) as wire:
        wire.create_topic("old")
        for magic in (0, 1):
            old = bytearray(batch_of([b"x"]))
            old[16] = magic
            assert wire.produce("old", old).error == Code.INVALID_RECORD


@pytest.mark.parametrize("acks", [2, 3, -2, 32767, -32768])
def test_an_acks_that_does_not_exist_is_refused_and_nothing_is_kept(node: ServedBroker, acks: int) -> None:
    with Wire(node.address) as wire:
        topic = f"acks{acks}"
        wire.create_topic(topic)
        assert wire.produce(topic, batch_of([b"x"]), acks=acks).error == Code.INVALID_REQUIRED_ACKS
        assert wire.read_all(topic) == []


def test_control_and_transactional_batches_of_a_stranger_are_refused(node: ServedBroker) -> None:
    with Wire(node.address) as wire:
        wire.create_topic("control")
        (record,) = codec.decode(batch_of([b"x"]))
        for options in (codec.BatchOptions(is_control=True), codec.BatchOptions(is_transactional=True)):
            assert wire.produce("control", codec.encode([record], options)).error != 0
        assert wire.read_all("control") == []


@pytest.mark.parametrize("size", [-1, -(1 << 31), 0, 1, 9, (100 << 20) + 1, (1 << 31) - 1])
def test_a_size_that_no_request_has_closes_the_connection_at_once(node: ServedBroker, size: int) -> None:
    with Wire(node.address) as wire:
        wire.ping()
        wire.send(struct.pack(">i", size) + b"x" * 8)
        assert wire.is_closed()


def test_what_is_no_kafka_at_all_closes_the_connection(node: ServedBroker) -> None:
    for greeting in (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03" + bytes(500)):
        with Wire(node.address) as wire:
            wire.send(greeting + bytes(64))
            assert wire.is_closed()


def test_unknown_apis_and_versions_close_the_connection_and_api_versions_answers(node: ServedBroker) -> None:
    for key, version in ((999, 0), (-1, 0), (header.METADATA, 99), (header.PRODUCE, 2), (header.FETCH, 3), (8, 2)):
        with Wire(node.address) as wire:
            wire.send(header.question(key, version, 1, "x", b""))
            assert wire.is_closed(), f"api {key} version {version}"
    with Wire(node.address) as wire:
        wire.send(header.question(header.API_VERSIONS, 99, 5, "x", b"\0\0\0"))
        answered, frame, at = wire.receive_answer(header.API_VERSIONS, 0)
        assert (answered, struct.unpack_from(">h", frame, at)[0]) == (5, Code.UNSUPPORTED_VERSION)
        wire.ping()


def test_an_answer_that_was_earned_comes_before_the_close(node: ServedBroker) -> None:
    """What stands before the bad request in the same read is answered."""
    with Wire(node.address) as wire:
        wire.send(header.question(header.API_VERSIONS, 0, 1, "x", b""), struct.pack(">i", -1))
        assert wire.receive_answer(header.API_VERSIONS, 0)[0] == 1
        assert wire.is_closed()
