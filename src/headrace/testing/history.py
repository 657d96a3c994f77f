"""What was asked and what was answered, and what must hold of it, in words:

- No invented bytes: whatever is read was produced, to that partition, byte for byte.
- Dense: a partition's offsets are its first to its last, each once.
- Whole: the records of a batch stand together in their order; a batch is there or not.
- No duplicates: nobody here sends a batch twice except an idempotent producer, so every record is there at
  most once.
- In order: an idempotent producer's batches stand in the order in which it sent them.
- Kept: what was acknowledged stands at the offset that the acknowledgement named; with acks=all whatever
  happens, with acks=1 unless the power failed after it was sent (the acknowledgement itself may have been on
  its way when the power failed). acks=0 promises nothing.
- One history: two reads of one offset in one leader epoch see the same record.
- A topic whose creation was acknowledged is there for good.
- The high watermark never stands below what acks=all acknowledged before it was asked for.

The first breach raises `Violation`; the simulation adds the seed and how to replay it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

ACKS_ALL = -1


class Violation(AssertionError):
    """A promise was broken."""


@dataclass(eq=False)
class Batch:
    """One produced batch. `order` counts the producer's batches; `session` changes with its producer id."""

    producer: str
    session: int
    order: int
    partition: int
    acks: int
    idempotent: bool
    values: list[bytes]
    sequence: int = -1
    sent_at: float = 0.0  # the last time, when it was repeated
    base_offset: int | None = None
    acked_at: float | None = None

    @property
    def name(self) -> str:
        return f"{self.producer}.{self.session}.{self.order}"


class Seen(NamedTuple):
    offset: int
    epoch: int
    value: bytes


@dataclass
class History:
    batches: list[Batch] = field(default_factory=list)
    by_value: dict[bytes, Batch] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)  # whose creation was acknowledged
    power_losses: list[float] = field(default_factory=list)
    synced_end: dict[int, int] = field(default_factory=dict)  # of what acks=all acknowledged, by partition
    reads: int = 0
    _read: dict[tuple[int, int, int], bytes] = field(default_factory=dict)

    def sending(self, batch: Batch) -> None:
        self.batches.append(batch)
        for value in batch.values:
            self.by_value[value] = batch

    def acknowledged(self, batch: Batch, base_offset: int, now: float) -> None:
        if batch.base_offset is not None and batch.base_offset != base_offset:
            raise Violation(f"{batch.name} was acknowledged at {batch.base_offset}, and now at {base_offset}")
        batch.base_offset, batch.acked_at = base_offset, now
        if batch.acks == ACKS_ALL:
            end = base_offset + len(batch.values)
            self.synced_end[batch.partition] = max(self.synced_end.get(batch.partition, 0), end)

    def read(self, partition: int, seen: Seen) -> None:
        """By anybody, at any time."""
        self.reads += 1
        self._check_produced(partition, seen)
        key = (partition, seen.offset, seen.epoch)
        before = self._read.setdefault(key, seen.value)
        if before != seen.value:
            raise Violation(
                f"partition {partition}, offset {seen.offset}, leader epoch {seen.epoch} was read as "
                f"{self._whose(before)} and then as {self._whose(seen.value)}"
            )

    def watermark(self, partition: int, high_watermark: int, synced_before: int) -> None:
        if high_watermark < synced_before:
            raise Violation(
                f"partition {partition} shows a high watermark of {high_watermark}, but acks=all had "
                f"acknowledged up to {synced_before}"
            )

    def lost_power(self, now: float) -> None:
        self.power_losses.append(now)

    def check(self, partition: int, start: int, end: int, log: list[Seen]) -> None:
        """`log`: everything that the partition holds, read from its start to its high watermark."""
        if [seen.offset for seen in log] != list(range(start, end)):
            raise Violation(f"partition {partition}: offsets {start} to {end - 1} expected, {_ranges(log)} found")
        for seen in log:
            self._check_produced(partition, seen)
        places = self._places(partition, log)
        self._check_order(partition, places)
        for batch in self.batches:
            if batch.partition == partition and batch.acked_at is not None:
                self._check_kept(batch, places.get(batch))

    # One by one

    def _check_produced(self, partition: int, seen: Seen) -> None:
        batch = self.by_value.get(seen.value)
        if batch is None or batch.partition != partition:
            raise Violation(
                f"partition {partition}, offset {seen.offset} holds {seen.value[:40]!r}, which nobody produced to it"
            )

    def _places(self, partition: int, log: list[Seen]) -> dict[Batch, int]:
        """Where each batch stands; every one whole and once."""
        places: dict[Batch, int] = {}
        at = 0
        while at < len(log):
            batch = self.by_value[log[at].value]
            found = [seen.value for seen in log[at : at + len(batch.values)]]
            if found != batch.values:
                raise Violation(f"partition {partition}, offset {log[at].offset}: {batch.name} is not whole")
            if batch in places:
                raise Violation(
                    f"partition {partition}: {batch.name} stands twice, at {places[batch]} and at {log[at].offset}"
                )
            places[batch] = log[at].offset
            at += len(found)
        return places

    def _check_order(self, partition: int, places: dict[Batch, int]) -> None:
        last: dict[tuple[str, int], Batch] = {}
        for batch in places:
            if not batch.idempotent:
                continue
            before = last.get((batch.producer, batch.session))
            if before is not None and before.order > batch.order:
                raise Violation(f"partition {partition}: {batch.name} stands after {before.name}")
            last[batch.producer, batch.session] = batch

    def _check_kept(self, batch: Batch, place: int | None) -> None:
        assert batch.acked_at is not None
        if place == batch.base_offset:
            return
        if batch.acks == ACKS_ALL or not any(when >= batch.sent_at for when in self.power_losses):
            where = "is nowhere" if place is None else f"stands at {place}"
            level = "all" if batch.acks == ACKS_ALL else str(batch.acks)
            raise Violation(
                f"{batch.name} was acknowledged (acks={level}) at offset {batch.base_offset} of partition "
                f"{batch.partition} at {batch.acked_at:.6f} s, and {where}"
            )

    def _whose(self, value: bytes) -> str:
        batch = self.by_value.get(value)
        return batch.name if batch is not None else repr(value[:40])


def _ranges(log: list[Seen]) -> str:
    parts: list[list[int]] = []
    for seen in log:
        if parts and parts[-1][1] + 1 == seen.offset:
            parts[-1][1] = seen.offset
        else:
            parts.append([seen.offset, seen.offset])
    return ", ".join(f"{first} to {last}" for first, last in parts) or "nothing"
