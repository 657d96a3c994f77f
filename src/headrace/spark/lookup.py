"""What the driver asks the broker: which partitions there are, where they begin and end, what options mean in them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import headrace
from headrace.client.blocking import Client
from headrace.client.values import Topic, TopicPartition
from headrace.errors import UnknownTopic
from headrace.spark.errors import InvalidOption
from headrace.spark.offsets import Offsets
from headrace.spark.options import EARLIEST, EARLIEST_OFFSET, LATEST_OFFSET, Bound, SourceOptions, Table

CLIENT_ID: Final = "headrace-spark"
NONE_THAT_YOUNG: Final = -1  # what a broker answers for a time after its last record


class Lookup:
    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._client: Client | None = None

    @property
    def client(self) -> Client:
        if self._client is None:
            self._client = headrace.connect(self._options.servers, CLIENT_ID, self._options.timeout)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    def topics(self, *, may_miss: bool = False) -> dict[str, Topic]:
        """Those that are read, as they are now. `may_miss`: one that is not there is left out."""
        options, admin = self._options, self.client.admin
        if options.pattern is None:
            found = {}
            for name in options.assigned or options.topics:
                try:
                    found[name] = admin.topic(name)
                except UnknownTopic:
                    if not may_miss:
                        raise
            return found
        try:
            pattern = re.compile(options.pattern)
        except re.error as error:
            raise InvalidOption(f"subscribePattern {options.pattern!r} is not a regular expression: {error}") from error
        return {topic.name: topic for topic in admin.topics() if pattern.fullmatch(topic.name)}

    def partitions(self, topics: dict[str, Topic]) -> list[TopicPartition]:
        found = []
        for name, topic in sorted(topics.items()):
            there = {partition.index for partition in topic.partitions}
            wanted = there if self._options.assigned is None else set(self._options.assigned[name])
            if missing := wanted - there:
                shown = ", ".join(map(str, sorted(missing)))
                raise InvalidOption(f"assign: topic {name!r} has {len(there)} partitions, and no partition {shown}")
            found += [TopicPartition(name, index) for index in sorted(wanted)]
        return found

    def starts(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._at(partitions, "start")

    def ends(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """What there is to read: for who reads committed records, up to the first transaction that is open."""
        return self._at(partitions, "end")

    def written(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Where logs end, whatever is open in them."""
        return self._at(partitions, "end", "read_uncommitted")

    def _at(
        self, partitions: Iterable[TopicPartition], at: str | int, isolation: str | None = None
    ) -> dict[TopicPartition, int]:
        by_topic: dict[str, list[TopicPartition]] = {}
        for where in partitions:
            by_topic.setdefault(where.topic, []).append(where)
        found: dict[TopicPartition, int] = {}
        for topic, wanted in by_topic.items():
            offsets = self.client.admin.offsets(topic, at, isolation or self._options.isolation)
            found |= {where: offsets[where.partition].offset for where in wanted}
        return found

    def resolve(self, bound: Bound, partitions: list[TopicPartition], *, is_start: bool) -> dict[TopicPartition, int]:
        """Where it is in each partition."""
        if bound.time_ms is not None:
            return self._by_time(dict.fromkeys(partitions, bound.time_ms), is_start)
        if bound.times_ms is not None:
            return self._by_time(_of_all(bound.times_ms, partitions, "OffsetsByTimestamp", is_start), is_start)
        if bound.offsets is None:
            return self.starts(partitions) if bound.word == EARLIEST else self.ends(partitions)
        given = _of_all(bound.offsets, partitions, "Offsets", is_start)
        first = self.starts([where for where, offset in given.items() if offset == EARLIEST_OFFSET])
        last = self.ends([where for where, offset in given.items() if offset == LATEST_OFFSET])
        return {**given, **first, **last}

    def _by_time(self, times_ms: Offsets, is_start: bool) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for time_ms in sorted(set(times_ms.values())):
            found |= self._at([where for where, at in times_ms.items() if at == time_ms], time_ms)
        late = [where for where, offset in found.items() if offset == NONE_THAT_YOUNG]
        if late and is_start and not self._options.is_late_start_latest:
            topic, partition = late[0]
            raise InvalidOption(
                f"topic {topic!r} partition {partition} has no record of time {times_ms[late[0]]} or later;"
                " startingOffsetsByTimestampStrategy=latest starts at its end then"
            )
        return found | self.ends(late)


def _of_all(table: Table, partitions: list[TopicPartition], option: str, is_start: bool) -> dict[TopicPartition, int]:
    """The table must name exactly the partitions: one that is left out would be read from who knows where."""
    given = {
        TopicPartition(topic, index): value for topic, indexes in table.items() for index, value in indexes.items()
    }
    name = ("starting" if is_start else "ending") + option
    if missing := sorted(set(partitions) - set(given)):
        raise InvalidOption(f"{name} leaves out topic {missing[0].topic!r} partition {missing[0].partition}")
    if strange := sorted(set(given) - set(partitions)):
        raise InvalidOption(
            f"{name} names topic {strange[0].topic!r} partition {strange[0].partition}, which is not read"
        )
    return given
