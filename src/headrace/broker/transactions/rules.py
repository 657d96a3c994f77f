"""What may happen to one transactional id: pure decisions. What is known and what is asked in, what is true next out;
an error says why not. When what comes out is what went in, nothing has to be written.

Kafka's rules, in the words of its KIPs: 98 (transactions), 360 (a producer raises its own epoch after an error), 890
(each end raises the epoch, so that nothing of one transaction can slip into the next).

- Of two producers with one transactional id the later wins: it gets the higher epoch, the other is fenced.
- A producer that repeats a request, because the answer was lost, gets the same answer: it is known by the epoch it
  had before.
- An epoch is never used up silently: after the last one the producer gets another id.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END, LAST_EPOCH, NONE, Place, State, Transaction
from headrace.errors import (
    ConcurrentTransactions,
    InvalidTransactionState,
    LimitReached,
    ProducerFenced,
    TransactionAbortable,
    UnknownProducerId,
)

MAX_PARTITIONS = 20_000  # in one transaction: as many as a node holds


def check_known(known: Transaction, producer_id: int, epoch: int) -> None:
    """The producer that asks is the one that the id belongs to now."""
    if known.producer_id != producer_id:
        raise _not_mapped(known, producer_id)
    if known.epoch != epoch:
        raise _fenced(known, epoch)


# A producer begins


def init_needs_id(known: Transaction | None, producer_id: int, epoch: int) -> bool:
    """Whether `init` has to be given a new producer id."""
    if known is None:
        return True
    return not _is_open(known) and known.is_exhausted and not _is_repeated(known, producer_id, epoch)


def init(known: Transaction | None, ask: Transaction, expected: tuple[int, int], now_ms: int) -> Transaction:
    """A producer begins, or goes on after an error with the id and epoch that it had (`expected`, NONE when it is new).
    `ask` has its timeout, and the new producer id if one is needed. Not for a transaction that is open."""
    producer_id, epoch = expected
    if known is None:
        return replace(ask, epoch=0, updated_ms=now_ms)
    if _is_repeated(known, producer_id, epoch):
        again = replace(known, timeout_ms=ask.timeout_ms, state=State.EMPTY, partitions=frozenset(), started_ms=NONE)
        return known if again == known else again
    check_expected(known, producer_id, epoch)
    if epoch not in (NONE, known.epoch):
        raise ProducerFenced(f"{known.id!r} is at epoch {known.epoch}, not {epoch}: another producer has begun since")
    last_epoch = known.epoch if epoch != NONE else NONE
    fresh = replace(
        known,
        timeout_ms=ask.timeout_ms,
        state=State.EMPTY,
        partitions=frozenset(),
        started_ms=NONE,
        updated_ms=now_ms,
        last_epoch=last_epoch,
        next_producer_id=NONE,
    )
    if known.is_exhausted:
        return replace(fresh, producer_id=ask.producer_id, epoch=0, previous_producer_id=known.producer_id)
    return replace(fresh, epoch=known.epoch + 1)


def check_expected(known: Transaction, producer_id: int, epoch: int) -> None:
    if producer_id not in (NONE, known.producer_id) and not (
        producer_id == known.previous_producer_id and epoch >= LAST_EPOCH
    ):
        raise ProducerFenced(f"{known.id!r} belongs to producer {known.producer_id} now, not to {producer_id}")


def _is_repeated(known: Transaction, producer_id: int, epoch: int) -> bool:
    """The producer asks again for what it was given already."""
    if epoch == NONE or epoch != known.last_epoch:
        return False
    return producer_id in (known.producer_id, known.previous_producer_id)


def _is_open(known: Transaction) -> bool:
    return known.state == State.ONGOING or known.state.is_prepared


# It adds partitions


def add(
    known: Transaction, producer_id: int, epoch: int, places: Iterable[Place], version: int, now_ms: int
) -> Transaction:
    check_known(known, producer_id, epoch)
    if known.state.is_prepared:
        raise _concurrent(known)
    if known.state == State.ONGOING:
        partitions = known.partitions.union(places)
        if len(partitions) == len(known.partitions):
            return known
        _check_count(known, partitions)
        return replace(known, partitions=partitions, updated_ms=now_ms)
    partitions = frozenset(places)
    _check_count(known, partitions)
    return replace(
        known,
        state=State.ONGOING,
        partitions=partitions,
        started_ms=now_ms,
        updated_ms=now_ms,
        version=version,
    )


def verify(known: Transaction, producer_id: int, epoch: int, place: Place) -> None:
    """The partition is part of the transaction."""
    check_known(known, producer_id, epoch)
    if known.state != State.ONGOING or place not in known.partitions:
        raise TransactionAbortable(f"{place[0]}/{place[1]} was not added to the transaction of {known.id!r}")


# It ends


def end_needs_id(known: Transaction, version: int) -> bool:
    return version >= EPOCH_ON_EACH_END and known.is_exhausted


def end(
    known: Transaction, producer_id: int, epoch: int, commit: bool, version: int, next_id: int, now_ms: int
) -> Transaction:
    """What comes out is prepared; or it is what went in, when the end was asked for before, and is answered again."""
    if version >= EPOCH_ON_EACH_END:
        return _end_with_new_epoch(known, producer_id, epoch, commit, next_id, now_ms)
    check_known(known, producer_id, epoch)
    if known.state == State.ONGOING:
        # Whoever began it: this end does not raise the epoch, and the partitions must not expect that.
        return _prepared(replace(known, version=version), commit, now_ms)
    if known.state == (State.COMPLETE_COMMIT if commit else State.COMPLETE_ABORT):
        return known
    if known.state == (State.PREPARE_COMMIT if commit else State.PREPARE_ABORT):
        raise _concurrent(known)
    raise _nothing_to_end(known, commit)


def _end_with_new_epoch(
    known: Transaction, producer_id: int, epoch: int, commit: bool, next_id: int, now_ms: int
) -> Transaction:
    is_renewed = known.previous_producer_id == producer_id and epoch == LAST_EPOCH and known.epoch == 0
    is_repeated = known.producer_id == producer_id and known.epoch == epoch + 1
    if known.producer_id != producer_id and not is_renewed:
        raise _not_mapped(known, producer_id)
    if known.state.is_prepared:
        if not is_repeated:
            raise _fenced(known, epoch)
        if known.is_commit != commit:
            raise _nothing_to_end(known, commit)
        raise _concurrent(known)
    is_complete = known.state in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)
    if is_complete and (is_repeated or is_renewed):
        if known.is_commit != commit:
            raise _nothing_to_end(known, commit)
        return known
    if known.epoch != epoch:
        raise _fenced(known, epoch)
    if known.state != State.ONGOING and commit:
        raise _nothing_to_end(known, commit)
    if known.state != State.ONGOING:  # nothing was added: the epoch is raised all the same, that is what was asked for
        known = replace(known, partitions=frozenset(), started_ms=now_ms)
    raised = replace(known, epoch=known.epoch + 1, last_epoch=known.epoch, next_producer_id=next_id)
    return replace(_prepared(raised, commit, now_ms), version=EPOCH_ON_EACH_END)


def fence(known: Transaction, now_ms: int) -> Transaction:
    """Aborts what is under way, with an epoch that its producer does not have: it was too slow, or another begins."""
    assert known.state == State.ONGOING
    return _prepared(replace(known, epoch=known.epoch + 1, last_epoch=NONE), False, now_ms)


def complete(known: Transaction, now_ms: int) -> Transaction:
    """Every partition has its marker."""
    assert known.state.is_prepared
    state = State.COMPLETE_COMMIT if known.is_commit else State.COMPLETE_ABORT
    done = replace(known, state=state, partitions=frozenset(), updated_ms=now_ms, next_producer_id=NONE)
    if known.next_producer_id == NONE:
        return done
    return replace(done, producer_id=known.next_producer_id, epoch=0, previous_producer_id=known.producer_id)


def _prepared(known: Transaction, commit: bool, now_ms: int) -> Transaction:
    return replace(known, state=State.PREPARE_COMMIT if commit else State.PREPARE_ABORT, updated_ms=now_ms)


# Refusals


def _not_mapped(known: Transaction, producer_id: int) -> UnknownProducerId:
    return UnknownProducerId(f"producer {producer_id} does not belong to {known.id!r}")


def _fenced(known: Transaction, epoch: int) -> ProducerFenced:
    return ProducerFenced(f"{known.id!r} is at epoch {known.epoch}, and this producer at {epoch}")


def _concurrent(known: Transaction) -> ConcurrentTransactions:
    return ConcurrentTransactions(f"the last transaction of {known.id!r} is still being ended")


def _nothing_to_end(known: Transaction, commit: bool) -> InvalidTransactionState:
    wish = "committed" if commit else "aborted"
    return InvalidTransactionState(f"{known.id!r} is in state {known.state.shown}: there is nothing to be {wish}")


def _check_count(known: Transaction, partitions: frozenset[Place]) -> None:
    if len(partitions) > MAX_PARTITIONS:
        raise LimitReached(f"a transaction has at most {MAX_PARTITIONS} partitions; {known.id!r} wants more")
