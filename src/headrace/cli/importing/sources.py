"""A folder of stored records, as an import sees it. Reading never changes the folder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from headrace.records.record import Record

STORES = ("lines", "binary", "pubsub")
CHUNK_BYTES = 1 << 20


LOST = "does not read"
TORN = "torn at the end, left out"  # what a crash leaves
NOTE = "worth knowing"  # nothing is lost by it


class Damage(NamedTuple):
    """What a folder has that is not as it should be, and what that means: LOST, TORN or NOTE."""

    where: str
    why: str
    kind: str = LOST

    def __str__(self) -> str:
        return f"{self.kind}: {self.where}: {self.why}"


class Position(NamedTuple):
    """What a consumer or a group had processed: so many records of the topic, counted from its first."""

    topic: str
    group: str | None
    consumer: str | None
    records: int


class Source(Protocol):
    def topics(self) -> dict[str, int]:
        """Names, and how many partitions each has."""
        ...

    def read(self, topic: str, partition: int) -> Iterator[Record | Damage]:
        """In the order of their offsets."""
        ...

    def positions(self) -> list[Position]: ...

    def close(self) -> None: ...


def chunks(path: str) -> Iterator[bytes]:
    with open(path, "rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            yield chunk
