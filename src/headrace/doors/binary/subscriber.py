"""One subscription of a client: to a partition, live or from an offset on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.subscriptions.run import Run
from headrace.doors.binary.data import FORM, encode_run

if TYPE_CHECKING:
    from headrace.broker.subscriptions.subscription import Subscription
    from headrace.doors.binary.connection import BinaryConnection

Key = tuple[str, int, str]  # topic, partition, client id


class BinarySubscriber:
    def __init__(self, connection: BinaryConnection, key: Key) -> None:
        self.connection, self.key = connection, key
        self._subscription: Subscription | None = None

    def begin(self, start: int | None) -> None:
        topic, partition, _ = self.key
        subscriptions = self.connection.door.broker.subscriptions
        self._subscription = subscriptions.subscribe(topic, self, partitions=(partition,), start=start)

    def deliver(self, run: Run) -> bool:
        connection = self.connection
        if data := run.encoded(FORM, encode_run):  # a run may be all aborted
            connection.door.metrics.delivered += len(run.records)
            connection.send_soon(data)
        return not connection.is_full

    def lost(self, topic: str, count: int) -> None:
        """Of a memory topic's ring, or by retention: the protocol has no word for it, and the sequence numbers show the
        gap, so it is only counted."""
        self.connection.door.metrics.lost += count

    def resume(self) -> None:
        if self._subscription is not None:
            self._subscription.resume()

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
