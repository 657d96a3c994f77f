"""The members of a queue, in the order in which they joined, and whose turn it is.

One counter for the queue rises by one with each record, and the member at the counter modulo their number gets it. Who
has no room is passed over, for the next in order.
"""

from __future__ import annotations

from collections.abc import Iterator


class Member:
    __slots__ = ("bytes", "held", "is_full", "max_bytes", "max_records", "number")

    def __init__(self, number: int, max_records: int, max_bytes: int) -> None:
        self.number, self.max_records, self.max_bytes = number, max_records, max_bytes
        self.held = self.bytes = 0  # records, and their bytes, that it was given and has not settled
        self.is_full = False  # it said so

    @property
    def has_room(self) -> bool:
        """For one more, however large: a member that holds nothing is never stuck."""
        return not self.is_full and self.held < self.max_records and (self.bytes < self.max_bytes or not self.held)


class Members:
    __slots__ = ("_in_order", "by_number", "counter")

    def __init__(self) -> None:
        self.by_number: dict[int, Member] = {}
        self._in_order: list[Member] = []
        self.counter = 0

    def __len__(self) -> int:
        return len(self._in_order)

    def __iter__(self) -> Iterator[Member]:
        return iter(self._in_order)

    def add(self, member: Member) -> None:
        self.by_number[member.number] = member
        self._in_order.append(member)

    def remove(self, number: int) -> Member | None:
        member = self.by_number.pop(number, None)
        if member is not None:
            self._in_order.remove(member)
        return member

    def any_has_room(self) -> bool:
        return any(member.has_room for member in self._in_order)

    def next(self) -> Member | None:
        """Whose turn it is; None: nobody has room."""
        members = self._in_order
        first = self.counter % len(members)
        member = members[first]
        if not member.is_full and member.held < member.max_records and (member.bytes < member.max_bytes):
            self.counter += 1  # the usual, without a call
            return member
        for place in range(first, first + len(members)):
            member = members[place % len(members)]
            if member.has_room:
                self.counter += 1
                return member
        return None

    def next_even_if_full(self) -> Member:
        """For what cannot be held back any more."""
        member = self.next()
        if member is None:
            member = self._in_order[self.counter % len(self._in_order)]
            self.counter += 1
        return member
