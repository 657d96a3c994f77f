"""What a producer may be told."""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.client import partitioner as partitioners
from headrace.client.partitioner import Partitioner
from headrace.records.compression import NAMES
from headrace.records.header import HEADER_BYTES, MAX_BATCH_BYTES

ACKS: Final = {"all": -1, -1: -1, "1": 1, 1: 1, "0": 0, 0: 0}


class ProducerOptions(msgspec.Struct, frozen=True, kw_only=True):
    acks: str | int = "all"
    """"all", 1 or 0: written and synced by all replicas in sync, written by the leader, or not waited for."""
    idempotent: bool | None = None
    """Written once and in order, whatever is repeated. None: wherever acks="all" allows it."""
    compression: str = "none"
    linger: float = 0.005
    """Seconds that a batch waits for company while another is on its way."""
    batch_bytes: int = 1 << 20
    """Of one partition's batch, before compression; Kafka's default for the largest that a topic takes."""
    buffer_bytes: int = 32 << 20
    """Of all records that are not acknowledged yet; `put` waits for room."""
    delivery_timeout: float = 120.0
    """Seconds from `put` until a record fails, all repeats included."""
    request_timeout: float = 30.0
    """Seconds until a request without an answer is repeated."""
    partitioner: Partitioner = partitioners.by_key
    transactional_id: str | None = None
    """A name that outlives the process: what is sent is written in transactions, and who begins with the name fences
    whoever had it before."""
    transaction_timeout: float = 60.0
    """Seconds that a transaction may be open; then its coordinator aborts it."""

    def __post_init__(self) -> None:
        if self.acks not in ACKS:
            raise ValueError(f'acks is "all", 1 or 0, not {self.acks!r}')
        if self.idempotent and ACKS[self.acks] != -1:
            raise ValueError('an idempotent producer needs acks="all"')
        if self.transactional_id is not None and (self.idempotent is False or ACKS[self.acks] != -1):
            raise ValueError('transactions need acks="all" and idempotence')
        if self.transactional_id == "" or self.transaction_timeout <= 0:
            raise ValueError("a transactional id is not empty, and a transaction's timeout more than 0 seconds")
        if self.compression not in NAMES:
            raise ValueError(f"compression {self.compression!r} is not one of {', '.join(NAMES)}")
        if not HEADER_BYTES < self.batch_bytes <= MAX_BATCH_BYTES or self.buffer_bytes <= 0:
            raise ValueError(f"batch_bytes is at most {MAX_BATCH_BYTES}, and buffer_bytes more than 0")
        if self.delivery_timeout <= 0 or self.request_timeout <= 0 or self.linger < 0:
            raise ValueError("timeouts are more than 0 seconds, linger at least 0")
