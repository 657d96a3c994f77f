"""One partition's way through a producer, without a socket: order, sequence numbers, and what each answer does to them.

A small broker stands at the other end, which knows Kafka's rules for sequence numbers and keeps what it takes.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from headrace.client.lane import KNOWN_FOR_S, MAX_EPOCH, MAX_IN_FLIGHT, Batch, Identity, Lane, Waiter
from headrace.errors import OutOfOrderSequence, StaleProducerEpoch
from headrace.log.producers import Producers
from headrace.records import codec
from headrace.records.header import MAX_SEQUENCE
from headrace.records.record import Record

FAR = 1e9


class Broker:
    """Kafka's rules, by the log's own keeper of them."""

    def __init__(self) -> None:
        self.values: list[int] = []
        self._producers = Producers(1 << 60)

    def take(self, batch: Batch) -> None:
        assert batch.encoded is not None
        ((head, _),) = codec.split(batch.encoded)
        if self._producers.check(head, 0) is None:
            self._producers.put(head, len(self.values), 0)
            self.values += [int(record.value or b"") for record in codec.decode(batch.encoded)]


def lane_of(is_idempotent: bool = True) -> Lane:
    lane = Lane("t", 0, 1 << 20, "none", is_idempotent)
    if is_idempotent:
        lane.begin(Identity(7, 0))
    return lane


def put(lane: Lane, *values: int, deadline: float = FAR) -> None:
    """A batch of its own."""
    batch = lane.new_batch(0.0, deadline)
    for value in values:
        batch.records.append(Record(None, b"%d" % value, (), 1, -1))
    batch.count = len(values)
    lane.close_open()


def take(lane: Lane, now: float = 1.0) -> Batch:
    batch = lane.take(now)
    assert batch is not None
    return batch


def known(lane: Lane, broker: Broker, now: float = 1.0) -> None:
    """The broker has taken a first batch, so several may be on their way."""
    put(lane, -1)
    first = take(lane, now)
    broker.take(first)
    lane.arrived(first, now)
    broker.values.clear()


def sequences(lane: Lane) -> list[tuple[int, int]]:
    return [batch.producer[1:] for batch in lane.batches()]


def test_until_the_broker_knows_the_producer_one_batch_is_on_its_way_and_then_five() -> None:
    lane = lane_of()
    for value in range(10):
        put(lane, value)
    first = take(lane)
    assert lane.take(1.0) is None
    lane.arrived(first, 1.0)
    sent = [take(lane) for _ in range(MAX_IN_FLIGHT)]
    assert lane.take(1.0) is None
    assert [batch.producer.sequence for batch in sent] == [1, 2, 3, 4, 5]
    for batch in sent:
        lane.arrived(batch, 1.0)
    take(lane, 2.0 + KNOWN_FOR_S)
    assert lane.take(2.0 + KNOWN_FOR_S) is None  # idle for so long that it may be forgotten


def test_without_idempotence_one_batch_is_on_its_way() -> None:
    lane = lane_of(is_idempotent=False)
    put(lane, 1)
    put(lane, 2)
    first = take(lane)
    assert lane.take(1.0) is None
    lane.arrived(first, 1.0)
    assert take(lane).producer == codec.NO_PRODUCER


def test_what_comes_back_goes_again_in_order_when_all_are_back() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    for value in range(4):
        put(lane, value)
    sent = [take(lane) for _ in range(3)]
    lane.came_back(sent[0], is_doubtful=True, not_before=0.0)
    assert lane.take(1.0) is None
    for batch in sent[1:]:
        with pytest.raises(OutOfOrderSequence):
            broker.take(batch)
        lane.out_of_order(batch, 0.0)
    for value in range(4):
        batch = take(lane)
        broker.take(batch)
        lane.arrived(batch, 1.0)
        assert broker.values == list(range(value + 1))
    assert lane.identity == Identity(7, 0)


def test_numbers_of_a_batch_in_doubt_stay_until_the_broker_has_told() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    put(lane, 0)
    put(lane, 1)
    first, second = take(lane), take(lane)
    broker.take(first)  # written, and the answer is lost
    lane.came_back(first, is_doubtful=True, not_before=0.0)
    lane.came_back(second, is_doubtful=True, not_before=0.0)
    lane.must_renumber = True
    again = take(lane)
    assert again is first and again.producer == (7, 0, 1)
    broker.take(again)
    lane.arrived(again, 1.0)
    assert broker.values == [0]


def test_a_refused_batch_leaves_no_gap_behind() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    for value in range(3):
        put(lane, value)
    sent = [take(lane) for _ in range(3)]
    lane.refused(sent[0])
    for batch in sent[1:]:
        with pytest.raises(OutOfOrderSequence):
            broker.take(batch)
        lane.out_of_order(batch, 0.0)
    while not lane.is_empty:
        batch = take(lane)
        broker.take(batch)
        lane.arrived(batch, 1.0)
    assert broker.values == [1, 2]
    assert lane.identity == Identity(7, 1)


def test_after_the_last_epoch_another_producer_id_is_asked_for() -> None:
    lane, broker = lane_of(), Broker()
    lane.begin(Identity(7, MAX_EPOCH))
    known(lane, broker)
    put(lane, 0)
    lane.out_of_order(take(lane), 0.0)
    assert lane.take(1.0) is None and lane.needs_identity and lane.lost_id == 7
    lane.begin(Identity(8, 0))
    batch = take(lane)
    assert batch.producer == (8, 0, 0)
    broker.take(batch)
    assert broker.values == [0]


def test_a_fenced_producer_begins_anew_under_another_id() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    put(lane, 0)
    lane.out_of_order(take(lane), 0.0, new_identity=True)
    assert lane.take(1.0) is None and lane.lost_id == 7
    lane.begin(Identity(9, 3))
    assert take(lane).producer == (9, 3, 0)


def test_halves_of_a_split_batch_have_its_numbers_and_come_in_its_place() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    put(lane, 0, 1, 2, 3, 4)
    put(lane, 5)
    large, behind = take(lane), take(lane)
    assert lane.split(large)
    lane.out_of_order(behind, 0.0)
    assert sequences(lane) == [(0, 1), (0, 3), (0, 6)]
    while not lane.is_empty:
        batch = take(lane)
        broker.take(batch)
        lane.arrived(batch, 1.0)
    assert broker.values == [0, 1, 2, 3, 4, 5]
    put(lane, 6)
    assert not lane.split(take(lane))


def test_sequence_numbers_wrap() -> None:
    lane, broker = lane_of(), Broker()
    lane.next_sequence = MAX_SEQUENCE - 1
    put(lane, 0, 1, 2)
    put(lane, 3)
    for _ in range(2):
        batch = take(lane)
        broker.take(batch)
        lane.arrived(batch, 1.0)
    assert broker.values == [0, 1, 2, 3]
    assert lane.next_sequence == 2


def test_batches_whose_time_is_over_are_taken_out_and_leave_no_gap() -> None:
    lane, broker = lane_of(), Broker()
    known(lane, broker)
    put(lane, 0, deadline=5.0)
    put(lane, 1)
    first = take(lane)
    lane.came_back(first, is_doubtful=False, not_before=0.0)
    assert lane.expire(4.0) == []
    assert lane.expire(6.0) == [first]
    batch = take(lane, 6.0)
    broker.take(batch)
    assert broker.values == [1] and batch.producer == (7, 1, 0)


async def test_whoever_waits_for_a_batch_waits_for_both_its_halves() -> None:
    lane = lane_of()
    put(lane, 0, 1)
    waiter = Waiter(asyncio.get_running_loop().create_future())
    batch = take(lane)
    batch.waiters.append(waiter)
    waiter.left = 1
    lane.split(batch)
    for half in lane.batches():
        assert not waiter.future.done()
        for one in half.waiters:
            one.settled()
    assert waiter.future.done()


@pytest.mark.parametrize("seed", range(200))
def test_whatever_becomes_of_batches_none_is_written_twice_or_out_of_order(seed: int) -> None:
    chance, lane, broker = random.Random(seed), lane_of(), Broker()
    refused: set[int] = set()
    expected, now = 0, 1.0
    for _ in range(300):
        now += 0.01
        if chance.random() < 0.4:
            count = chance.randrange(1, 4)
            put(lane, *range(expected, expected + count))
            expected += count
        if chance.random() < 0.5:
            lane.take(now)
            if lane.needs_identity:
                assert not lane.in_flight
                lane.begin(Identity(lane.lost_id + 1, 0))
        if lane.in_flight and chance.random() < 0.6:
            answer(lane, broker, lane.in_flight[0], chance, now, refused)
    while not lane.is_empty:
        now += 10
        batch = lane.take(now)
        if batch is None:
            if lane.needs_identity and not lane.in_flight:
                lane.begin(Identity(lane.lost_id + 1, 0))
                continue
            batch = lane.in_flight[0]
        answer(lane, broker, batch, None, now, refused)
    assert broker.values == [value for value in range(expected) if value not in refused]


def answer(
    lane: Lane, broker: Broker, batch: Batch, chance: random.Random | None, now: float, refused: set[int]
) -> None:
    """The broker's answer, or none; the oldest first, as over one connection."""
    fate = chance.choice(["write", "write", "write", "lose", "drop", "refuse", "split"]) if chance else "write"
    assert batch.encoded is not None
    if fate == "drop":
        lane.came_back(batch, is_doubtful=True, not_before=now)
    elif fate == "refuse" and not batch.is_doubtful:
        refused.update(int(record.value or b"") for record in codec.decode(batch.encoded))
        lane.refused(batch)
    elif fate == "split" and not batch.is_doubtful and lane.split(batch):
        pass
    else:
        try:
            broker.take(batch)
        except (OutOfOrderSequence, StaleProducerEpoch) as error:
            lane.out_of_order(batch, now, new_identity=isinstance(error, StaleProducerEpoch))
        else:
            if fate == "lose":
                lane.came_back(batch, is_doubtful=True, not_before=now)
            else:
                lane.arrived(batch, now)


def test_a_batch_that_cannot_be_encoded_is_not_lost_from_sight() -> None:
    lane = lane_of()
    batch = lane.new_batch(0.0, FAR)
    batch.records.append(Record(b"", b"", (), 1.5, -1))  # type: ignore[arg-type]
    batch.count = 1
    with pytest.raises(TypeError):
        lane.take(1.0)
    assert lane.clear() == [batch]  # whoever fails the rest of the lane fails this one too
