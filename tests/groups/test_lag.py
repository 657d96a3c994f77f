"""How far a group is behind, in seconds: also on a marker, where reading fails, and with many positions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from confluent_kafka import Producer

import headrace
from headrace.broker.broker import NewTopic
from headrace.broker.groups import lag as watching
from headrace.broker.groups.lag import Lag, LagWatch
from headrace.broker.groups.positions import Position, Positions
from headrace.errors import DamagedRange, HeadraceError, StorageFailed
from headrace.log.reader import ReadResult
from headrace.records.codec import Record, encode
from headrace.records.control import Marker, encode_marker
from tests.doors.asking import Asker, asking
from tests.doors_http.running import until
from tests.groups.asking import GROUP, commit
from tests.support import serving, wait_until

WHERE = (GROUP, "t", 0)


def transact(address: str, times: int, topic: str = "t") -> None:
    """Each two records and a marker."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": "lag"})
    producer.init_transactions(30)
    for _ in range(times):
        producer.begin_transaction()
        for value in (b"one", b"two"):
            producer.produce(topic, value, partition=0)
        producer.commit_transaction(30)


async def seen(asker: Asker) -> Lag:
    """After a look, when all that it reads has come."""
    watch = asker.node.broker.groups.lag
    watch.look()
    await until(lambda: not watch._is_looking)
    return watch.lags[WHERE]


async def test_a_position_on_a_marker_is_as_old_as_the_record_behind_it(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", 1)])
        address = str(asker.node.addresses["kafka"])
        await asyncio.to_thread(transact, address, 2)  # 0 1 marker 3 4 marker
        await until(lambda: asker.node.broker.topics()[0].partitions[0].high_watermark == 6)
        ages = {}
        for offset in (2, 3, 5, 6):
            assert await commit(asker, offset) == 0
            found = await seen(asker)
            ages[offset] = found
            assert found.records == 6 - offset
            assert found.seconds(asker.node.clock.now_ms()) is not None
        assert ages[2].since_ms == ages[3].since_ms is not None
        assert (ages[5].since_ms, ages[5].seconds(1 << 50), ages[6].seconds(1 << 50)) == (None, 0.0, 0.0)
        assert await commit(asker, 5) == 0
        assert (await seen(asker)).is_over
        await asyncio.to_thread(transact, address, 1)
        await until(lambda: asker.node.broker.topics()[0].partitions[0].high_watermark == 9)
        found = await seen(asker)
        assert (found.records, found.is_over) == (4, False) and found.since_ms is not None


async def test_a_read_that_fails_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with asking(tmp_path) as asker:
        await asker.node.broker.create_topics([NewTopic("t", 1)])
        await asker.produce("t", 0, [Record(None, b"v", (), 1_000)])
        assert await commit(asker, 0) == 0
        log = asker.node.broker.topic("t").partitions[0].log  # type: ignore[union-attr]

        def fails(*_: Any, **__: Any) -> None:
            raise StorageFailed("for a moment")

        monkeypatch.setattr(type(log), "read", fails)
        assert await seen(asker) == Lag(1, None)
        monkeypatch.undo()
        monkeypatch.setattr(watching, "_look_up", fails)
        assert (await seen(asker)).seconds(2_000) is None
        monkeypatch.undo()
        assert await seen(asker) == Lag(1, 1_000)


class FakeLog:
    """Batches in memory; what is read is counted."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, bytes | HeadraceError]] = []
        self.start_offset = self.end = self.reads = 0

    def marker(self) -> None:
        self.add(encode_marker(Marker(True, 0), 7, 0, 0, self.end))

    def record(self, timestamp_ms: int) -> None:
        batch = encode([Record(None, b"v", (), timestamp_ms)])
        batch[:8] = self.end.to_bytes(8, "big")
        self.add(batch)

    def add(self, batch: bytes | bytearray | HeadraceError) -> None:
        self.batches.append((self.end, bytes(batch) if isinstance(batch, bytearray) else batch))
        self.end += 1

    def read(self, offset: int, max_bytes: int, *, up_to: int) -> ReadResult:
        self.reads += 1
        found = b""
        at = offset
        for at in range(offset, up_to):
            batch = self.batches[at][1]
            if isinstance(batch, HeadraceError):
                if at == offset:
                    raise batch
                return ReadResult([memoryview(found)], len(found), at)
            if found and len(found) + len(batch) > max_bytes:
                return ReadResult([memoryview(found)], len(found), at)
            found += batch
        return ReadResult([memoryview(found)], len(found), up_to)


class Watched:
    """A LagWatch with groups that stand in logs of one topic."""

    def __init__(self, logs: int) -> None:
        self.logs = [FakeLog() for _ in range(logs)]
        self.later: list[Callable[[], None]] = []
        self.positions = Positions()
        partitions = [_FakePartition(log) for log in self.logs]
        topic = SimpleNamespace(partitions=partitions, image=SimpleNamespace(topic_id=b"id"))
        hosted = SimpleNamespace(group=SimpleNamespace(id=GROUP), positions=self.positions)
        broker: Any = SimpleNamespace(
            topic=lambda name: topic,
            timers=SimpleNamespace(after=lambda _, call: self.later.append(call)),
            background=SimpleNamespace(run=self._run),
        )
        groups: Any = SimpleNamespace(hosted={GROUP: hosted})
        self.watch = LagWatch(broker, groups)

    def _run(self, work: Callable[[], Any], done: Callable[[Any, Any], None]) -> None:
        self.later.append(lambda: done(work(), None))

    def turns(self) -> int:
        """Of one look."""
        self.watch.look()
        count = 1
        while self.later:
            later, self.later = self.later, []
            for call in later:
                call()
            count += 1
        return count

    def lag(self, partition: int = 0) -> Lag:
        return self.watch.lags[GROUP, "t", partition]


class _FakePartition:
    error = None

    def __init__(self, log: FakeLog) -> None:
        self.log = log

    @property
    def high_watermark(self) -> int:
        return self.log.end


def test_a_long_way_of_markers_is_gone_in_bounded_steps_over_several_looks() -> None:
    watched = Watched(1)
    log = watched.logs[0]
    for _ in range(20_000):
        log.marker()
    watched.positions.put("t", 0, Position(0), 1)
    looks = 0
    while not (watched.turns() and watched.lag().is_over):
        before, log.reads = log.reads, 0
        assert before <= watching.MAX_STEPS and watched.lag().seconds(9_000) is None
        looks += 1
    assert 2 <= looks < 20
    log.reads = 0
    watched.turns()
    assert (log.reads, watched.lag().seconds(9_000)) == (0, 0.0)
    log.record(5_000)
    watched.turns()
    assert (log.reads, watched.lag().seconds(9_000)) == (1, 4.0)
    watched.turns()
    assert log.reads == 1


def test_a_damaged_stretch_is_read_past() -> None:
    watched = Watched(1)
    watched.logs[0].marker()
    watched.logs[0].add(DamagedRange(1, 2, "bits"))
    watched.logs[0].record(5_000)
    watched.positions.put("t", 0, Position(0), 1)
    watched.turns()
    assert watched.lag() == Lag(3, 5_000)


def test_a_record_without_a_time_is_behind_by_nobody_knows_how_much() -> None:
    assert Lag(1, -1).seconds(9_000) is None


def test_those_that_fail_do_not_keep_others_from_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MAX_READS", 5)
    watched = Watched(12)
    for number, log in enumerate(watched.logs):
        log.add(StorageFailed("for good")) if number < 8 else log.record(1_000)
        watched.positions.put("t", number, Position(0), 1)
    for _ in range(3):
        watched.turns()
    assert [watched.lag(number).since_ms for number in range(12)] == [None] * 8 + [1_000] * 4


def test_many_positions_are_looked_at_some_at_a_time_also_while_they_go(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = Watched(1_700)
    for number in range(1_700):
        watched.positions.put("t", number, Position(0), 1)
    topics = 0

    def counted(name: str) -> Any:
        nonlocal topics
        topics += 1
        return found(name)

    found = watched.watch._broker.topic
    monkeypatch.setattr(watched.watch._broker, "topic", counted)
    watched.watch.look()
    assert topics == watching.AT_ONCE and watched.watch.lags == {}
    for number in range(600, 700):
        watched.positions.remove("t", number)
    assert watched.turns() == 4
    assert len(watched.watch.lags) == 1_600


def test_the_series_of_a_transactional_topic_are_on_the_page(tmp_path: Path) -> None:
    with serving(tmp_path) as broker, headrace.connect(broker.address) as client:
        client.admin.create_topic("t", partitions=1)
        client.admin.create_topic("u", partitions=1)
        transact(broker.address, 2)
        transact(broker.address, 1, "u")
        client.admin.alter_group_offsets("g", {("t", 0): 2, ("u", 0): 2})

        def series() -> dict[str, float]:
            lines = httpx.get(f"http://{broker.http}/metrics/prometheus").text.splitlines()
            found = [line for line in lines if line.startswith("headrace_group_lag_seconds{")]
            return {line.split("{")[1].split("}")[0]: float(line.split()[-1]) for line in found}

        wait_until(lambda: len(series()) == 2, 30)
        told = series()
        assert told['group="g",topic="u"'] == 0.0
        assert 0 < told['group="g",topic="t"'] < 60
