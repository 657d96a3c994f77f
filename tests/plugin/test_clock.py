"""Time that a test moves: what waits for a moment comes due, and is done when `advance` returns."""

from __future__ import annotations

import time
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.testing import Broker
from headrace.testing.clock import duration_s
from tests.support import Wire, batch_of, wait_until

DAY_S = 86400


@pytest.fixture(params=["memory", "disk"])
def broker(request: pytest.FixtureRequest):
    with Broker(request.param) as started:
        yield started


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("10 min", 600),
        ("10min", 600),
        ("1h 30m", 5400),
        ("1h30m", 5400),
        ("500ms", 0.5),
        ("8 days", 8 * DAY_S),
        ("1 day 2 hours 3 minutes 4 seconds", DAY_S + 7384),
        ("1.5 h", 5400),
        (" 2 W ", 14 * DAY_S),
        (90, 90),
        (0.25, 0.25),
        (timedelta(minutes=2), 120),
    ],
)
def test_durations_are_said_as_people_say_them(said: object, seconds: float) -> None:
    assert duration_s(said) == pytest.approx(seconds)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "said", ["", "ten minutes", "10", "10 parsecs", "-1s", "1h -5m", -1, float("nan"), float("inf")]
)
def test_what_is_no_duration_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match=r"duration|forward"):
        duration_s(said)  # type: ignore[arg-type]


def test_records_past_retention_are_gone_when_the_clock_was_moved(broker: Broker) -> None:
    broker.produce("orders", "old")
    broker.clock.advance("6 days")
    assert broker.values("orders") == [b"old"]
    broker.produce("orders", "new")
    broker.clock.advance("1 day 1 h")
    # One segment holds both: it goes when its newest record is too old.
    assert broker.values("orders") == [b"old", b"new"]
    broker.clock.advance("7 days")
    assert broker.values("orders") == []
    assert broker.offsets("orders") == (2, 2)


def test_retention_to_the_second_takes_closed_segments_only(broker: Broker) -> None:
    broker.create_topic("orders", config={"retention.ms": 660_000, "segment.ms": 60_000})
    for number in range(10):
        broker.produce("orders", str(number))
        broker.clock.advance("2 min")
    assert broker.offsets("orders") == (5, 10)
    broker.clock.advance("2 min")
    assert broker.offsets("orders") == (6, 10)


def test_old_files_are_gone_when_the_call_returns() -> None:
    def held_bytes(broker: Broker) -> int:
        return sum(path.stat().st_size for path in Path(broker.data, "topics").rglob("*") if path.is_file())

    with Broker("disk") as broker:
        broker.produce("orders", *(b"x" * 100_000 for _ in range(20)))
        assert held_bytes(broker) > 2_000_000
        broker.clock.advance("8 days")
        assert held_bytes(broker) < 100_000
        assert not list(Path(broker.data).rglob("*.deleted"))


def test_what_was_deleted_stays_deleted_over_a_crash_right_after(broker: Broker) -> None:
    broker.produce("orders", "old")
    broker.clock.advance("8 days")
    broker.crash(power_loss=True)
    broker.restart()
    assert broker.offsets("orders") == (1, 1)


def test_a_week_costs_little() -> None:
    with Broker(topics={f"t{number}": 4 for number in range(5)}) as broker:
        for number in range(5):
            broker.produce(f"t{number}", "x")
        begin = time.perf_counter()
        broker.clock.advance("1 week")
        took = time.perf_counter() - begin
        assert took < 2.0, took


def test_each_timer_is_worked_off_at_its_own_moment_in_a_short_jump() -> None:
    with Broker() as broker:
        life = broker._life
        assert life is not None
        seen: list[float] = []

        async def every_second() -> float:
            loop = life._loop

            def again() -> None:
                seen.append(loop.time())
                loop.call_later(1.0, again)

            began = loop.time()  # before the timer is set: not a moment later than it counts from
            loop.call_later(1.0, again)
            return began

        begin = life.call(every_second)
        broker.clock.advance(100.5)
        assert 95 <= len(seen) <= broker._movable.monotonic() - begin  # real time passes too
        gaps = [later - earlier for earlier, later in pairwise([begin, *seen])]
        assert min(gaps) >= 1.0
        # Real time passes too: a busy machine may hold up a few. A jump past them would make all of them late but one.
        assert sum(gap >= 1.05 for gap in gaps) <= len(gaps) // 10


def test_new_records_carry_the_moved_time(broker: Broker) -> None:
    before_ms = time.time_ns() // 1_000_000
    broker.clock.advance("1 h")
    broker.create_topic("orders", config={"message.timestamp.type": "LogAppendTime"})
    broker.produce("orders", "x")
    (record,) = broker.records("orders")
    assert record.timestamp_type == "append"
    assert 0 <= record.timestamp_ms - before_ms - 3_600_000 < 60_000
    assert abs(broker.clock.now().timestamp() * 1000 - record.timestamp_ms) < 60_000
    assert broker.clock.ahead_s == 3600


def test_a_long_poll_ends_when_the_clock_passes_its_wait(broker: Broker) -> None:
    broker.create_topic("orders")
    broker.produce("orders", "x")
    with Wire(broker.kafka) as wire:
        wire.send_fetch("orders", {0: 1}, max_wait_ms=60_000)
        time.sleep(0.05)
        begin = time.perf_counter()
        broker.clock.advance("61 s")
        _, (fetched,) = wire.receive_fetched()
        assert (fetched.error, fetched.pieces or []) == (0, [])
        assert time.perf_counter() - begin < 10


def test_an_idle_connection_is_closed_when_its_time_has_passed() -> None:
    with Broker(idle_ms=600_000) as broker, Wire(broker.kafka) as wire:
        wire.ping()
        assert broker.connections() == 1
        broker.clock.advance("9 min")
        assert broker.connections() == 1
        broker.clock.advance("2 min")
        assert broker.connections() == 0
        assert wire.is_closed()


def test_half_a_request_closes_its_connection_in_the_brokers_time() -> None:
    with Broker(stall_ms=30_000) as broker, Wire(broker.kafka) as wire:
        wire.ping()
        wire.send(b"\x00\x00")
        wait_until(lambda: broker.connections() == 1)
        time.sleep(0.05)
        broker.clock.advance("1 min")
        assert wire.is_closed()


def test_time_passes_for_a_broker_that_is_down(broker: Broker) -> None:
    broker.produce("orders", "old")
    broker.crash()
    broker.clock.advance("8 days")
    broker.restart()
    assert broker.values("orders") == [b"old"]  # read, and thereby opened: a log that nobody opens is not looked at
    broker.clock.advance(0)
    assert broker.values("orders") == []


def test_a_node_that_was_down_for_longer_than_a_segment_of_its_metadata_lasts_starts(broker: Broker) -> None:
    """Its first entry begins a segment: the sync that this brings along was taken for a failure of the node's own."""
    broker.stop()
    broker.clock.advance("30 days")
    broker.start()
    broker.create_topic("orders")
    broker.restart()
    assert broker.topics() == {"orders": 1}


def test_the_clock_is_still_ahead_after_a_restart(broker: Broker) -> None:
    broker.clock.advance("1 day")
    broker.restart()
    assert broker.clock.ahead_s == DAY_S
    broker.produce("orders", "x")
    (record,) = broker.records("orders")
    assert record.timestamp_ms - time.time() * 1000 > (DAY_S - 60) * 1000


def test_a_flush_by_time_is_synced_when_the_clock_has_passed_it() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"flush.ms": 5000})
        broker.produce("orders", "zero")
        with Wire(broker.kafka) as wire:
            assert wire.produce("orders", batch_of([b"one"]), acks=1).error == 0
        broker.clock.advance("7 s")
        broker.crash(power_loss=True)
        broker.restart()
        assert broker.values("orders") == [b"zero", b"one"]
