"""State by key in a compacted topic: made on first use, synced before it is told, replayed in order."""

from __future__ import annotations

import pytest

from headrace.broker.state_topic import StateTopic, java_hash
from headrace.errors import HeadraceError
from headrace.records.batch import BatchHeader
from headrace.records.codec import Producer
from headrace.records.record import Record
from tests.broker.kit import Node

NAME = "__state"


def state_of(node: Node) -> StateTopic:
    return StateTopic(node.broker, NAME, 5, {"segment.bytes": "65536"})


async def append(node: Node, state: StateTopic, partition: int, *records: tuple[bytes, bytes | None]) -> None:
    promise = node.broker.new_promise()

    def done(error: HeadraceError | None) -> None:
        promise.set_result(None) if error is None else promise.set_exception(error)

    state.append(partition, records, done)
    await node.do(promise)


async def loaded(node: Node, state: StateTopic, partition: int) -> list[tuple[bytes, bytes | None, int]]:
    found: list[tuple[bytes, bytes | None, int]] = []
    promise = node.broker.new_promise()

    def done(error: HeadraceError | None) -> None:
        promise.set_result(None) if error is None else promise.set_exception(error)

    state.load(partition, lambda *entry: found.append(entry), done)
    await node.do(promise)
    return found


@pytest.mark.parametrize(("text", "value"), [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", 0)])
def test_the_hash_is_that_of_java(text, value):
    assert java_hash(text) == value


async def test_the_topic_is_made_by_the_first_append_and_is_internal_and_compacted():
    node = Node()
    state = state_of(node)
    assert state.topic is None and await loaded(node, state, 3) == []
    await append(node, state, 3, (b"k", b"v"))
    assert state.topic is not None
    assert state.topic.internal and state.topic.is_compacted and len(state.topic.partitions) == 5


async def test_what_was_acknowledged_survives_a_power_loss_and_comes_back_in_order():
    node = Node()
    state = state_of(node)
    for number in range(300):
        await append(node, state, 1, (b"%d" % (number % 7), b"x" * 1000), (b"other", None))
    node.power_loss()
    found = await loaded(node, state_of(node), 1)
    assert [offset for _, _, offset in found] == list(range(600))
    assert found[0] == (b"0", b"x" * 1000, 0) and found[-1] == (b"other", None, 599)
    assert await loaded(node, state_of(node), 2) == []


async def test_batches_given_while_the_topic_is_made_keep_their_order():
    node = Node()
    state = state_of(node)
    told: list[int] = []
    for number in range(10):
        state.append(number % 2, [(b"k", b"%d" % number)], lambda error, number=number: told.append(number))
    assert told == []
    await append(node, state, 0, (b"k", b"last"))
    await append(node, state, 1, (b"k", b"last"))
    assert sorted(told) == list(range(10))
    assert [value for _, value, _ in await loaded(node, state, 0)] == [b"0", b"2", b"4", b"6", b"8", b"last"]


async def test_a_refused_write_is_told_and_the_next_one_goes_on():
    node = Node()
    state = state_of(node)
    await append(node, state, 0, (b"k", b"1"))
    node.world.disk.fill(0)
    with pytest.raises(HeadraceError):
        await append(node, state, 0, (b"k", b"2"))
    node.world.disk.empty()
    await append(node, state, 0, (b"k", b"3"))
    assert [value for _, value, _ in await loaded(node, state, 0)] == [b"1", b"3"]


async def test_a_transactions_batches_and_ends_are_told_apart():
    node = Node()
    state = state_of(node)
    await append(node, state, 0, (b"k", b"plain"))
    promise = node.broker.new_promise()
    state.append(0, [(b"k", b"pending")], lambda error: promise.set_result(None), Producer(7, 0, -1))
    await node.do(promise)
    seen: list[tuple[bool, int, list[Record]]] = []
    ended = node.broker.new_promise()

    def apply(header: BatchHeader, records: list[Record]) -> None:
        seen.append((header.is_transactional, header.producer_id, records))

    state.load_batches(0, apply, lambda error: ended.set_result(None))
    await node.do(ended)
    assert [(kind, producer, records[0].value) for kind, producer, records in seen] == [
        (False, -1, b"plain"),
        (True, 7, b"pending"),
    ]
