"""Topics come and go under their subscribers, and the benchmark's loads count right."""

from __future__ import annotations

import os

from bench import fanout
from headrace.testing.broker import Broker
from tests.doors_msgpack.kit import Raw, delivery, publish, subscribe
from tests.support import wait_until

HOUR_S = 3600


def test_a_memory_topic_that_was_dropped_comes_back_for_its_subscribers() -> None:
    with Broker() as broker, Raw(broker.addresses["msgpack"]) as client:
        client.send(subscribe("idle/*"), publish("idle/x", b"\x01"))
        client.expect(delivery("idle/x", b"\x01"))
        (_, before) = broker.offsets("idle/x")

        def is_dropped() -> bool:
            broker.clock.advance(HOUR_S)
            return "idle/x" not in broker.topics()

        wait_until(is_dropped)
        client.send(publish("idle/x", b"\x02"))
        client.expect(delivery("idle/x", b"\x02"))
        assert broker.offsets("idle/x")[0] >= before


def test_a_topic_that_is_made_on_disk_takes_the_place_of_the_one_in_memory() -> None:
    with Broker() as broker, Raw(broker.addresses["msgpack"]) as client:
        client.send(subscribe("place"), publish("place", b"\x01"))
        client.expect(delivery("place", b"\x01"))
        broker.create_topic("place", 1)
        client.send(publish("place", b"\x02"))
        client.expect(delivery("place", b"\x02"))
        client.expect_nothing()
        broker.restart()
        assert broker.values("place") == [b"\x02"]


def test_a_deleted_topic_begins_anew_for_its_subscribers() -> None:
    with Broker(topics=["gone"]) as broker, Raw(broker.addresses["msgpack"]) as client:
        client.send(subscribe("gone"), publish("gone", b"\x01"))
        client.expect(delivery("gone", b"\x01"))
        broker.delete_topic("gone")
        client.send(publish("gone", b"\x02"))
        client.expect(delivery("gone", b"\x02"))
        client.expect_nothing()


def test_the_loads_of_the_benchmark_get_all_that_they_published() -> None:
    with Broker() as broker:
        address = broker.addresses["msgpack"]
        seen = fanout.fan_out(address, os.getpid(), subscribers=3, messages=20_000)
        assert seen.deliveries == 3 * seen.messages >= 60_000
        seen = fanout.commands(address, os.getpid(), clients=3, seconds=0.2)
        assert seen.messages > 0
        assert seen.deliveries == seen.messages // 7 * 3
