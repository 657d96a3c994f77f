"""What a test says to its broker before and after the thing that it is about: topics, records in, records out.

No client is needed, and all is done when a call returns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, TypeVar

from headrace.client.values import Delivery, Record
from headrace.records.record import Headers
from headrace.testing import topics as shortcuts
from headrace.testing.topics import Wanted

T = TypeVar("T")

Setting = str | int | bool

WAIT_S = 10.0  # for records to come
LOOK_S = 0.005  # how often it is seen whether they have


class Shortcuts:
    def _ask(self, function: Callable[..., Coroutine[Any, Any, T]], *args: Any) -> T:
        """Runs it on the broker's loop, with the broker as its first argument."""
        raise NotImplementedError

    def create_topic(self, name: str, partitions: int = -1, config: Mapping[str, Setting] | None = None) -> None:
        """-1: as many as the broker's default-partitions says."""
        self._ask(
            shortcuts.create_topic, name, partitions, {key: as_text(given) for key, given in (config or {}).items()}
        )

    def delete_topic(self, name: str) -> None:
        self._ask(shortcuts.delete_topic, name)

    def topics(self) -> dict[str, int]:
        """Their names and counts of partitions."""
        return self._ask(shortcuts.topics)

    def offsets(self, topic: str, partition: int = 0) -> tuple[int, int]:
        """The first that is kept, and the one that the next record will get."""
        return self._ask(shortcuts.offsets, topic, partition)

    def produce(
        self,
        topic: str,
        *values: bytes | str | None,
        key: bytes | str | None = None,
        headers: Mapping[str, bytes | str | None] | Headers = (),
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> list[Delivery]:
        """Synced when it returns. Text is UTF-8, None a null. Makes the topic where `auto_create_topics` allows it. No
        partition: by the key, as clients choose; the first without a key."""
        pairs = headers.items() if isinstance(headers, Mapping) else headers
        made = tuple((name, _bytes(value)) for name, value in pairs)
        wanted = [Wanted(topic, _bytes(value), _bytes(key), made, partition, timestamp_ms) for value in values]
        return self._ask(shortcuts.produce, wanted)

    def records(self, topic: str, partition: int | None = None) -> list[Record]:
        """All that the topic holds, or one of its partitions, in the order of partitions and offsets."""
        return self._ask(shortcuts.records, topic, partition)

    def values(self, topic: str, partition: int | None = None) -> list[bytes | None]:
        return [record.value for record in self.records(topic, partition)]

    def wait_for(self, topic: str, count: int = 1, *, timeout: float = WAIT_S) -> list[Record]:
        """Returns the topic's records when there are that many; TimeoutError when there are not in time."""
        deadline = time.monotonic() + timeout
        while True:
            found = self.records(topic) if topic in self.topics() else []
            if len(found) >= count:
                return found
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic!r} has {len(found)} records after {timeout:g} s, not {count}")
            time.sleep(LOOK_S)


def as_text(value: Setting) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bytes(value: bytes | str | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
