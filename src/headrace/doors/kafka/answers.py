"""Answers in the order of their requests."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.ports import Buffer


class Answer:
    """A place in the order. Filled when `buffers` is set."""

    __slots__ = ("buffers", "records_bytes")

    def __init__(self) -> None:
        self.buffers: Sequence[Buffer] | None = None
        self.records_bytes = 0
