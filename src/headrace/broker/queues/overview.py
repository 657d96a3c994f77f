"""What people are told of queues: values for the command line and the doors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from headrace.broker.queues.records import PartitionKey
from headrace.broker.queues.window import State

if TYPE_CHECKING:
    from headrace.broker.queues.queue import Queue


class MemberView(msgspec.Struct, frozen=True):
    name: str
    in_flight: int
    in_flight_bytes: int
    is_full: bool


class PartitionView(msgspec.Struct, frozen=True):
    partition: int
    start_offset: int  # all before it is settled
    end_offset: int | None  # of the log; None: nobody has opened it since the start
    lag: int | None  # offsets that are not settled
    in_flight: int  # with members
    waiting: int  # for their next attempt
    dying: int  # on their way to the dead-letter topic


class PolicyView(msgspec.Struct, frozen=True):
    lock_ms: int
    max_attempts: int
    backoff_ms: int
    dead_letter: str | None


class CountsView(msgspec.Struct, frozen=True):
    """Since the node was started."""

    delivered: int
    redelivered: int
    acknowledged: int
    released: int
    timed_out: int
    rejected: int
    dead: int
    dropped: int
    lost: int


class QueueView(msgspec.Struct, frozen=True):
    door: str
    topic: str
    group: str
    mode: str
    members: list[MemberView]
    lag: int | None  # of all partitions; None: not known of all
    in_flight: int
    made_ms: int
    redelivered_ms: int
    policy: PolicyView | None  # None: there is no such topic (yet)
    counts: CountsView
    partitions: list[PartitionView]


def view(queue: Queue, with_partitions: bool = True) -> QueueView:
    machine, saved = queue.machine, queue.saved
    partitions = _partitions(queue)
    lags = [one.lag for one in partitions]
    found = machine.counts
    members = []
    for number, membership in queue.members.items():
        member = machine.members.by_number[number]
        members.append(MemberView(membership.name, member.held, member.bytes, member.is_full))
    policy = None
    if queue.topic is not None:
        meant = machine.policy
        policy = PolicyView(
            round(meant.lock_s * 1000), meant.max_attempts, round(meant.backoff_s * 1000), queue.dead_letter
        )
    return QueueView(
        *queue.key,
        mode="at-most-once" if queue.settings.at_most_once else "at-least-once",
        members=members,
        lag=None if None in lags else sum(lag for lag in lags if lag is not None),
        in_flight=sum(one.in_flight for one in partitions),
        made_ms=-1 if saved is None else saved.made_ms,
        redelivered_ms=-1 if saved is None else saved.redelivered_ms,
        policy=policy,
        counts=CountsView(**{name: getattr(found, name) for name in found.__slots__}),
        partitions=partitions if with_partitions else [],
    )


def _partitions(queue: Queue) -> list[PartitionView]:
    topic = queue.topic or queue.topic_now
    found = []
    for partition in topic.partitions if topic is not None else ():
        end = None if partition.log is None else partition.log.written_offset
        window = queue.machine.windows.get(partition.index)
        if window is not None:
            start, pending, fresh_at = window.start, len(window.unread) + len(window.entries), window.fresh_at
            states = [entry.state for entry in window.entries.values()]
        else:
            kept = queue.kept.get(PartitionKey(queue.key, partition.index))
            if kept is None:
                continue
            start, pending, fresh_at, states = kept.snapshot.start, len(kept.snapshot.pending), kept.snapshot.end, []
        lag = None if end is None else pending + max(0, end - max(fresh_at, partition.start_offset))
        counts = [states.count(state) for state in (State.LOCKED, State.WAITING, State.DYING)]
        found.append(PartitionView(partition.index, start, end, lag, *counts))
    return found
