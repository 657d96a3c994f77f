"""Faults on request: each does what its name says, to the clients and to the data, and the same seed does the same."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from headrace.errors import DiskFull, HeadraceError, StorageFailed
from headrace.testing import Broker, NotRunning
from headrace.wire.kafka.errors import Code
from tests.support import Closed, Wire, batch_of, wait_until

ALL, WRITTEN = -1, 1
SEEDS = 6


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(request.param, seed=7) as started:
        started.produce("orders", "zero")
        yield started


def produce(broker: Broker, value: bytes, acks: int = ALL) -> int:
    """The error code."""
    with Wire(broker.kafka) as wire:
        return wire.produce("orders", batch_of([value]), acks=acks).error


# Crash


def test_a_crash_resets_connections_and_refuses_new_ones(broker: Broker) -> None:
    host, _, port = broker.kafka.rpartition(":")
    with Wire(broker.kafka) as wire:
        wire.ping()
        broker.crash()
        with pytest.raises(ConnectionResetError):
            wire.socket.recv(1)
    with pytest.raises(ConnectionRefusedError), socket.create_connection((host, int(port)), timeout=5):
        pass
    assert not broker.is_running
    broker.crash()


def test_what_was_written_survives_a_crash_and_what_was_synced_a_power_loss(broker: Broker) -> None:
    assert produce(broker, b"written", acks=WRITTEN) == 0
    broker.crash()
    broker.restart()
    assert broker.values("orders") == [b"zero", b"written"]
    assert produce(broker, b"synced", acks=ALL) == 0
    broker.crash(power_loss=True)
    broker.restart()
    assert broker.values("orders") == [b"zero", b"written", b"synced"]


def lost_by(storage: str, seed: int) -> list[bytes | None]:
    """Three records that nothing has synced, and then the power goes."""
    with Broker(storage, seed=seed) as broker:  # type: ignore[arg-type]
        broker.produce("orders", "zero")
        for value in (b"one", b"two", b"three"):
            assert produce(broker, value, acks=WRITTEN) == 0
        broker.crash(power_loss=True)
        broker.restart()
        return broker.values("orders")


@pytest.mark.parametrize("storage", ["memory", "disk"])
def test_a_power_loss_takes_what_was_not_synced_by_seed_and_never_a_part_of_it(storage: str) -> None:
    outcomes = [lost_by(storage, seed) for seed in range(SEEDS)]
    assert outcomes == [lost_by(storage, seed) for seed in range(SEEDS)], "the same seed loses the same"
    whole = [b"zero", b"one", b"two", b"three"]
    assert all(outcome == whole[: len(outcome)] and outcome for outcome in outcomes)
    assert len({len(outcome) for outcome in outcomes}) > 1, "and not every seed the same"


def test_nobody_is_answered_after_a_crash(broker: Broker) -> None:
    broker.slow_disk("1 h")
    with Wire(broker.kafka) as wire:
        wire.send_produce("orders", batch_of([b"one"]), 0, ALL)
        wait_until(lambda: broker.offsets("orders") == (0, 2))
        broker.crash()
        with pytest.raises(Closed):
            wire.receive()
    broker.slow_disk(0)
    broker.restart()
    assert broker.values("orders") == [b"zero", b"one"]


def test_whoever_waits_for_the_broker_when_it_crashes_is_told(broker: Broker) -> None:
    broker.slow_disk("1 h")
    told: list[BaseException] = []

    def wait() -> None:
        try:
            broker.produce("orders", "one")
        except NotRunning as error:
            told.append(error)

    threads = [threading.Thread(target=wait) for _ in range(3)]
    for thread in threads:
        thread.start()
    wait_until(lambda: broker.offsets("orders")[1] == 4)
    begin = time.monotonic()
    broker.crash()
    for thread in threads:
        thread.join()
    assert time.monotonic() - begin < 10
    assert [str(error) for error in told] == ["the broker went down meanwhile"] * 3
    with pytest.raises(NotRunning, match="is down"):
        broker.topics()


def test_a_crash_in_the_midst_of_work_is_survived_again_and_again(broker: Broker) -> None:
    acknowledged: list[bytes] = [b"zero"]
    stopped = threading.Event()

    def work() -> None:
        number = 0
        while not stopped.is_set():
            try:
                with Wire(broker.kafka, limit_s=5) as wire:
                    while not stopped.is_set():
                        number += 1
                        value = b"%d" % number
                        if wire.produce("orders", batch_of([value]), acks=ALL).error == 0:
                            acknowledged.append(value)
            except (Closed, OSError):
                time.sleep(0.002)

    thread = threading.Thread(target=work)
    thread.start()
    for number in range(12):
        time.sleep(0.03)
        broker.crash(power_loss=number % 2 == 0)
        broker.restart()
    stopped.set()
    thread.join()
    kept = broker.values("orders")
    assert len(acknowledged) > 12
    assert [value for value in acknowledged if value not in kept] == []


# Connections


def test_dropped_connections_are_reset_and_can_be_made_again(broker: Broker) -> None:
    wires = [Wire(broker.kafka) for _ in range(5)]
    for wire in wires:
        wire.ping()
    assert broker.drop_connections() == 5
    for wire in wires:
        with pytest.raises(ConnectionResetError):
            wire.socket.recv(1)
        wire.close()
    assert produce(broker, b"one") == 0
    assert broker.drop_connections() in (0, 1)


def test_a_share_of_connections_is_dropped_by_seed() -> None:
    def dropped(seed: int) -> int:
        with Broker(seed=seed) as broker:
            wires = [Wire(broker.kafka) for _ in range(20)]
            for wire in wires:
                wire.ping()
            count = broker.drop_connections(0.5)
            wait_until(lambda: broker.connections() == 20 - count)
            for wire in wires:
                wire.close()
            return count

    assert 0 < dropped(1) < 20
    assert dropped(1) == dropped(1)


# A slow disk


def test_a_slow_disk_holds_back_what_waits_for_a_sync_and_nothing_else(broker: Broker) -> None:
    broker.slow_disk(0.8)
    begin = time.perf_counter()
    assert produce(broker, b"written", acks=WRITTEN) == 0
    assert time.perf_counter() - begin < 0.8
    begin = time.perf_counter()
    assert produce(broker, b"synced", acks=ALL) == 0
    assert time.perf_counter() - begin >= 0.79
    broker.slow_disk(0)
    begin = time.perf_counter()
    assert produce(broker, b"quick", acks=ALL) == 0
    assert time.perf_counter() - begin < 0.8


def test_the_clock_gets_over_a_slow_disk(broker: Broker) -> None:
    broker.slow_disk("10 s", jitter=0.5)
    with Wire(broker.kafka) as wire:
        wire.send_produce("orders", batch_of([b"one"]), 0, ALL)
        wait_until(lambda: broker.offsets("orders") == (0, 2))
        broker.clock.advance("16 s")
        _, result = wire.receive_produced()
    assert result.error == 0


def test_a_produce_that_waits_for_a_slow_disk_is_told_in_time(broker: Broker) -> None:
    broker.slow_disk("1 h")
    with Wire(broker.kafka) as wire:
        wire.send_produce("orders", batch_of([b"one"]), 0, ALL)
        wait_until(lambda: broker.offsets("orders") == (0, 2))
        broker.clock.advance("1 min")
        _, result = wire.receive_produced()
    assert result.error == Code.REQUEST_TIMED_OUT


def test_the_jitter_of_a_disk_is_a_part_of_it(broker: Broker) -> None:
    with pytest.raises(ValueError, match="0 to 1"):
        broker.slow_disk(1, jitter=2)


# A full disk


def test_a_full_disk_refuses_writes_until_there_is_space(broker: Broker) -> None:
    broker.fill_disk()
    assert produce(broker, b"refused", acks=WRITTEN) == Code.KAFKA_STORAGE_ERROR
    with pytest.raises(DiskFull, match="no space left"):
        broker.produce("orders", "refused")
    assert "produce.refused" in [event.name for event in broker.events]
    assert broker.values("orders") == [b"zero"], "what was there can be read"
    broker.free_disk()
    assert produce(broker, b"taken") == 0
    assert broker.values("orders") == [b"zero", b"taken"]
    broker.crash(power_loss=True)
    broker.restart()
    assert broker.values("orders") == [b"zero", b"taken"]


def test_a_disk_with_little_space_takes_that_much(broker: Broker) -> None:
    broker.fill_disk(10_000)
    taken = 0
    while produce(broker, b"x" * 1000, acks=WRITTEN) == 0:
        taken += 1
    assert 5 <= taken <= 9
    broker.free_disk()
    assert len(broker.values("orders")) == taken + 1


def test_a_full_disk_does_not_hinder_a_crash_and_a_restart(broker: Broker) -> None:
    broker.fill_disk(50_000)
    while produce(broker, b"x" * 1000, acks=WRITTEN) == 0:
        pass
    kept = len(broker.values("orders"))
    broker.crash()
    broker.free_disk()
    broker.restart()
    assert len(broker.values("orders")) == kept


def test_a_start_on_a_full_disk_works_or_says_so_and_works_when_there_is_space(broker: Broker) -> None:
    broker.crash()
    broker.fill_disk()
    try:
        broker.start()
    except HeadraceError as error:
        assert "no space" in str(error)
        assert not broker.is_running
    broker.free_disk()
    broker.start()
    assert produce(broker, b"one") == 0
    assert broker.values("orders") == [b"zero", b"one"]


def test_a_node_that_starts_on_a_full_disk_serves_and_lets_go_of_what_is_old(broker: Broker) -> None:
    broker.create_topic("old", config={"retention.ms": "60000", "segment.bytes": "16384"})
    for _ in range(30):
        broker.produce("old", b"x" * 1000)
    for _ in range(3):  # and again and again
        broker.crash()
        broker.fill_disk()
        broker.start()
    assert broker.values("orders") == [b"zero"], "what was there can be read"
    assert len(broker.values("old")) == 30
    assert produce(broker, b"x" * 10_000, acks=WRITTEN) == Code.KAFKA_STORAGE_ERROR
    broker.clock.advance("20 min")
    assert broker.values("old") == []
    assert produce(broker, b"x" * 10_000, acks=ALL) == 0


# A failing sync


def test_a_failed_sync_is_never_acknowledged_and_the_log_recovers(broker: Broker) -> None:
    broker.fail_sync(path="topics")
    assert produce(broker, b"doubtful", acks=ALL) == Code.KAFKA_STORAGE_ERROR
    assert "log.failed" in [event.name for event in broker.events]
    with pytest.raises(StorageFailed):
        broker.produce("orders", "too early")
    broker.clock.advance("10 s")
    assert produce(broker, b"after", acks=ALL) == 0
    assert broker.values("orders")[-1] == b"after"
    broker.crash(power_loss=True)
    broker.restart()
    assert broker.values("orders")[0] == b"zero"
    assert broker.values("orders")[-1] == b"after"


def test_healing_ends_every_fault(broker: Broker) -> None:
    broker.fail_sync(100)
    broker.fill_disk()
    broker.slow_disk("1 h")
    broker.heal()
    assert produce(broker, b"one") == 0
    assert broker.values("orders") == [b"zero", b"one"]


def test_a_broker_with_every_fault_can_be_closed() -> None:
    for storage in ("memory", "disk"):
        begin = time.perf_counter()
        with Broker(storage) as broker:  # type: ignore[arg-type]
            broker.produce("orders", "zero")
            broker.slow_disk("1 h")
            broker.fill_disk()
            with Wire(broker.kafka) as wire:
                wire.send_produce("orders", batch_of([b"x"]), 0, ALL)
            broker.fail_sync(100)
        assert time.perf_counter() - begin < 10
