"""What administration tells of groups and transactions. Values only, nothing is asked here."""

from __future__ import annotations

import msgspec

from headrace.client.values import TopicPartition


class GroupListing(msgspec.Struct, frozen=True):
    name: str
    state: str  # as the broker says it: Empty, Stable, PreparingRebalance, …; "" from brokers that do not tell
    kind: str  # classic, consumer, share, streams; "" from brokers that do not tell
    protocol_type: str  # "consumer" for groups that read topics
    coordinator: int  # the node that told of it


class GroupMember(msgspec.Struct, frozen=True):
    id: str
    instance_id: str | None  # of static members
    client_id: str
    host: str
    topics: tuple[str, ...]  # what it wants to read
    partitions: tuple[TopicPartition, ...]  # what it was given


class Group(msgspec.Struct, frozen=True):
    name: str
    state: str
    kind: str
    protocol_type: str
    assignor: str  # how partitions are shared out: range, cooperative-sticky, …
    coordinator: int
    members: tuple[GroupMember, ...]


class Committed(msgspec.Struct, frozen=True):
    """A group's position in a partition: the offset of the next record that it will read."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class TransactionListing(msgspec.Struct, frozen=True):
    id: str
    state: str  # Empty, Ongoing, PrepareCommit, PrepareAbort, CompleteCommit, CompleteAbort, …
    producer_id: int
    coordinator: int


class Transaction(msgspec.Struct, frozen=True):
    id: str
    state: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    started_ms: int | None  # the open one, or the last; None: there was none, or it is not told
    coordinator: int
    partitions: tuple[TopicPartition, ...]


class Ledger(msgspec.Struct, frozen=True):
    """What a broker keeps of a streaming query that writes each batch exactly once."""

    query: str
    batch: int | None  # the last that was committed
    write: int  # the number of the newest write that was seen
    changed_ms: int | None  # when a batch was last committed, or a write began; None: not known
    open_members: int  # transactions of the query that are under way
    coordinator: int


class ProducerState(msgspec.Struct, frozen=True):
    """A producer as a partition knows it."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int  # -1: not known
    coordinator_epoch: int  # -1: no transaction of it ever ended here
    transaction_start: int | None  # the first offset of its open transaction
