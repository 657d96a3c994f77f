"""What the HTTP door tells of the node: the questions, and the shape of the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Health:
    """The process lives and its loop turns: an answer is the proof."""

    status: str
    node_id: int
    cluster_id: str
    version: str
    time_ms: int
    uptime_seconds: float


@dataclass(frozen=True)
class Check:
    name: str
    ok: bool
    why: str


@dataclass(frozen=True)
class Readiness:
    """Whether clients should be sent here; each check says why not."""

    ready: bool
    checks: list[Check]


class Watch(Protocol):
    def health(self) -> Health: ...

    async def readiness(self) -> Readiness: ...

    async def exposition(self, *, openmetrics: bool) -> bytes:
        """All metrics as Prometheus reads them."""
        ...
