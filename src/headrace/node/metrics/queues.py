"""Reading the queues: what they hold at the moment, and what became of their records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.broker.queues.amounts import amounts
from headrace.node.metrics.sheet import Sheet

if TYPE_CHECKING:
    from headrace.node.node import Node

MAX_QUEUES = 500  # with series of their own


def queues(node: Node, sheet: Sheet) -> None:
    found = node.broker.queues
    for place, queue in enumerate(found.hosted.values()):
        if place < MAX_QUEUES:
            sheet.put("headrace_queue_members", len(queue.members), *queue.key)
            in_flight, lag = amounts(queue)
            sheet.put("headrace_queue_in_flight_records", in_flight, *queue.key)
            if lag is not None:
                sheet.put("headrace_queue_lag_records", lag, *queue.key)
    modes = [queue.settings.at_most_once for queue in found.hosted.values()]
    sheet.put("headrace_queues", modes.count(True), "at-most-once")
    sheet.put("headrace_queues", modes.count(False), "at-least-once")
    for what, count in found.counts().items():
        sheet.put("headrace_queue_records_total", count, what)
    sheet.put("headrace_queue_memory_bytes", found.budget.used)
    sheet.put("headrace_queue_memory_limit_bytes", found.budget.limit)
    sheet.put("headrace_leases", len(node.broker.leases.leases()))
    sheet.put("headrace_series_left_out", max(0, len(modes) - MAX_QUEUES), "queues")
