"""What a door counts: connections by how they ended, requests, records and bytes. Doors add to the plain numbers."""

from __future__ import annotations


class DoorMetrics:
    __slots__ = (
        "closed",
        "delivered",
        "errors",
        "lost",
        "opened",
        "published",
        "received_bytes",
        "refused",
        "requests",
        "sent_bytes",
    )

    def __init__(self) -> None:
        self.opened = self.refused = 0
        self.closed: dict[str, int] = {}  # by cause
        self.requests = 0  # messages of clients that ask for something
        self.errors = 0  # of these, refused
        self.published = 0  # records that came in
        self.delivered = 0  # records that went out to subscribers, each one counted
        self.lost = 0  # records that a slow subscriber did not get
        self.received_bytes = self.sent_bytes = 0

    def left(self, cause: str) -> None:
        self.closed[cause] = self.closed.get(cause, 0) + 1
