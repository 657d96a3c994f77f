"""A group on the node that coordinates it: the machine, its positions, and what the coordinator needs to know."""

from __future__ import annotations

from math import inf

from headrace.broker.groups.generation import State
from headrace.broker.groups.group import Group
from headrace.broker.groups.positions import Commit, Position, Positions
from headrace.broker.groups.records import position_key, position_prefix, position_value
from headrace.broker.state_topic import Entry
from headrace.ports import Cancel

MAX_PREFIXES = 10_000  # of keys, remembered for a group: it writes the same few all the time
MAX_PREFIX_BYTES = 600  # longer names than anybody has are encoded each time


class Hosted:
    __slots__ = ("_prefixes", "armed_at", "cancel", "group", "held_bytes", "partition", "positions", "since_ms")

    def __init__(self, group: Group, partition: int, positions: Positions | None = None, since_ms: int = -1) -> None:
        self.group, self.partition, self.positions = group, partition, positions or Positions()
        self.since_ms = since_ms  # when its state was last kept; -1: never
        self.armed_at = inf  # when its timer goes off
        self.cancel: Cancel | None = None
        self.held_bytes = 0  # what the node has counted of it
        self._prefixes: dict[str, bytes] = {}

    @property
    def is_vacant(self) -> bool:
        """Nothing is known of it that anybody would miss."""
        return self.group.is_vacant and not self.positions

    @property
    def is_bare(self) -> bool:
        """It has no members and no positions: at most somebody is about to join."""
        return not self.group.roster.members and not self.positions

    @property
    def is_idle(self) -> bool:
        """It has no members, nobody is about to join, and no position is left."""
        return self.group.state is State.EMPTY and not self.group.pending and not self.positions

    def entry(self, topic: str, partition: int, position: Position | None) -> Entry:
        """The record of a position; None: it is gone."""
        prefix = self._prefixes.get(topic)
        if prefix is None:
            prefix = position_prefix(self.group.id, topic)
            if len(self._prefixes) >= MAX_PREFIXES:
                self._prefixes.clear()
            if len(prefix) <= MAX_PREFIX_BYTES:
                self._prefixes[topic] = prefix
        return position_key(prefix, partition), None if position is None else position_value(position)

    def entries(self, commits: list[Commit]) -> list[Entry]:
        return [self.entry(topic, partition, position) for topic, partition, position in commits]

    def disarm(self) -> None:
        if self.cancel is not None:
            self.cancel()
        self.cancel, self.armed_at = None, inf
