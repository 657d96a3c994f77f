"""What an exactly-once copy left behind, and what must hold of it, in words:

- No aborted record is read: neither of a transaction that its copier meant to abort, nor of one that it was told is
  aborted.
- No transaction is torn: all of its parts are read, or none.
- Each input is copied once, in order: partition by partition, the copies are those of inputs 0, 1, 2, ...
- The committed position of a partition is the count of its copies: positions and records move together.
- A transaction whose commit was answered is there.
- Nothing hangs: readers of committed records get to the end of every partition.

It holds whenever no transaction is open, so a history is taken while no copier runs and all of them are fenced. It is
pure: values in, the first breach out as `Violation`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Self


class Violation(AssertionError):
    """A promise of the copy was broken."""


def transform(text: str) -> str:
    return text[::-1]


class Copy(NamedTuple):
    """One record of the copy; `part` of `parts` in its transaction."""

    result: str
    transaction: str
    part: int
    parts: int
    is_meant: bool  # to be committed

    def encode(self) -> bytes:
        return "|".join(
            (self.result, self.transaction, str(self.part), str(self.parts), str(int(self.is_meant)))
        ).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        result, transaction, part, parts, is_meant = value.decode().split("|")
        return cls(result, transaction, int(part), int(parts), is_meant == "1")


def input_text(partition: int, number: int) -> str:
    return f"{partition}:{number}"


@dataclass
class History:
    """By partition: how many inputs there are, what a reader of committed records saw, the group's position."""

    inputs: list[int]
    copies: list[list[Copy]]
    positions: list[int]
    ended: dict[str, bool] = field(default_factory=dict)  # what copiers were told: transaction -> was it committed

    stable: list[int] = field(default_factory=list)  # as far as such a reader gets in the copies
    ends: list[int] = field(default_factory=list)  # of the copies

    def check(self, is_complete: bool = False) -> None:
        """`is_complete`: the copiers had all the time they needed."""
        self._check_aborted()
        self._check_torn()
        for partition, (stable, end) in enumerate(zip(self.stable, self.ends, strict=True)):
            if stable != end:
                raise Violation(f"partition {partition} hangs: it ends at {end}, and is stable up to {stable}")
        for partition, copies in enumerate(self.copies):
            self._check_order(partition, [copy.result for copy in copies])
        for partition, (position, copies) in enumerate(zip(self.positions, self.copies, strict=True)):
            if position != len(copies):
                raise Violation(f"partition {partition}: position {position} is committed, with {len(copies)} copies")
            if is_complete and position != self.inputs[partition]:
                raise Violation(f"partition {partition}: {position} of {self.inputs[partition]} inputs were copied")
        seen = {copy.transaction for copies in self.copies for copy in copies}
        for name, committed in self.ended.items():
            if committed and name not in seen:
                raise Violation(f"transaction {name} was lost after its commit was answered")

    def _check_aborted(self) -> None:
        for partition, copies in enumerate(self.copies):
            for copy in copies:
                if not copy.is_meant or self.ended.get(copy.transaction) is False:
                    raise Violation(
                        f"partition {partition}: a record of the aborted {copy.transaction} was read: {copy}"
                    )

    def _check_torn(self) -> None:
        seen: dict[str, set[int]] = {}
        parts: dict[str, int] = {}
        for copies in self.copies:
            for copy in copies:
                seen.setdefault(copy.transaction, set()).add(copy.part)
                parts[copy.transaction] = copy.parts
        for name, there in seen.items():
            if len(there) != parts[name]:
                raise Violation(f"transaction {name} is torn: {len(there)} of its {parts[name]} parts were read")

    def _check_order(self, partition: int, results: list[str]) -> None:
        places: dict[str, int] = {}
        for place, result in enumerate(results):
            if result in places:
                raise Violation(
                    f"partition {partition}: {transform(result)} was copied twice, at {places[result]} and {place}"
                )
            places[result] = place
        for number, result in enumerate(results):
            wanted = transform(input_text(partition, number))
            if result != wanted:
                fault = "out of order" if wanted in places else "missing"
                raise Violation(f"partition {partition}: input {number} is {fault}; {transform(result)} stands there")
        if len(results) > self.inputs[partition]:
            raise Violation(f"partition {partition}: {len(results)} copies of {self.inputs[partition]} inputs")
