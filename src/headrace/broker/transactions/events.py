"""What the machine of transactions is told, and what it wants done. Values only.

A ticket stands for whoever asked: each gets exactly one Answer.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headrace.broker.transactions.transaction import NONE, Place, Transaction
from headrace.errors import HeadraceError

SEPARATOR = "#"  # between a query and a task, in the transactional id of a member


class Ledger(msgspec.Struct, frozen=True):
    """What is known of a query: the newest write that was seen, the last batch that was committed, and when it last
    changed. None of these is known of a query that has none."""

    query: str
    write_epoch: int = NONE
    batch: int = NONE
    changed_ms: int = NONE  # also of ledgers that were last written before this was noted


# What happened


class Init(msgspec.Struct, frozen=True):
    """A producer begins; with an id and epoch: it goes on after an error. Answered with both."""

    ticket: int
    id: str
    timeout_ms: int
    producer_id: int = NONE
    epoch: int = NONE


class Add(msgspec.Struct, frozen=True):
    """Partitions become part of the transaction, which thereby begins."""

    ticket: int
    id: str
    producer_id: int
    epoch: int
    places: Sequence[Place]
    version: int = 0


class End(msgspec.Struct, frozen=True):
    """Answered with the id and epoch that the producer goes on with."""

    ticket: int
    id: str
    producer_id: int
    epoch: int
    commit: bool
    version: int = 0


class ProducerIdGiven(msgspec.Struct, frozen=True):
    """The answer to NewProducerId; an error when there is none."""

    id: str
    producer_id: int = NONE
    error: HeadraceError | None = None


class Appended(msgspec.Struct, frozen=True):
    """What was to be appended for these ids is synced; or it is not, and may or may not be in the log."""

    ids: tuple[str, ...]
    error: HeadraceError | None = None
    ledger: Ledger | None = None
    forgotten: str | None = None


class Marked(msgspec.Struct, frozen=True):
    """A partition has its marker, synced, or is no more."""

    id: str
    place: Place


class Loaded(msgspec.Struct, frozen=True):
    """A partition of the state topic was read."""

    partition: int
    coordinator_epoch: int
    transactions: Sequence[Transaction]
    ledgers: Sequence[Ledger] = ()


class Tick(msgspec.Struct, frozen=True):
    """Time has passed."""


class OpenMember(msgspec.Struct, frozen=True):
    """A task of a query opens its own producer. Refused when a newer write of the query was seen. As Init."""

    ticket: int
    query: str
    write_epoch: int
    task: str
    timeout_ms: int

    @property
    def id(self) -> str:
        return member_id(self.query, self.task)


class RenewMembers(msgspec.Struct, frozen=True):
    """The tasks of a query are at work: none of its open transactions times out before its time-out from now."""

    ticket: int
    query: str
    write_epoch: int


class CommitBatch(msgspec.Struct, frozen=True):
    """All members (transactional id, producer id, epoch) of a query's batch are committed, or none. A batch that is in
    the ledger already is answered the same, and its members are aborted."""

    ticket: int
    query: str
    batch: int
    members: tuple[tuple[str, int, int], ...]


class AbortBatch(msgspec.Struct, frozen=True):
    """The members are aborted, unless the batch is in the ledger."""

    ticket: int
    query: str
    batch: int
    members: tuple[tuple[str, int, int], ...]


class ForgetLedger(msgspec.Struct, frozen=True):
    """The query's ledger goes, and the members that it ever had with it. `drawn` is a number for a write that nobody
    has: higher than every one before. Answered with (1, the ledger's batch)."""

    ticket: int
    query: str
    drawn: int


def member_id(query: str, task: str) -> str:
    """What stands before the `#` decides who coordinates: one for all members of a query."""
    return query + SEPARATOR + task


Ask = Init | Add | End
SinkAsk = OpenMember | RenewMembers | CommitBatch | AbortBatch | ForgetLedger
Event = Ask | SinkAsk | ProducerIdGiven | Appended | Marked | Loaded | Tick

# What is wanted


class Append(msgspec.Struct, frozen=True):
    """One batch in the state topic, to be told of by Appended. None: the id is forgotten."""

    partition: int
    states: tuple[tuple[str, Transaction | None], ...]
    ledger: Ledger | None = None
    forgotten: str | None = None  # a query, whose ledger goes


class WriteMarkers(msgspec.Struct, frozen=True):
    """A marker in each partition of the transaction, each to be told of by Marked when it is there."""

    transaction: Transaction
    coordinator_epoch: int
    places: tuple[Place, ...]


class NewProducerId(msgspec.Struct, frozen=True):
    id: str


class Answer(msgspec.Struct, frozen=True):
    """(producer id, epoch), or why not. Of a query's batch: (1 if it is in the ledger, the ledger's batch). Of a ledger
    that is forgotten: (1, its batch)."""

    ticket: int
    result: tuple[int, int] | HeadraceError


class TimedOut(msgspec.Struct, frozen=True):
    """To be told in the node's log: the transaction of that id is aborted, because it took too long."""

    transaction: Transaction


class Forgotten(msgspec.Struct, frozen=True):
    """To be told in the node's log: someone had this ledger forgotten."""

    ledger: Ledger


Effect = Append | WriteMarkers | NewProducerId | Answer | TimedOut | Forgotten
