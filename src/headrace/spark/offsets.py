"""Where a stream stands: the offset of each partition, as Spark keeps it in its checkpoint. Values only.

The JSON is that of Spark's Kafka source, `{"orders": {"0": 42}}`, and under the empty name, which no topic has, what a
later run must know besides:

- `ids`: each topic's id, so that a topic that was deleted and made again is told from one that grew;
- `from`: with the first batch, where it began. Spark asks anew where a query starts as long as its first batch is not
  done, and "the latest" would be another place then;
- `group`, `servers`: whose positions are published as the query goes on;
- `lost`: with the latest offsets, which no checkpoint keeps: what the query went on without, in sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from headrace.client.values import TopicPartition

OURS: Final = ""

Offsets = Mapping[TopicPartition, int]


class Place(msgspec.Struct, frozen=True, kw_only=True):
    offsets: Offsets
    ids: Mapping[str, str] = {}
    began: Offsets | None = None
    group: str | None = None
    servers: str | None = None
    lost: Sequence[str] = ()

    def to_json(self) -> dict[str, Any]:
        """The same place is the same text: Spark takes two texts that differ for progress."""
        ours: dict[str, Any] = {}
        if self.ids:
            ours["ids"] = {topic: self.ids[topic] for topic in sorted(self.ids)}
        if self.began is not None:
            ours["from"] = _nested(self.began)
        if self.group is not None:
            ours |= {"group": self.group, "servers": self.servers}
        if self.lost:
            ours["lost"] = list(self.lost)
        return {**({OURS: ours} if ours else {}), **_nested(self.offsets)}


def place_of(found: Mapping[str, Any]) -> Place:
    ours = found.get(OURS, {})
    return Place(
        offsets=_flat({topic: partitions for topic, partitions in found.items() if topic != OURS}),
        ids=ours.get("ids", {}),
        began=_flat(ours["from"]) if "from" in ours else None,
        group=ours.get("group"),
        servers=ours.get("servers"),
        lost=ours.get("lost", ()),
    )


def _nested(offsets: Offsets) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for (topic, partition), offset in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
    return found


def _flat(found: Mapping[str, Mapping[str, int]]) -> dict[TopicPartition, int]:
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, partitions in found.items()
        for partition, offset in partitions.items()
    }
