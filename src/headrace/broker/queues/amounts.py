"""How much a queue has before it, in two numbers: for who asks about all queues, often."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue


def amounts(queue: Queue) -> tuple[int, int | None]:
    """Records in flight, and behind; None: nobody has opened it since the start."""
    in_flight = lag = 0
    for index, window in queue.machine.windows.items():
        log = None if queue.topic is None else queue.topic.partitions[index].log
        in_flight += len(window.locks)
        if log is not None:
            lag += len(window.unread) + len(window.entries)
            lag += max(0, log.written_offset - max(window.fresh_at, log.start_offset))
    return in_flight, lag if queue.machine.windows else None
