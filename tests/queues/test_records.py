"""The records of `__queue_state`: what is written is what is read, and it stays small."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.queues import records
from headrace.broker.queues.burial import DeadLetter, headers_of, letter_of
from headrace.broker.queues.events import Snapshot
from headrace.broker.queues.records import PartitionKey, PositionKey, QueueKey, Redelivered, SavedPosition, SavedQueue
from headrace.errors import FormatTooNew
from headrace.records.record import Record

TOPIC_ID = bytes(range(16))
OFFSETS = st.integers(0, 1 << 53)
NAMES = st.text(min_size=1, max_size=50)


@given(st.dictionaries(OFFSETS, st.integers(0, 1 << 31), max_size=50), OFFSETS, st.integers(-1, 1 << 30))
def test_what_is_pending_comes_back(pending, end, epoch):
    snapshot = Snapshot(end, dict(sorted(pending.items())))
    saved = records.read_partition(records.partition_value(TOPIC_ID, epoch, snapshot))
    assert saved == (TOPIC_ID, epoch, snapshot)
    assert list(saved.snapshot.pending) == sorted(pending)


@given(NAMES, NAMES, NAMES, st.integers(0, 1 << 30))
def test_keys_come_back(door, topic, group, partition):
    key = QueueKey(door, topic, group)
    assert records.read_key(records.queue_key(key)) == key
    assert records.read_key(records.partition_key(key, partition)) == PartitionKey(key, partition)
    position = PositionKey(topic, group, partition)
    assert records.read_key(records.position_key(position)) == position


@given(st.booleans(), st.booleans(), OFFSETS, st.integers(-1, 1 << 53))
def test_queues_and_positions_come_back(at_most_once, from_start, made_ms, redelivered_ms):
    queue = SavedQueue(TOPIC_ID, at_most_once, from_start, made_ms, redelivered_ms)
    assert records.read_queue(records.queue_value(queue)) == queue
    told = queue._replace(redelivered=Redelivered(TOPIC_ID, (made_ms, 0)))
    assert records.read_queue(records.queue_value(told)) == told
    position = SavedPosition(TOPIC_ID, 3, redelivered_ms, made_ms)
    assert records.read_position(records.position_value(position)) == position


@given(NAMES, NAMES, NAMES, st.text(max_size=100), OFFSETS)
def test_dead_letters_come_back(door, topic, group, reason, offset):
    letter = DeadLetter(QueueKey(door, topic, group), 3, offset, 7, 2, reason, 9)
    assert letter_of(Record(headers=(("own", b"1"), *headers_of(letter)))) == letter


def test_what_is_no_dead_letter_is_not_taken_for_one():
    for headers in ((), (("headrace.dead.topic", b"t"),), (("headrace.dead.offset", b"\xff"),)):
        assert letter_of(Record(headers=headers)) is None


def test_runs_of_neighbours_take_little_room():
    neighbours = Snapshot(5000, dict.fromkeys(range(2000, 4000), 1))
    assert len(records.partition_value(TOPIC_ID, 0, neighbours)) < 60
    every_other = Snapshot(5000, dict.fromkeys(range(0, 4000, 2), 1))
    assert len(records.partition_value(TOPIC_ID, 0, every_other)) < 8000


def test_a_newer_version_is_refused_rather_than_read_wrong():
    newer = b"\0\1" + records.partition_value(TOPIC_ID, 0, Snapshot(1))[2:]
    with pytest.raises(FormatTooNew):
        records.read_partition(newer)
    assert records.read_key(b"\0\x09whatever") is None
