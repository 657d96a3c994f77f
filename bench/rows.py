"""What is measured, and what it is measured against: one Row per line of the table, with its goals.

A goal is a bound on a ratio (us : Kafka, or the largest of ours : the smallest of ours for growth) or on our
own value.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Against = Literal["kafka", "itself", "first"]


@dataclass(frozen=True, slots=True)
class Goal:
    metric: str
    bound: Literal["at most", "at least"]
    value: float
    against: Against = (
        "kafka"  # kafka: the ratio to Kafka; itself: our own value; first: the ratio to our first equal column
    )

    def met(self, measured: float) -> bool:
        return measured <= self.value if self.bound == "at most" else measured >= self.value


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    title: str
    goals: tuple[Goal, ...]
    equal_from: int = 0  # growth is judged from this count on: below it, the work is not the same


@dataclass(frozen=True, slots=True)
class Metric:
    title: str
    unit: str
    digits: int


METRICS = {
    "rate": Metric("rate", "M/s", 3),
    "cpu": Metric("server CPU", "s per M", 3),
    "p50": Metric("p50", "ms", 3),
    "p99": Metric("p99", "ms", 3),
    "p99.9": Metric("p99.9", "ms", 3),
    "first_ack": Metric("start to first ack", "s", 3),
    "rss_idle": Metric("RSS idle", "MB", 0),
    "rss_after": Metric("RSS after load", "MB", 0),
}

_PRODUCE_RATE = Goal("rate", "at least", 1.3)
_HALF_CPU = Goal("cpu", "at most", 0.5)
_FLAT = Goal("cpu", "at most", 1.2, "first")

ROWS = {
    row.name: row
    for row in (
        Row("produce_100", "produce 100 B, acks=1", (Goal("cpu", "at most", 0.4), _PRODUCE_RATE)),
        Row("produce_crowd", "the same from a producer on each core", (_PRODUCE_RATE,)),
        Row("produce_ready", "the same in ready-made batches, whose client costs nothing", (_PRODUCE_RATE,)),
        Row("produce_1k", "produce 1 KiB, acks=1", (_HALF_CPU, _PRODUCE_RATE)),
        Row(
            "produce_all",
            "produce 100 B, acks=all (ours synced, Kafka's in the page cache)",
            (Goal("rate", "at least", 0.8), Goal("cpu", "at most", 1.0)),
        ),
        Row("consume_100", "consume 100 B", (_HALF_CPU,)),
        Row("consume_1k", "consume 1 KiB", (_HALF_CPU,)),
        Row(
            "small",
            "small requests, 10 x 100 B each",
            (Goal("rate", "at least", 4.0), Goal("cpu", "at most", 0.2)),
        ),
        Row(
            "latency",
            "latency at 1,000 msg/s, linger 0, acks=1",
            (Goal("p50", "at most", 0.6), Goal("p99", "at most", 1.0)),
        ),
        Row(
            "start",
            "start and memory",
            (Goal("first_ack", "at most", 0.3, "itself"), Goal("rss_idle", "at most", 60.0, "itself")),
        ),
    )
}

IN_FLIGHT = 5  # requests: as many as an idempotent producer may have
PARTITION_COUNTS = (1, IN_FLIGHT, 100, 1000)
SINGLE_COUNTS = (1, 100, 1000)
IDLE_COUNTS = (10, 500, 2000)

GROWTH = {
    row.name: row
    for row in (
        Row(
            "partitions",
            f"CPU per message over partitions, {IN_FLIGHT} requests in flight (to fewer: several are one write)",
            (_FLAT,),
            equal_from=IN_FLIGHT,
        ),
        Row("partitions_single", "CPU per message over partitions, 1 request in flight", (_FLAT,)),
        Row("connections", "CPU per message over idle connections", (_FLAT,)),
    )
}
