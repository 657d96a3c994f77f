"""Positions: kept in Kafka's formats, moved by transactions only when they end, let go when their time is over; and how
far a group is behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headrace.broker.groups.events import SavedMember, Snapshot
from headrace.broker.groups.group import Group
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.positions import Position, Positions
from headrace.broker.groups.records import (
    GroupKey,
    PositionKey,
    group_key,
    group_value,
    position_key,
    position_prefix,
    position_value,
    read_group,
    read_key,
    read_position,
)
from headrace.broker.groups.replay import Replay
from headrace.broker.groups.retention import expired
from headrace.broker.groups.settings import GroupSettings
from headrace.errors import FormatTooNew
from headrace.records.batch import read_header
from headrace.records.codec import BatchOptions, Producer, Record, decode, encode
from headrace.records.control import Marker, encode_marker
from tests.doors.asking import asking, create, record
from tests.doors_http.running import until
from tests.groups.asking import GROUP, commit, member

HOUR_MS = 3_600_000


def key(topic: str = "t", partition: int = 0) -> bytes:
    return position_key(position_prefix("g", topic), partition)


def test_a_position_is_written_as_kafka_writes_it():
    assert key("topic", 7).hex() == "0001" + "000167" + "0005746f706963" + "00000007"
    value = position_value(Position(42, 3, "hi", 1_700_000_000_000))
    assert value.hex() == "0003" + "000000000000002a" + "00000003" + "00026869" + "0000018bcfe56800"
    assert read_key(key("topic", 7)) == PositionKey("g", "topic", 7)
    assert read_position(value) == Position(42, 3, "hi", 1_700_000_000_000)
    ends = Position(42, -1, "", 5, expires_ms=99)
    assert position_value(ends)[:2] == b"\0\1" and read_position(position_value(ends)) == ends


def test_a_group_is_written_as_kafka_writes_it():
    saved = Snapshot("consumer", 3, "range", "m", (SavedMember("m", None, "c", "/h", 9, 8, b"s", b"a"),))
    value = group_value(saved, 77)
    assert value.hex() == (
        "0003" + "0008636f6e73756d6572" + "00000003" + "000572616e6765" + "00016d" + "000000000000004d" + "00000001"
        "00016d" + "ffff" + "000163" + "00022f68" + "00000009" + "00000008" + "0000000173" + "0000000161"
    )
    assert read_key(group_key("g")) == GroupKey("g")
    assert read_group(value) == (saved, 77)
    empty = Snapshot("", 4, None, None, ())
    assert read_group(group_value(empty, 1)).snapshot == empty


def test_what_is_newer_is_refused_and_keys_of_other_kinds_are_stepped_over():
    with pytest.raises(FormatTooNew):
        read_position(b"\0\x04" + bytes(30))
    assert read_key(b"\0\x03\0\x01g") is None


def test_a_transactions_positions_count_when_it_is_committed():
    positions = Positions()
    positions.put("t", 0, Position(1), 1)
    positions.pend(7, [("t", 0, Position(5)), ("t", 1, Position(6))], 2)
    assert positions.get("t", 0) == Position(1) and positions.is_pending("t", 0)
    positions.end_transaction(7, committed=True)
    assert positions.get("t", 0) == Position(5) and not positions.is_pending("t", 0)
    positions.pend(7, [("t", 0, Position(9))], 3)
    positions.end_transaction(7, committed=False)
    assert positions.get("t", 0) == Position(5)


def test_a_commit_that_was_written_later_outlives_a_transactions():
    positions = Positions()
    positions.pend(7, [("t", 0, Position(5))], 1)
    positions.put("t", 0, Position(9), 2)
    positions.end_transaction(7, committed=True)
    assert positions.get("t", 0) == Position(9)


def test_a_replay_ends_transactions_as_their_markers_say():
    replay = Replay()

    def batch(data: bytearray) -> None:
        replay.apply(read_header(data), decode(data, control=True))

    def written(partition: int, offset: int, producer: int | None = None) -> None:
        entry = Record(key("t", partition), position_value(Position(offset)), (), 1)
        options = BatchOptions(producer=Producer(producer, 0), is_transactional=True) if producer else BatchOptions()
        batch(encode([entry], options))

    written(0, 1)
    written(0, 5, producer=7)
    written(1, 6, producer=8)
    written(2, 7, producer=9)
    batch(encode_marker(Marker(True, 0), 7, 0, 1))
    batch(encode_marker(Marker(False, 0), 8, 0, 1))
    hosted = replay.hosted(3, GroupSettings(), 0.0)["g"]
    assert hosted.positions.get("t", 0).offset == 5
    assert hosted.positions.get("t", 1) is None
    assert hosted.positions.get("t", 2) is None and hosted.positions.is_pending("t", 2)
    assert replay.transactions == {9: {"g"}}


def hosted_with(**positions: Position) -> Hosted:
    hosted = Hosted(Group("g", GroupSettings()), 0)
    for topic, position in positions.items():
        hosted.positions.put(topic, 0, position, 1)
    return hosted


def test_positions_of_who_is_no_member_go_by_their_commit_and_some_have_an_end_of_their_own():
    hosted = hosted_with(a=Position(1, committed_ms=0), b=Position(1, committed_ms=0, expires_ms=2 * HOUR_MS))
    assert expired(hosted, set(), HOUR_MS - 1, HOUR_MS) == []
    assert expired(hosted, set(), HOUR_MS, HOUR_MS) == [("a", 0)]
    assert expired(hosted, set(), 2 * HOUR_MS, HOUR_MS) == [("a", 0), ("b", 0)]


def test_positions_of_a_group_go_when_it_has_been_empty_for_long():
    hosted = hosted_with(a=Position(1, committed_ms=0))
    hosted.group.protocol_type, hosted.since_ms = "consumer", 5 * HOUR_MS
    assert expired(hosted, set(), 6 * HOUR_MS - 1, HOUR_MS) == []
    assert expired(hosted, set(), 6 * HOUR_MS, HOUR_MS) == [("a", 0)]


def test_what_a_member_reads_stays_and_what_no_member_reads_any_more_goes():
    hosted = hosted_with(a=Position(1, committed_ms=0), b=Position(1, committed_ms=0))
    saved = Snapshot("consumer", 1, "range", "m", (SavedMember("m", None, "c", "h", 9, 8, b"", b""),))
    hosted.group = Group.restored("g", GroupSettings(), saved, 0.0)
    assert expired(hosted, {"a"}, HOUR_MS, HOUR_MS) == [("b", 0)]
    assert expired(hosted, None, HOUR_MS, HOUR_MS) == []


async def test_what_is_kept_no_longer_goes_from_memory_and_from_the_log(tmp_path: Path) -> None:
    settings = GroupSettings(retention_minutes=1, retention_check_ms=1)
    async with asking(tmp_path, groups=settings) as asker:
        await create(asker, "t")
        await member(asker)
        await commit(asker, 1, group_id="old")
        groups = asker.node.broker.groups
        for topic, partition, old in list(groups.hosted["old"].positions):
            groups.hosted["old"].positions.put(topic, partition, old._replace(committed_ms=0), 1 << 70)
        await asyncio.sleep(0.01)
        asker.node.broker.maintain()
        await until(lambda: "old" not in groups.hosted)
        assert list(groups.hosted) == [GROUP] and groups.expired == 1
    async with asking(tmp_path) as asker:
        await until(lambda: not asker.node.broker.groups._unready)
        assert list(asker.node.broker.groups.hosted) == [GROUP]


async def test_a_group_is_behind_in_records_and_in_seconds(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        now_ms = asker.node.clock.now_ms()
        for age_s in (50, 40, 30):
            await asker.produce("t", 0, [record(now_ms - age_s * 1000)])
        await commit(asker, 1)
        groups = asker.node.broker.groups
        groups.lag.look()
        await until(lambda: groups.lag.lags[GROUP, "t", 0].since_ms is not None)
        records, seconds = groups.lag.by_topic(asker.node.clock.now_ms())[GROUP, "t"]
        assert records == 2 and 40 <= seconds < 45
        await commit(asker, 3)
        groups.lag.look()
        assert groups.lag.by_topic(now_ms)[GROUP, "t"] == (0, 0.0)
    async with asking(tmp_path) as asker:  # nobody has opened the topic's log since the start
        groups = asker.node.broker.groups
        await until(lambda: bool(groups.lag.look() or (not groups._unready and groups.lag.lags)))
        assert groups.lag.lags[GROUP, "t", 0].records == 0
