"""What a queue gives up: the dead-letter topic, what stands there, and delivering it again."""

from __future__ import annotations

import pytest

from headrace.broker.config import parse
from headrace.broker.queues import coordinator
from headrace.broker.queues.settings import QueueSettings, dead_letter_name
from headrace.errors import InvalidConfig
from tests.queues.kit import AT_LEAST_ONCE, places, started


async def test_after_the_last_attempt_a_record_is_in_the_dead_letter_topic_with_the_reason():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.max.attempts": "2", "headrace.queue.backoff.ms": "0"})
    taker = node.join(await node.open())
    await node.publish("poison", "good", key=b"k", headers=(("id", b"7"),))
    await node.settle()
    taker.membership.release([(0, 0)])
    await node.settle()
    taker.membership.release([(0, 0)])
    await node.settle()
    assert taker.values == ["poison", "good", "poison"]
    key = taker.membership._queue.key
    (dead,) = await node.do(node.broker.queues.dead(key))
    assert (dead.record.key, dead.record.value) == (b"k", b"poison")
    headers = dict(dead.record.headers)
    assert headers["id"] == b"7"
    assert headers["headrace.dead.topic"] == b"t" and headers["headrace.dead.offset"] == b"0"
    assert headers["headrace.dead.attempts"] == b"2" and headers["headrace.dead.reason"] == b"released"
    assert node.broker.topic("t.dead") is not None
    await node.restart()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == ["good"]


async def test_rejected_records_go_to_the_dead_letter_topic_at_once():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1")
    await node.settle()
    assert taker.membership.reject([(0, 0)], "not an order") == 1
    await node.settle()
    (dead,) = await node.do(node.broker.queues.dead(queue.key))
    assert dead.letter.reason == "not an order" and dead.letter.attempts == 1


async def test_without_a_dead_letter_topic_what_is_given_up_is_dropped_and_told():
    node = await started(AT_LEAST_ONCE, {"headrace.queue.dead.letter": "off"})
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1")
    await node.settle()
    taker.membership.reject([(0, 0)])
    await node.settle()
    node.broker.maintain()
    assert "queue.dropped" in node.world.kinds() and node.broker.topic("t.dead") is None
    await node.restart()
    again = node.join(await node.open())
    await node.settle()
    assert again.values == []


async def test_dead_letters_are_delivered_again_to_that_queue_alone_and_once():
    node = await started(AT_LEAST_ONCE)
    queue, other = await node.open(), await node.open(group="other")
    taker, bystander = node.join(queue), node.join(other)
    await node.publish("1", "2", "3")
    await node.settle()
    taker.membership.reject([(0, 0), (0, 2)])
    taker.membership.acknowledge([(0, 1)])
    await node.settle()
    taker.clear(), bystander.clear()
    node.world.clock.ms += 1
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 2
    await node.settle()
    assert taker.values == ["1", "3"] and taker.attempts == [1, 1] and bystander.values == []
    assert taker.membership.acknowledge(places(taker.deliveries)) == 2
    await node.settle()
    assert await node.do(node.broker.queues.dead(queue.key)) == []
    assert len(await node.do(node.broker.queues.dead(queue.key, everything=True))) == 2
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 0


async def test_of_more_dead_letters_than_one_request_may_bring_none_is_left_out_however_close_they_died(monkeypatch):
    monkeypatch.setattr(coordinator, "MAX_REDELIVERED", 2)
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2", "3", "4", "5")
    await node.settle()
    taker.membership.reject(places(taker.deliveries))
    await node.settle()
    assert len({dead.letter.time_ms for dead in await node.do(node.broker.queues.dead(queue.key))}) == 1
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 2
    await node.restart()
    queue, taker = await node.open(), node.join(await node.open())
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 2
    assert [dead.record.value for dead in await node.do(node.broker.queues.dead(queue.key))] == [b"5"]
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 1
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 0
    await node.settle()
    assert sorted(taker.values) == ["1", "2", "3", "4", "5"]
    taker.membership.reject([(0, 2)])  # in the very same moment
    await node.settle()
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 1


async def test_letters_of_a_dead_letter_topic_that_was_made_anew_are_delivered_again():
    node = await started(AT_LEAST_ONCE)
    queue = await node.open()
    taker = node.join(queue)
    await node.publish("1", "2")
    await node.settle()
    taker.membership.reject(places(taker.deliveries))
    await node.settle()
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 2
    await node.do(node.broker.delete_topics(["t.dead"]))
    await node.settle()
    taker.membership.reject([(0, 0)])
    await node.settle()
    assert (await node.do(node.broker.queues.redeliver(queue.key))).records == 1


async def test_a_name_with_the_place_of_another_in_it_makes_the_right_dead_letter_topic():
    config = parse({"headrace.queue.dead.letter": "dead.{group}.of.{topic}"})
    assert dead_letter_name(AT_LEAST_ONCE, config, "a{group}", "b{topic}") == "dead.b{topic}.of.a{group}"
    assert dead_letter_name(QueueSettings(dead_letter="off"), config, "a", "b") is None
    assert dead_letter_name(QueueSettings(dead_letter="dead"), config, "dead", "g") == "dead.dead"
    for wrong in ("", "{topic}", "..", "a\nb", "x" * 250):
        with pytest.raises(InvalidConfig):
            parse({"headrace.queue.dead.letter": wrong})
