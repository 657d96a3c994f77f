"""A member of a group, as the group sees it."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from headrace.broker.groups.events import Join, Protocols, SavedMember, Who


@dataclass(slots=True)
class Member:
    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: Protocols
    assignment: bytes = b""
    joining: Who = None  # waits for its Join to be answered
    syncing: Who = None  # waits for its Sync to be answered
    is_new: bool = False  # has never been answered: it cannot send heartbeats yet
    deadline: float = inf  # when it is taken for dead
    held_bytes: int = 0  # as sizes.py counts them, without its assignment

    @classmethod
    def joined(cls, member_id: str, event: Join) -> Member:
        """A new one."""
        return cls(
            member_id,
            event.instance_id,
            event.client_id,
            event.client_host,
            event.session_ms,
            event.rebalance_ms,
            event.protocols,
            joining=event.who,
            is_new=True,
        )

    @classmethod
    def restored(cls, saved: SavedMember, protocol: str) -> Member:
        return cls(
            saved.member_id,
            saved.instance_id,
            saved.client_id,
            saved.client_host,
            saved.session_ms,
            saved.rebalance_ms,
            ((protocol, saved.subscription),),
            saved.assignment,
        )

    @property
    def is_waiting(self) -> bool:
        """It cannot be expected to send heartbeats."""
        return self.joining is not None or self.syncing is not None

    def heard(self, now: float) -> None:
        self.deadline = now + self.session_ms / 1000

    def supports(self, protocol: str) -> bool:
        return any(name == protocol for name, _ in self.protocols)

    def metadata(self, protocol: str | None) -> bytes:
        """What it says under a protocol; nothing, if it does not have it."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def vote(self, candidates: set[str]) -> str | None:
        return next((name for name, _ in self.protocols if name in candidates), None)

    def saved(self, protocol: str | None, assignment: bytes) -> SavedMember:
        return SavedMember(
            self.id,
            self.instance_id,
            self.client_id,
            self.client_host,
            self.rebalance_ms,
            self.session_ms,
            self.metadata(protocol),
            assignment,
        )
