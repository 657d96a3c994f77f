"""The broker in a test's own process: its life, its addresses, the shortcuts into it."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from pathlib import Path

import pytest

import headrace
from headrace.client.values import Delivery
from headrace.errors import HeadraceError, InvalidConfig, InvalidPartitions, MessageTooLarge, TopicExists, UnknownTopic
from headrace.testing import Broker, BrokerFault, NotRunning
from tests.support import Wire, batch_of, wait_until

STORAGES = ["memory", "disk"]


@pytest.fixture(params=STORAGES)
def broker(request: pytest.FixtureRequest):
    with Broker(request.param, seed=1) as started:
        yield started


def test_it_serves_where_it_says_and_no_more_when_closed() -> None:
    with Broker() as broker:
        host, _, port = broker.kafka.rpartition(":")
        with Wire(broker.kafka) as wire:
            wire.ping()
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), timeout=5):
        pass


def test_what_is_produced_is_read_back_with_all_that_it_carries(broker: Broker) -> None:
    (first,) = broker.produce("orders", "one", key="k", headers={"h": "v", "n": None}, timestamp_ms=1_700_000_000_000)
    assert first == Delivery("orders", 0, 0, 1_700_000_000_000)
    broker.produce("orders", None, b"")
    one, null, empty = broker.records("orders")
    assert (one.topic, one.partition, one.offset, one.key, one.value) == ("orders", 0, 0, b"k", b"one")
    assert one.headers == (("h", b"v"), ("n", None))
    assert (one.timestamp_ms, one.timestamp_type) == (1_700_000_000_000, "create")
    assert (null.value, empty.value) == (None, b"")
    assert broker.values("orders") == [b"one", None, b""]
    assert broker.offsets("orders") == (0, 3)


def test_a_broker_whose_topics_are_refused_leaves_nothing_behind() -> None:
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    with pytest.raises(InvalidPartitions), Broker("disk", topics={"t": 0}):
        pass
    assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors)


def test_topics_are_made_listed_and_deleted(broker: Broker) -> None:
    broker.create_topic("a", 3, {"retention.ms": 1000})
    broker.create_topic("b")
    assert broker.topics() == {"a": 3, "b": 1}
    with pytest.raises(TopicExists):
        broker.create_topic("a")
    broker.produce("a", "x", partition=2)
    assert [record.partition for record in broker.records("a")] == [2]
    assert broker.values("a", 0) == []
    broker.delete_topic("a")
    assert broker.topics() == {"b": 1}
    with pytest.raises(UnknownTopic, match="there are: b"):
        broker.records("a")


def test_a_record_that_is_refused_keeps_back_none_of_those_before_it(broker: Broker) -> None:
    broker.create_topic("orders", config={"max.message.bytes": 1000})
    with pytest.raises(MessageTooLarge):
        broker.produce("orders", "small", "x" * 2000, "after it")
    assert broker.values("orders") == [b"small"]


def test_a_key_chooses_the_partition_that_clients_choose(broker: Broker) -> None:
    broker.create_topic("orders", 5)
    with headrace.connect(broker.kafka) as client, client.producer() as producer:
        for number in range(20):
            theirs = producer.send("orders", "theirs", key=f"k{number}")
            (ours,) = broker.produce("orders", "ours", key=f"k{number}")
            assert ours.partition == theirs.partition


def test_topics_and_settings_can_be_given_at_the_start() -> None:
    with Broker(topics={"orders": 4}, default_partitions=2, auto_create_topics=False) as broker:
        broker.create_topic("more")
        assert broker.topics() == {"more": 2, "orders": 4}
        with pytest.raises(UnknownTopic):
            broker.produce("absent", "x")
        broker.restart()
        assert broker.topics() == {"more": 2, "orders": 4}
    with Broker(topics=["a", "b"]) as broker:
        assert broker.topics() == {"a": 1, "b": 1}


@pytest.mark.parametrize("wrong", [{"default_partitions": 0}, {"no_such_flag": 1}, {"default_partitions": "many"}])
def test_a_setting_that_is_wrong_is_named_and_nothing_is_started(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidConfig, match=next(iter(wrong)).replace("_", "-")):
        Broker(**wrong).start()  # type: ignore[arg-type]


def test_a_storage_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="memory"):
        Broker("tape")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="disk"):
        Broker("memory", data=tmp_path)


def test_a_restart_keeps_addresses_and_records(broker: Broker) -> None:
    broker.produce("orders", "one")
    before = broker.kafka
    broker.restart()
    assert broker.kafka == before
    with Wire(broker.kafka) as wire:
        wire.ping()
    broker.stop()
    assert not broker.is_running and broker.kafka == before
    with pytest.raises(NotRunning, match="down"):
        broker.topics()
    broker.stop()
    broker.start()
    broker.start()
    assert broker.values("orders") == [b"one"]


def test_while_it_is_down_its_port_is_refused_and_given_to_nobody(broker: Broker) -> None:
    host, _, port = broker.kafka.rpartition(":")
    broker.stop()
    for _ in range(3):
        with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), timeout=5):
            pass
    with socket.socket() as other, pytest.raises(OSError, match="in use"):
        other.bind((host, int(port)))
    broker.start()
    with Wire(broker.kafka) as wire:
        wire.ping()


def test_a_data_folder_that_is_given_stays_and_can_be_opened_again(tmp_path: Path) -> None:
    with Broker("disk", data=tmp_path / "data") as broker:
        broker.produce("orders", "one")
        assert broker.data == str(tmp_path / "data")
    with Broker("disk", data=tmp_path / "data") as broker:
        assert broker.values("orders") == [b"one"]


def test_a_temporary_folder_goes_with_its_broker() -> None:
    with Broker("disk") as broker:
        folder = Path(broker.data)
        assert (folder / "format").exists()
    assert not folder.parent.exists()


def test_many_brokers_live_side_by_side() -> None:
    brokers = [Broker(seed=number) for number in range(8)]
    for broker in brokers:
        broker.start()
    assert len({broker.kafka for broker in brokers}) == 8
    for number, broker in enumerate(brokers):
        broker.produce("orders", str(number))
    for number, broker in enumerate(brokers):
        assert broker.values("orders") == [str(number).encode()]
        broker.close()


def test_the_same_seed_gives_the_same_ids() -> None:
    def topic_id(seed: int) -> object:
        with Broker(seed=seed, topics=["orders"]) as broker, Wire(broker.kafka) as wire:
            return wire.topic_id("orders")

    assert topic_id(1) == topic_id(1) != topic_id(2)


def test_several_threads_may_command_it(broker: Broker) -> None:
    def work(name: str) -> None:
        for number in range(20):
            broker.produce(name, str(number))

    threads = [threading.Thread(target=work, args=(f"t{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(len(broker.values(f"t{number}")) == 20 for number in range(4))


def test_waiting_for_records_ends_when_they_are_there_or_in_time(broker: Broker) -> None:
    later = threading.Timer(0.1, broker.produce, args=("orders", "one", "two"))
    later.start()
    assert [record.value for record in broker.wait_for("orders", 2)] == [b"one", b"two"]
    later.join()
    with pytest.raises(TimeoutError, match=r"2 records after 0\.05 s, not 3"):
        broker.wait_for("orders", 3, timeout=0.05)


async def test_it_is_an_asynchronous_context_too_and_has_coroutines() -> None:
    async with Broker() as broker:
        await broker.aio.produce("orders", "one")
        turns = 0

        async def count() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        counting = asyncio.create_task(count())
        await broker.aio.restart()
        await broker.aio.advance("1 h")
        counting.cancel()
        assert turns > 10, "the test's own loop goes on meanwhile"
        assert await broker.aio.values("orders") == [b"one"]
        assert broker.values("orders") == [b"one"], "and the plain methods work in a coroutine"


def test_what_goes_wrong_inside_of_the_broker_is_raised_at_its_end() -> None:
    with pytest.raises(BrokerFault, match="planted"), Broker() as broker:
        life = broker._life
        assert life is not None
        life._loop.call_soon_threadsafe(lambda: {}["planted"])
        broker.settle()
        assert broker.is_running


def test_a_failed_test_body_is_not_hidden_by_what_the_end_finds() -> None:
    with pytest.raises(ZeroDivisionError), Broker() as broker:
        life = broker._life
        assert life is not None
        life._loop.call_soon_threadsafe(lambda: {}["planted"])
        broker.settle()
        raise ZeroDivisionError


def test_events_tell_what_happened(broker: Broker) -> None:
    broker.create_topic("orders")
    assert "topic.created topic=orders partitions=1" in str(broker.events[-1])


def test_before_the_start_nothing_is_known() -> None:
    broker = Broker()
    with pytest.raises(NotRunning, match="not started"):
        _ = broker.kafka
    with pytest.raises(NotRunning, match="not started"):
        broker.fill_disk()
    assert "down" in repr(broker)
    broker.close()


def test_it_is_ready_within_fifty_milliseconds() -> None:
    took = []
    for _ in range(5):
        begin = time.perf_counter()
        with Broker() as broker, Wire(broker.kafka) as wire:
            wire.ping()
            took.append(time.perf_counter() - begin)
    assert min(took) < 0.05, took


def test_a_request_under_way_at_a_stop_is_answered(broker: Broker) -> None:
    broker.produce("orders", "zero")
    broker.slow_disk("1 h")
    answers: list[int] = []
    with Wire(broker.kafka) as wire:
        thread = threading.Thread(target=lambda: answers.append(wire.produce("orders", batch_of([b"one"])).error))
        thread.start()
        wait_until(lambda: broker.offsets("orders") == (0, 2))
        broker.stop()
        thread.join()
    assert answers == [0]
    broker.slow_disk(0)
    broker.start()
    assert broker.values("orders") == [b"zero", b"one"]


def test_an_address_that_is_taken_is_named_and_nothing_is_left() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = f"127.0.0.1:{other.getsockname()[1]}"
        with pytest.raises(HeadraceError, match=taken):
            Broker(kafka=taken).start()


def test_a_broker_that_was_closed_starts_anew_with_nothing() -> None:
    broker = Broker(topics=["orders"])
    with broker:
        broker.produce("orders", "one")
    with broker:
        assert broker.values("orders") == []


def test_it_can_listen_on_ipv6() -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    with Broker(host="::1", topics=["orders"]) as broker:
        assert broker.kafka.startswith("[::1]:")
        with socket.create_connection(("::1", int(broker.kafka.rpartition(":")[2])), timeout=5):
            pass


def test_an_argument_that_was_mistyped_is_named_as_it_was_meant() -> None:
    with pytest.raises(InvalidConfig, match="did you mean storage="):
        Broker(storge="disk").start()
