"""Fetch sessions (KIP-227): the broker remembers which partitions a client follows and from where, so that a request
names only what changed, and an answer only what is new.

A session watches its partitions all the time and keeps those with news in `ready`; a fetch looks at these alone. What
a thousand quiet partitions cost is nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from headrace.broker.partition import Partition
from headrace.doors.kafka.names import MAX_ENCODED
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest

NO_SESSION = 0
FINAL_EPOCH = -1  # in a request: no session, or the end of one
FIRST_EPOCH = 0  # in a request: a new session, please
MAX_EPOCH = (1 << 31) - 1
EVICTABLE_S = 120.0  # a session that was not used for this long gives way to a new one
MAX_PARTITIONS = 200_000  # of all sessions together; each costs some 300 bytes and a name, which a client chooses

Key = tuple[str | UUID, int]


class Asked:
    """A partition that somebody fetches: from where, and what they were told last."""

    __slots__ = ("high_watermark", "index", "partition", "start_offset", "topic", "want")

    def __init__(self, topic: str | UUID, want: FetchPartition, partition: Partition | None) -> None:
        self.topic, self.index, self.want, self.partition = topic, want.partition, want, partition
        self.high_watermark = self.start_offset = -1

    @property
    def key(self) -> Key:
        return self.topic, self.index


class Tally:
    """How many partitions all sessions follow."""

    def __init__(self) -> None:
        self.partitions = 0


class Session:
    def __init__(self, session_id: int, by_id: bool, tally: Tally | None = None) -> None:
        self.id, self.by_id = session_id, by_id
        self._tally = tally or Tally()
        self.epoch = 1
        self.used_at = 0.0
        self.on_news: Callable[[], None] | None = None
        self.asked: dict[Key, Asked] = {}
        self._of: dict[Partition, Asked] = {}
        self.ready: dict[Asked, None] = {}

    def update(self, asked: Iterable[Asked]) -> None:
        for one in asked:
            old = self.forget(one.key)
            if old is not None and old.partition is one.partition:  # what was told once is known
                one.high_watermark, one.start_offset = old.high_watermark, old.start_offset
            self.asked[one.key] = one
            self._tally.partitions += 1
            self.ready[one] = None
            self._follow(one)

    def _follow(self, one: Asked) -> None:
        if one.partition is not None:
            self._of[one.partition] = one
            one.partition.watch(self)

    def find_again(self, one: Asked, partition: Partition | None) -> None:
        """Its topic was made, or made again, since it was asked for."""
        if one.partition is not None:
            self._of.pop(one.partition, None)
            one.partition.unwatch(self)
        one.partition = partition
        self._follow(one)

    def forget(self, key: Key) -> Asked | None:
        old = self.asked.pop(key, None)
        if old is not None:
            self._tally.partitions -= 1
            self.ready.pop(old, None)
            if old.partition is not None:
                self._of.pop(old.partition, None)
                old.partition.unwatch(self)
        return old

    def wake(self, partition: Partition) -> None:
        """Called by the partition: there is something new."""
        one = self._of.get(partition)
        if one is not None:
            self.ready[one] = None
            if self.on_news is not None:
                self.on_news()

    def close(self) -> None:
        for partition in self._of:
            partition.unwatch(self)
        self._of.clear()
        self._tally.partitions -= len(self.asked)
        self.asked.clear()
        self.ready.clear()


class Sessions:
    def __init__(self, limit: int, new_id: Callable[[], int]) -> None:
        self.limit, self._new_id = limit, new_id
        self._sessions: dict[int, Session] = {}
        self._tally = Tally()

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, request: FetchRequest, by_id: bool, now: float) -> Session | Code | None:
        """The session of an incremental request, a new one, None (a fetch without), or the error to answer."""
        if request.session_epoch == FINAL_EPOCH:
            self.close(request.session_id)
            return None
        is_too_much = self._is_too_much(request)
        if request.session_epoch == FIRST_EPOCH:
            self.close(request.session_id)
            return None if is_too_much else self._new(by_id, now)
        session = self._sessions.get(request.session_id)
        if session is None:
            return Code.FETCH_SESSION_ID_NOT_FOUND
        if session.by_id != by_id:
            return Code.FETCH_SESSION_TOPIC_ID_ERROR
        if session.epoch != request.session_epoch or session.on_news is not None:
            return Code.INVALID_FETCH_SESSION_EPOCH
        if is_too_much:
            self.close(session.id)
            return Code.FETCH_SESSION_ID_NOT_FOUND  # the client begins anew, and goes on without a session
        session.epoch = 1 if session.epoch == MAX_EPOCH else session.epoch + 1
        session.used_at = now
        # The one that was used last is the last to give way.
        self._sessions[session.id] = self._sessions.pop(session.id)
        return session

    def _is_too_much(self, request: FetchRequest) -> bool:
        more = sum(len(topic.partitions) for topic in request.topics)
        if self._tally.partitions + more > MAX_PARTITIONS:
            return True
        return any(topic.name is not None and len(topic.name) > MAX_ENCODED for topic in request.topics)

    def close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.close()

    def _new(self, by_id: bool, now: float) -> Session | None:
        if len(self._sessions) >= self.limit:
            oldest = next(iter(self._sessions.values()))
            if oldest.used_at > now - EVICTABLE_S:
                return None  # the client goes on without a session
            self.close(oldest.id)
        session_id = self._new_id()
        while session_id == NO_SESSION or session_id in self._sessions:
            session_id = self._new_id()
        session = self._sessions[session_id] = Session(session_id, by_id, self._tally)
        session.used_at = now
        return session
