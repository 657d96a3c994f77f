"""Fetch sessions, without a socket: what is remembered, what is ready, what is refused."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

from headrace.broker.partition import Partition
from headrace.cluster.image import PartitionImage
from headrace.doors.kafka.names import MAX_ENCODED
from headrace.doors.kafka.sessions import EVICTABLE_S, Asked, Session, Sessions
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic


def partition(index: int) -> Partition:
    topic = SimpleNamespace(name="t")
    return Partition(cast("object", None), cast("object", topic), index, PartitionImage([0], [0], 0))  # type: ignore[arg-type]


def asked(index: int, offset: int = 0) -> Asked:
    return Asked("t", FetchPartition(index, -1, offset, -1, -1, 1 << 20), partition(index))


def sessions(limit: int = 2) -> Sessions:
    ids = iter(range(1, 1000))
    return Sessions(limit, lambda: next(ids))


def new(of: Sessions, now: float = 0.0) -> Session:
    session = of.find(FetchRequest(session_id=0, session_epoch=0), False, now)
    assert isinstance(session, Session)
    return session


def test_a_session_goes_on_with_the_next_epoch_and_no_other() -> None:
    held = sessions()
    session = new(held)
    assert held.find(FetchRequest(session_id=session.id, session_epoch=1), False, 0.0) is session
    assert (
        held.find(FetchRequest(session_id=session.id, session_epoch=1), False, 0.0) is Code.INVALID_FETCH_SESSION_EPOCH
    )
    assert held.find(FetchRequest(session_id=session.id, session_epoch=2), False, 0.0) is session
    assert held.find(FetchRequest(session_id=99, session_epoch=1), False, 0.0) is Code.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_by_name_does_not_go_on_by_id() -> None:
    held = sessions()
    session = new(held)
    request = FetchRequest(session_id=session.id, session_epoch=1)
    assert held.find(request, True, 0.0) is Code.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_fetch_without_a_session_ends_the_one_it_names() -> None:
    held = sessions()
    session = new(held)
    assert held.find(FetchRequest(session_id=session.id, session_epoch=-1), False, 0.0) is None
    assert len(held) == 0


def test_when_all_places_are_taken_the_longest_unused_gives_way_but_not_before_its_time() -> None:
    held = sessions(limit=2)
    first, second = new(held, 0.0), new(held, 1.0)
    assert held.find(FetchRequest(session_id=0, session_epoch=0), False, 2.0) is None
    held.find(FetchRequest(session_id=first.id, session_epoch=1), False, 3.0)
    third = new(held, EVICTABLE_S + 2)
    assert third.id not in (first.id, second.id)
    gone = held.find(FetchRequest(session_id=second.id, session_epoch=1), False, EVICTABLE_S + 2)
    assert gone is Code.FETCH_SESSION_ID_NOT_FOUND


def test_only_partitions_with_news_are_looked_at() -> None:
    session = Session(1, by_id=False)
    many = [asked(index) for index in range(1000)]
    session.update(many)
    session.ready.clear()
    news: list[str] = []
    session.on_news = lambda: news.append("!")
    assert many[7].partition is not None
    many[7].partition.wake()
    assert list(session.ready) == [many[7]]
    assert news == ["!"]


def test_what_is_forgotten_is_not_watched_any_more() -> None:
    session = Session(1, by_id=False)
    one, other = asked(0), asked(1)
    session.update([one, other])
    session.forget(one.key)
    session.ready.clear()
    assert one.partition is not None and other.partition is not None
    one.partition.wake()
    other.partition.wake()
    assert list(session.ready) == [other]
    session.close()
    other.partition.wake()
    assert not session.ready


def test_a_new_offset_takes_the_place_of_the_old_one() -> None:
    session = Session(1, by_id=False)
    old = asked(0)
    session.update([old])
    again = Asked("t", FetchPartition(0, -1, 50, -1, -1, 1 << 20), old.partition)
    session.update([again])
    assert list(session.ready) == [again]
    assert session.asked == {("t", 0): again}


def test_a_name_that_no_topic_can_have_is_kept_by_no_session() -> None:
    held = sessions()
    wants = [FetchPartition(0, -1, 0, -1, -1, 1 << 20)]
    longest, too_long = ([FetchTopic("n" * size, None, wants)] for size in (MAX_ENCODED, MAX_ENCODED + 1))
    assert held.find(FetchRequest(session_id=0, session_epoch=0, topics=too_long), False, 0.0) is None
    session = held.find(FetchRequest(session_id=0, session_epoch=0, topics=longest), False, 0.0)
    assert isinstance(session, Session)
    refused = held.find(FetchRequest(session_id=session.id, session_epoch=1, topics=too_long), False, 0.0)
    assert refused is Code.FETCH_SESSION_ID_NOT_FOUND
    assert len(held) == 0
