"""Groups with one consumer at a time, by lease, and the positions that consumers commit: what the HTTP door offers.

- A lease is a consumer's for LEASE_S after it was last heard of; then anybody may have it (lease_table.py has the
  rule, and this the clock). Leases are in memory: after a restart the first who comes gets it.
- A position is the last offset that was processed, -1 for none, by topic, name and partition. It counts when it is
  synced, survives restarts, and may go back. What a leader lost since is taken off it: other records have these
  offsets now.
- Positions of a deleted topic go. Those of a memory topic live as long as the topic's ring.
- A position that nobody committed or asked for during `offsets.retention.minutes` goes. Who asked is not kept: after a
  start those who do have a while to come back.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING

from headrace.broker.lease_table import Full, Heard, LeaseTable, Place, Taken, TopicGone
from headrace.broker.partition import Partition
from headrace.broker.queues import records
from headrace.broker.queues.records import PositionKey, SavedPosition
from headrace.broker.queues.settings import MAX_NAME_BYTES
from headrace.broker.queues.state import QueueState
from headrace.broker.topic import Topic
from headrace.errors import HeadraceError, InvalidGroupId, LeaseHeld, LimitReached, UnknownTopic
from headrace.log.config import Done, ignore_error

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

LEASE_S = 10.0
MAX_LEASES = 100_000  # of one node; those that ran out make room
MAX_POSITIONS = 200_000  # of one node, some hundred bytes each
EXPIRED_AT_ONCE = 1_000  # positions that go in one turn: others have theirs in between
COME_BACK_MS = 3_600_000  # after a start: longer than anybody who is still there waits between two polls
NONE = -1


class Leases:
    def __init__(self, broker: Broker, state: QueueState) -> None:
        self._broker, self._state = broker, state
        self._table = LeaseTable(LEASE_S, MAX_LEASES)
        self._checked: set[PositionKey] = set()  # against what the leader has lost, since the start
        self._used_ms: dict[PositionKey, int] = {}  # when somebody last came for it, since the start
        self._started_at = self._looked_at = broker.clock.monotonic()

    # Leases

    async def hold(self, topic: str, group: str, consumer: str) -> None:
        """The group is the consumer's for a while, or LeaseHeld by another."""
        match self._table.step(self._broker.clock.monotonic(), Heard(Place(topic, group), consumer)):
            case Taken():
                raise LeaseHeld(f"group {group!r} of topic {topic!r} has an active consumer")
            case Full(leases):
                raise LimitReached(f"{leases} groups have consumers here already, as many as there may be")

    def leases(self) -> dict[str, float]:
        """`topic|group`: when it runs out, in seconds since 1970."""
        now, now_s = self._broker.clock.monotonic(), self._broker.clock.now_ms() / 1000
        return {f"{place.topic}|{place.group}": now_s + lease.until - now for place, lease in self._table.held(now)}

    # Positions

    async def committed(self, topic: str, name: str, partition: int = 0) -> int:
        """-1: none. `name`: `group:G` or `consumer:C`."""
        await self._wait(self._state.when_ready)
        key = PositionKey(topic, name, partition)
        position = self._state.positions.get(key)
        if position is None:
            return NONE
        self._used_ms[key] = self._broker.clock.now_ms()
        found = self._partition(topic, partition)
        if position.topic_id != found.topic.image.topic_id:
            return NONE
        if key not in self._checked:
            await found.opened()
            position = self._state.positions.get(key)
            if position is None:  # it went meanwhile
                return NONE
            position = _as_far_as_true(found, position)
            self._state.positions.put(key, position)
            self._checked.add(key)
        return position.offset

    async def commit(self, topic: str, name: str, offset: int, partition: int = 0) -> None:
        """Kept for good when this returns. -1: from the start."""
        if not name or len(name.encode()) > MAX_NAME_BYTES:
            raise InvalidGroupId(f"a name has 1 to {MAX_NAME_BYTES} bytes")
        await self._wait(self._state.when_ready)
        key = PositionKey(topic, name, partition)
        positions = self._state.positions
        if positions.get(key) is None and len(positions) >= MAX_POSITIONS:
            raise LimitReached(f"this node keeps at most {MAX_POSITIONS} positions of consumers")
        found = self._partition(topic, partition)
        now_ms = self._broker.clock.now_ms()
        if positions.get(key) is not None:
            self._used_ms[key] = now_ms  # it does not go while the new one is being written
        position = SavedPosition(found.topic.image.topic_id, found.leader_epoch, offset, now_ms)
        if not found.topic.config.is_memory:
            entry = (records.position_key(key), records.position_value(position))
            await self._wait(lambda done: self._state.append(f"{topic}/{name}", [entry], done))
        if self._broker.topic(topic) is found.topic:
            positions.put(key, position)
            self._checked.add(key)

    # Going

    def topic_removed(self, topic: Topic) -> None:
        for key in self._state.positions.of(topic.name):
            self._forget(key, is_kept=not topic.config.is_memory)
        self._table.step(self._broker.clock.monotonic(), TopicGone(topic.name))

    def maintain(self) -> None:
        """What comes due with time; the driver calls it every few seconds."""
        settings, now = self._broker.groups.settings, self._broker.clock.monotonic()
        retention_ms = settings.retention_minutes * 60_000
        has_begun = (now - self._started_at) * 1000 >= min(retention_ms, COME_BACK_MS)
        if has_begun and (now - self._looked_at) * 1000 >= settings.retention_check_ms and self._state.is_ready:
            self._looked_at = now
            before_ms = self._broker.clock.now_ms() - retention_ms
            used_ms = self._used_ms.get
            old = [
                key
                for key, position in self._state.positions
                if position.committed_ms < before_ms and used_ms(key, 0) < before_ms
            ]
            if old:
                self._broker.on_event("lease.positions-expired", {"positions": len(old)})
                self._expire(old, before_ms)

    def _expire(self, keys: list[PositionKey], before_ms: int) -> None:
        """Some at a time. Who came for one meanwhile keeps it."""
        for key in keys[:EXPIRED_AT_ONCE]:
            position = self._state.positions.get(key)
            if position is not None and max(position.committed_ms, self._used_ms.get(key, 0)) < before_ms:
                topic = self._broker.topic(key.topic)
                self._forget(key, is_kept=topic is None or not topic.config.is_memory)
        if keys[EXPIRED_AT_ONCE:]:
            self._broker.timers.after(0, lambda: self._expire(keys[EXPIRED_AT_ONCE:], before_ms))

    def _forget(self, key: PositionKey, is_kept: bool) -> None:
        self._state.positions.remove(key)
        self._checked.discard(key)
        self._used_ms.pop(key, None)
        if is_kept:
            self._state.append(f"{key.topic}/{key.name}", [(records.position_key(key), None)], ignore_error)

    def _partition(self, topic: str, index: int) -> Partition:
        found = self._broker.topic(topic)
        if found is None or not 0 <= index < len(found.partitions):
            raise UnknownTopic(f"no partition {index} of a topic {topic!r}")
        return found.partitions[index]

    async def _wait(self, ask: Callable[[Done], None]) -> None:
        promise = self._broker.new_promise()

        def done(error: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        ask(done)
        await promise


def _as_far_as_true(partition: Partition, position: SavedPosition) -> SavedPosition:
    _, end = partition.epoch_end(position.leader_epoch)
    last = inf if end < 0 else end - 1
    return position if position.offset <= last else position._replace(offset=int(last))
