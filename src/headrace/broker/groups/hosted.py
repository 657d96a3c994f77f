"""A group on the node that coordinates it: the machine, its positions, and what the coordinator needs to know."""

from __future__ import annotations

from math import inf

from headrace.broker.groups.generation import State
from headrace.broker.groups.group import Group
from headrace.broker.groups.positions import Commit, Position, Positions
from headrace.broker.groups.records import position_key, position_prefix, position_value
from headrace.broker.state_topic import Entry
from headrace.ports import Cancel


class Hosted:
    __slots__ = ("_prefixes", "armed_at", "cancel", "group", "partition", "positions", "since_ms")

    def __init__(self, group: Group, partition: int, positions: Positions | None = None, since_ms: int = -1) -> None:
        self.group, self.partition, self.positions = group, partition, positions or Positions()
        self.since_ms = since_ms  # when its state was last kept; -1: never
        self.armed_at = inf  # when its timer goes off
        self.cancel: Cancel | None = None
        self._prefixes: dict[str, bytes] = {}

    @property
    def is_vacant(self) -> bool:
        """Nothing is known of it that anybody would miss."""
        return self.group.is_vacant and not self.positions

    @property
    def is_idle(self) -> bool:
        """It has no members, nobody is about to join, and no position is left."""
        return self.group.state is State.EMPTY and not self.group.pending and not self.positions

    def entry(self, topic: str, partition: int, position: Position | None) -> Entry:
        """The record of a position; None: it is gone."""
        prefix = self._prefixes.get(topic)
        if prefix is None:
            prefix = self._prefixes[topic] = position_prefix(self.group.id, topic)
        return position_key(prefix, partition), None if position is None else position_value(position)

    def entries(self, commits: list[Commit]) -> list[Entry]:
        return [self.entry(topic, partition, position) for topic, partition, position in commits]

    def disarm(self) -> None:
        if self.cancel is not None:
            self.cancel()
        self.cancel, self.armed_at = None, inf
