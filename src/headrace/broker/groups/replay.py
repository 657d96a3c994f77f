"""One partition of `__consumer_offsets`, read back: which groups it holds, and their positions.

Positions of a transaction wait for its end, as they did when they were written. One that has not ended waits on: its
coordinator ends it.
"""

from __future__ import annotations

import struct
from itertools import count

from headrace.broker.groups import records
from headrace.broker.groups.group import Group
from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.positions import Positions
from headrace.broker.groups.records import GroupKey, PositionKey, SavedGroup
from headrace.broker.groups.settings import GroupSettings
from headrace.records.batch import BatchHeader
from headrace.records.control import COMMIT
from headrace.records.record import Record

_MARKER = struct.Struct(">hh")  # version, kind


class Replay:
    def __init__(self) -> None:
        self._groups: dict[str, SavedGroup] = {}
        self._positions: dict[str, Positions] = {}
        self.transactions: dict[int, set[str]] = {}  # that have not ended: groups by producer
        self._order = count()

    def apply(self, header: BatchHeader, batch: list[Record]) -> None:
        producer_id = header.producer_id if header.is_transactional else None
        for record in batch:
            if header.is_control:
                self._end(header.producer_id, record)
            elif record.key is not None:
                self._record(record.key, record.value, producer_id)

    def _record(self, raw: bytes, value: bytes | None, producer_id: int | None) -> None:
        match records.read_key(raw):
            case GroupKey(group):
                if value is None:
                    self._groups.pop(group, None)
                else:
                    self._groups[group] = records.read_group(value)
            case PositionKey(group, topic, partition):
                positions = self._positions.setdefault(group, Positions())
                if value is None:
                    positions.remove(topic, partition)
                elif producer_id is None:
                    positions.put(topic, partition, records.read_position(value), next(self._order))
                else:
                    commit = (topic, partition, records.read_position(value))
                    positions.pend(producer_id, [commit], next(self._order))
                    self.transactions.setdefault(producer_id, set()).add(group)
            case None:
                pass

    def _end(self, producer_id: int, record: Record) -> None:
        if record.key is not None and len(record.key) >= _MARKER.size:
            _, kind = _MARKER.unpack_from(record.key)
            for group in self.transactions.pop(producer_id, ()):
                self._positions[group].end_transaction(producer_id, kind == COMMIT)

    def hosted(self, partition: int, settings: GroupSettings, now: float) -> dict[str, Hosted]:
        found: dict[str, Hosted] = {}
        for group_id, saved in self._groups.items():
            group = Group.restored(group_id, settings, saved.snapshot, now)
            found[group_id] = Hosted(group, partition, self._positions.get(group_id), saved.since_ms)
        for group_id, positions in self._positions.items():
            if group_id not in found and positions:
                found[group_id] = Hosted(Group(group_id, settings), partition, positions)
        return found
