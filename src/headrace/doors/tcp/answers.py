"""Answers of one connection, in the order of their requests, whenever each becomes ready."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.doors.tcp.connection import TcpConnection


class Answer:
    """Its place in the order; empty bytes: none is wanted. `count`: requests that it answers together."""

    __slots__ = ("count", "data")

    def __init__(self, count: int = 1) -> None:
        self.data: bytes | None = None
        self.count = count


class Answers:
    def __init__(self, connection: TcpConnection) -> None:
        self._connection = connection
        self._due: deque[Answer] = deque()

    def __len__(self) -> int:
        return len(self._due)

    def place(self, count: int = 1) -> Answer:
        """The next in the order: a request is taken, or several, and will be answered."""
        answer = Answer(count)
        self._due.append(answer)
        self._connection.expect(count)
        return answer

    def is_first(self, answer: Answer) -> bool:
        """All before it are given."""
        return bool(self._due) and self._due[0] is answer

    def give(self, answer: Answer, data: bytes) -> None:
        answer.data = data
        due = self._due
        count = 0
        while due and (ready := due[0].data) is not None:
            count += due.popleft().count
            if ready:
                self._connection.send_soon(ready)
        if count:
            self._connection.answered(count)
