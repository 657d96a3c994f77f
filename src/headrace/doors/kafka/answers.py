"""Answers in the order of their requests, and those that come later by a call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from headrace.doors.kafka.errors import counted, current_count
from headrace.ports import Piece

T = TypeVar("T")


class Answer:
    """A place in the order. Filled when `buffers` is set."""

    __slots__ = ("buffers", "ready_bytes")

    def __init__(self) -> None:
        self.buffers: Sequence[Piece] | None = None
        self.ready_bytes = 0  # of it, in those of its connection


class Later(Generic[T]):
    """The answer to a request whose outcome somebody tells by a call, at once or later: cheaper than a task. Given in
    vain when the connection is gone."""

    __slots__ = ("_answer", "_count", "_encode", "_take")

    def __init__(self, encode: Callable[[T], bytes]) -> None:
        self._encode, self._count = encode, current_count()
        self._answer: bytes | None = None
        self._take: Callable[[bytes], None] | None = None

    def give(self, outcome: T) -> None:
        with counted(self._count):
            answer = self._encode(outcome)
        if self._take is None:
            self._answer = answer
        else:
            self._take(answer)

    def when_given(self, take: Callable[[bytes], None]) -> None:
        if self._answer is None:
            self._take = take
        else:
            take(self._answer)

    @property
    def given(self) -> bytes | None:
        """The answer, if it is there already."""
        return self._answer
