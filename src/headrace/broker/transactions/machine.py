"""The coordinator as a machine: `step(now, event)` gives the effects that are wanted. It knows no clock, no log and no
socket; coordinator.py drives it, and so do tests.

The order that makes a transaction whole, whatever ends in between:

1. how it ends is appended (PrepareCommit, PrepareAbort) and synced: from here on it ends that way;
2. the producer is answered, and every partition gets its marker, synced;
3. that it is complete is appended. Only then does the next transaction of that id begin.

A restart finds the last of these in the state topic and goes on from there: markers are written again, which harms
nobody.

- One change of an id is on its way at a time. Who comes meanwhile, or while the last transaction is being ended, waits
  for it here rather than to ask again and again; not for ever, and not beyond a number.
- A change that could not be appended is as if it had not been asked for. It may be in the log all the same: what is
  appended later for the same id stands over it, and nothing was done on the word of it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import assert_never

from msgspec.structs import replace

from headrace.broker.transactions import rules
from headrace.broker.transactions.events import (
    AbortBatch,
    Add,
    Answer,
    Append,
    Appended,
    Ask,
    CommitBatch,
    Effect,
    End,
    Event,
    ForgetLedger,
    Init,
    Loaded,
    Marked,
    NewProducerId,
    OpenMember,
    ProducerIdGiven,
    RenewMembers,
    Tick,
    TimedOut,
    WriteMarkers,
)
from headrace.broker.transactions.sink import Sinks
from headrace.broker.transactions.transaction import NONE, Place, State, Transaction
from headrace.errors import (
    ConcurrentTransactions,
    HeadraceError,
    InvalidTransactionTimeout,
    LimitReached,
    UnknownProducerId,
)

MAX_IDS = 200_000  # transactional ids known at once, some 200 MB
MAX_WAITING = 16  # asks for one id that wait for its last transaction's end; a client has one
MAX_WAIT_MS = 5_000  # then they are told to come again: far below the time-out of a client's request
EXPIRY_LOOK_MS = 600_000  # ids that nobody used for long are looked for this often


class Entry:
    """A transactional id, and what is on its way."""

    __slots__ = ("asks", "change", "current", "ticket", "unmarked")

    def __init__(self) -> None:
        self.current: Transaction | None = None
        self.change: Transaction | Ask | None = None  # being appended; or the ask that waits for a producer id
        self.ticket: int | None = None  # who is answered when the change is there
        self.unmarked: set[Place] = set()
        self.asks: deque[tuple[int, Ask]] = deque()  # since when (ms), and what

    def die(self) -> None:
        """What is appended is that the id is forgotten."""
        assert self.current is not None
        self.change = replace(self.current, state=State.DEAD)


class Machine:
    def __init__(
        self, partition_for: Callable[[str], int], max_timeout_ms: int = 900_000, expiry_ms: int = 7 * 86_400_000
    ) -> None:
        self.partition_for, self._max_timeout_ms, self._expiry_ms = partition_for, max_timeout_ms, expiry_ms
        self.entries: dict[str, Entry] = {}
        self._epochs: dict[int, int] = {}  # of the partitions that are loaded
        self.ongoing: dict[str, None] = {}
        self._unended: dict[str, None] = {}  # prepared, and their completion could not be appended
        self._busy: dict[str, None] = {}  # entries with asks that wait
        self._expire_at_ms = 0
        self.out: list[Effect] = []
        self.sinks = Sinks(self)

    # What is known

    def is_loaded(self, partition: int) -> bool:
        return partition in self._epochs

    def get(self, transactional_id: str) -> Transaction | None:
        entry = self.entries.get(transactional_id)
        return entry.current if entry is not None else None

    def transactions(self) -> Iterable[Transaction]:
        return [entry.current for entry in self.entries.values() if entry.current is not None]

    def verify(self, transactional_id: str, producer_id: int, epoch: int, place: Place) -> None:
        """Raises unless the partition is part of that producer's transaction, which is under way."""
        rules.verify(self._known(transactional_id), producer_id, epoch, place)

    def _known(self, transactional_id: str) -> Transaction:
        known = self.get(transactional_id)
        if known is None:
            raise UnknownProducerId(f"no producer is known by the transactional id {transactional_id!r}")
        return known

    # Steps

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        match event:
            case Init() | Add() | End():
                self.ask(now_ms, event)
            case ProducerIdGiven():
                self._given(now_ms, event)
            case OpenMember() | RenewMembers() | CommitBatch() | AbortBatch() | ForgetLedger():
                self.sinks.ask(now_ms, event)
            case Appended():
                for transactional_id in event.ids:
                    self._appended(now_ms, self.entries[transactional_id], transactional_id, event.error)
                if event.forgotten is not None:
                    self.sinks.forgotten(now_ms, event.forgotten, event.error)
                elif event.ledger is not None:
                    self.sinks.appended(now_ms, event.ledger, event.error)
            case Marked():
                self._marked(now_ms, event)
            case Loaded():
                self._load(now_ms, event)
            case Tick():
                self._tick(now_ms)
            case _:
                assert_never(event)
        effects, self.out = self.out, []
        return effects

    def ask(self, now_ms: int, ask: Ask) -> None:
        entry = self.entries.get(ask.id)
        if entry is None:
            if not isinstance(ask, Init) or len(self.entries) >= MAX_IDS:
                self.refuse(ask.ticket, _unknown(ask))
                return
            entry = self.entries[ask.id] = Entry()
        if entry.change is not None or self._must_wait(entry, ask):
            self._wait(now_ms, entry, ask)
            return
        self._decide(now_ms, entry, ask, NONE)

    def _must_wait(self, entry: Entry, ask: Ask) -> bool:
        """The last transaction is being ended, and it is not a fenced producer that asks."""
        known = entry.current
        if known is None or not known.state.is_prepared:
            return False
        if isinstance(ask, Init) or (ask.producer_id, ask.epoch) == known.given:
            return True
        epochs = (known.epoch,) if isinstance(ask, Add) else (known.epoch, known.last_epoch)
        return ask.producer_id == known.producer_id and ask.epoch in epochs

    def _wait(self, now_ms: int, entry: Entry, ask: Ask) -> None:
        if len(entry.asks) >= MAX_WAITING:
            self.refuse(ask.ticket, ConcurrentTransactions(f"{ask.id!r} is busy: ask again"))
        else:
            entry.asks.append((now_ms, ask))
            self._busy[ask.id] = None

    def _decide(self, now_ms: int, entry: Entry, ask: Ask, new_id: int) -> None:
        known = entry.current
        try:
            if new_id == NONE and self._needs_id(known, ask):
                entry.change = ask
                self.out.append(NewProducerId(ask.id))
                return
            if isinstance(ask, Init) and known is not None and known.state == State.ONGOING:
                rules.check_expected(known, ask.producer_id, ask.epoch)
                if ask.epoch not in (NONE, known.epoch):
                    rules.check_known(known, known.producer_id, ask.epoch)
                # Aborted first; who asks waits for that, and is then given an epoch of its own.
                self._wait(now_ms, entry, ask)
                self._change(entry, rules.fence(known, now_ms), None)
                return
            changed = self._changed(known, ask, new_id, now_ms)
        except HeadraceError as error:
            self.refuse(ask.ticket, error)
            self._settle(now_ms, entry, ask.id)
            return
        if changed is known:
            assert known is not None
            self.out.append(Answer(ask.ticket, known.given))
            self._settle(now_ms, entry, ask.id)
        else:
            self._change(entry, changed, ask.ticket)

    def _needs_id(self, known: Transaction | None, ask: Ask) -> bool:
        if isinstance(ask, Init):
            self._check_timeout(ask)
            return rules.init_needs_id(known, ask.producer_id, ask.epoch)
        return (
            isinstance(ask, End)
            and known is not None
            and (ask.producer_id, ask.epoch) == (known.producer_id, known.epoch)
            and rules.end_needs_id(known, ask.version)
        )

    def _changed(self, known: Transaction | None, ask: Ask, new_id: int, now_ms: int) -> Transaction:
        if isinstance(ask, Init):
            new = Transaction(ask.id, new_id, 0, ask.timeout_ms)
            return rules.init(known, new, (ask.producer_id, ask.epoch), now_ms)
        if known is None:
            raise _unknown(ask)
        if isinstance(ask, Add):
            return rules.add(known, ask.producer_id, ask.epoch, ask.places, ask.version, now_ms)
        return rules.end(known, ask.producer_id, ask.epoch, ask.commit, ask.version, new_id, now_ms)

    def _check_timeout(self, ask: Init) -> None:
        if not 0 < ask.timeout_ms <= self._max_timeout_ms:
            raise InvalidTransactionTimeout(
                f"a transaction may take 1 to {self._max_timeout_ms} ms (transaction.max.timeout.ms), "
                f"not {ask.timeout_ms}"
            )

    def _change(self, entry: Entry, changed: Transaction, ticket: int | None) -> None:
        entry.change, entry.ticket = changed, ticket
        self.out.append(Append(self.partition_for(changed.id), ((changed.id, changed),)))

    def refuse(self, ticket: int, error: HeadraceError) -> None:
        self.out.append(Answer(ticket, error))

    # What comes back

    def _given(self, now_ms: int, event: ProducerIdGiven) -> None:
        entry = self.entries[event.id]
        ask, entry.change = entry.change, None
        assert isinstance(ask, Init | Add | End)
        if event.error is not None:
            self.refuse(ask.ticket, event.error)
            self._settle(now_ms, entry, event.id)
        else:
            self._decide(now_ms, entry, ask, event.producer_id)

    def _appended(self, now_ms: int, entry: Entry, transactional_id: str, error: HeadraceError | None) -> None:
        changed, ticket = entry.change, entry.ticket
        assert isinstance(changed, Transaction)
        entry.change = entry.ticket = None
        if changed.state == State.DEAD:
            if error is None:
                entry.current = None
                self.ongoing.pop(transactional_id, None)
            self._settle(now_ms, entry, transactional_id)
            return
        if error is not None:
            if ticket is not None:
                self.refuse(ticket, error)
            # Who waits would try the same again at once, and for as long as the disk is full.
            while entry.asks:
                self.refuse(entry.asks.popleft()[1].ticket, error)
            if entry.current is not None and entry.current.state.is_prepared:
                self._unended[transactional_id] = None
            self._settle(now_ms, entry, transactional_id)
            return
        entry.current = changed
        self._note(changed)
        if ticket is not None:
            self.out.append(Answer(ticket, changed.given))
        if changed.state.is_prepared:
            self._mark(now_ms, entry)
        else:
            self._settle(now_ms, entry, transactional_id)

    def _note(self, current: Transaction) -> None:
        if current.state == State.ONGOING:
            self.ongoing[current.id] = None
        else:
            self.ongoing.pop(current.id, None)

    def _mark(self, now_ms: int, entry: Entry) -> None:
        known = entry.current
        assert known is not None
        entry.unmarked = set(known.partitions)
        if entry.unmarked:
            epoch = self._epochs.get(self.partition_for(known.id), 0)
            self.out.append(WriteMarkers(known, epoch, tuple(sorted(known.partitions))))
        else:
            self._change(entry, rules.complete(known, now_ms), None)

    def _marked(self, now_ms: int, event: Marked) -> None:
        entry = self.entries.get(event.id)
        if entry is None or entry.current is None or event.place not in entry.unmarked:
            return
        entry.unmarked.discard(event.place)
        if not entry.unmarked and entry.change is None and entry.current.state.is_prepared:
            self._change(entry, rules.complete(entry.current, now_ms), None)

    def _settle(self, now_ms: int, entry: Entry, transactional_id: str) -> None:
        """Nothing is on its way: the next that waits has its turn."""
        while entry.asks and entry.change is None:
            if self._must_wait(entry, entry.asks[0][1]):
                return
            _, ask = entry.asks.popleft()
            self._decide(now_ms, entry, ask, NONE)
        if not entry.asks:
            self._busy.pop(transactional_id, None)
        if entry.current is None and entry.change is None and not entry.asks:
            self.entries.pop(transactional_id, None)

    # Time

    def _tick(self, now_ms: int) -> None:
        for transactional_id in list(self.ongoing):
            entry = self.entries[transactional_id]
            known = entry.current
            assert known is not None
            if self.sinks.deadline_ms(known) < now_ms and entry.change is None:
                self.out.append(TimedOut(known))
                self._change(entry, rules.fence(known, now_ms), None)
        unended, self._unended = self._unended, {}
        for transactional_id in unended:
            self._end_again(now_ms, self.entries[transactional_id])
        for transactional_id in list(self._busy):
            entry = self.entries[transactional_id]
            while entry.asks and now_ms - entry.asks[0][0] > MAX_WAIT_MS:
                _, ask = entry.asks.popleft()
                self.refuse(ask.ticket, ConcurrentTransactions(f"{ask.id!r} is still being ended: ask again"))
            if not entry.asks:
                del self._busy[transactional_id]
        if now_ms >= self._expire_at_ms:
            self._expire_at_ms = now_ms + EXPIRY_LOOK_MS
            self._forget_unused(now_ms)
            self.sinks.forget_unused(now_ms)

    def _end_again(self, now_ms: int, entry: Entry) -> None:
        known = entry.current
        if known is not None and known.state.is_prepared and entry.change is None and not entry.unmarked:
            self._change(entry, rules.complete(known, now_ms), None)

    def _forget_unused(self, now_ms: int) -> None:
        for transactional_id, entry in list(self.entries.items()):
            known = entry.current
            if known is None or entry.change is not None or entry.asks:
                continue
            is_idle = known.state != State.ONGOING and not known.state.is_prepared
            if is_idle and now_ms - known.updated_ms > self._expiry_ms:
                entry.die()
                self.out.append(Append(self.partition_for(known.id), ((transactional_id, None),)))

    # The start

    def _load(self, now_ms: int, event: Loaded) -> None:
        self._epochs[event.partition] = event.coordinator_epoch
        self.sinks.load(now_ms, event.partition, event.ledgers)
        for known in event.transactions:
            entry = self.entries[known.id] = Entry()
            entry.current = known
            if known.state.is_prepared:
                self._mark(now_ms, entry)
            self._note(known)


def _unknown(ask: Ask) -> HeadraceError:
    if isinstance(ask, Init):
        return LimitReached(f"{MAX_IDS} transactional ids are known already; they are forgotten when unused for long")
    return UnknownProducerId(f"no producer is known by the transactional id {ask.id!r}")
