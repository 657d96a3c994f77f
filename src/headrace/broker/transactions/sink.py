"""Several transactions committed as one, with an entry in a ledger: what a sink of a streaming query needs to write
each batch exactly once.

Each task of a query writes with a transactional producer of its own, a member, and leaves its transaction open. Then
one request commits them all: the decision for every member, the ledger's new batch, and the abort of whatever else of
the query is open are ONE batch in the state topic. Markers follow, and recovery is the ordinary one.

- A batch at or below the ledger was committed before: its members are aborted, and the answer is the same. So a commit
  can be repeated, by whoever runs the batch again.
- A commit is refused whole unless every member is under way, with exactly the producer id and epoch that are named.
- A task whose write is older than the newest seen opens nothing: it belongs to a driver that was replaced.
- Members do not time out while their query's tasks renew them. What is prepared never does.
- Ledgers stay for ever, for a query may go on after any time; but for one whose name says that it is written once: a
  day after the last word of it nobody repeats a commit any more.
- Any other goes when someone who knows asks for it, and no member is under way. With it go the members, so that nothing
  that they wrote can be committed any more; and no write that is as old opens another (ledgers.py). All of that is one
  batch in the state topic too, and counts from when it is synced.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from headrace.broker.transactions import rules
from headrace.broker.transactions.events import (
    SEPARATOR,
    AbortBatch,
    Answer,
    Append,
    CommitBatch,
    ForgetLedger,
    Forgotten,
    Init,
    Ledger,
    OpenMember,
    RenewMembers,
    SinkAsk,
)
from headrace.broker.transactions.ledgers import NOBODY, Ledgers, Page, Shown
from headrace.broker.transactions.transaction import EPOCH_ON_EACH_END, NONE, State, Transaction
from headrace.errors import (
    ConcurrentTransactions,
    HeadraceError,
    InvalidTransactionState,
    LimitReached,
    ProducerFenced,
    UnknownLedger,
)

if TYPE_CHECKING:
    from headrace.broker.transactions.machine import Entry, Machine

MAX_MEMBERS = 10_000  # of one batch: as many tasks as a large query has
MAX_QUERIES = 100_000  # that have ledgers, some 30 MB: these stay until someone lets them go
ONCE = "once:"  # how the names of queries begin that have one batch, under a name that does not come again
ONCE_MS = 24 * 3_600_000
COMMITTED, NOT_COMMITTED = 1, 0
FORGOTTEN = 1


class Sinks:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._ledgers = Ledgers()
        self._renewed_ms: dict[str, int] = {}  # by query
        self._waiting: dict[str, list[SinkAsk]] = {}  # for the query's ledger to be appended
        self._committing: dict[str, int] = {}  # tickets of commits that are being appended, by query
        self._forgetting: dict[str, int | None] = {}  # the same; None: nobody asked for it

    def __len__(self) -> int:
        """How many ledgers there are."""
        return len(self._ledgers)

    def load(self, now_ms: int, partition: int, ledgers: Sequence[Ledger]) -> None:
        self._ledgers.load(partition, ledgers)
        for ledger in ledgers:
            if ledger.query in self._ledgers:
                self._renewed_ms[ledger.query] = now_ms  # nobody could renew while we were away

    def ledger(self, query: str) -> Ledger:
        return self._ledgers.get(query) or Ledger(query)

    def page(self, after: str) -> Page:
        """In the order of names, those that come after this one."""
        found, has_more = self._ledgers.after(after)
        under_way = Counter(_query_of(name) for name in self._machine.ongoing if SEPARATOR in name)
        return Page([Shown(ledger, under_way[ledger.query]) for ledger in found], has_more, len(self._ledgers))

    def deadline_ms(self, known: Transaction) -> int:
        """When a transaction times out."""
        renewed_ms = self._renewed_ms.get(_query_of(known.id)) if self._renewed_ms else None
        return known.deadline_ms() if renewed_ms is None else max(known.started_ms, renewed_ms) + known.timeout_ms

    # What is asked

    def ask(self, now_ms: int, ask: SinkAsk) -> None:
        if ask.query in self._waiting:  # one change of a ledger at a time
            self._wait(ask)
            return
        try:
            match ask:
                case OpenMember():
                    self._open(now_ms, ask)
                case RenewMembers():
                    self._check_write(ask.query, ask.write_epoch)
                    if ask.query in self._ledgers:
                        self._renewed_ms[ask.query] = now_ms
                    self._answer(ask)
                case CommitBatch():
                    self._commit(now_ms, ask)
                case AbortBatch():
                    self._abort(now_ms, ask)
                case ForgetLedger():
                    self._forget(now_ms, ask)
        except HeadraceError as error:
            self._machine.refuse(ask.ticket, error)

    def _open(self, now_ms: int, ask: OpenMember) -> None:
        self._check_write(ask.query, ask.write_epoch)
        known = self.ledger(ask.query)
        if ask.query not in self._ledgers or ask.write_epoch > known.write_epoch:
            if ask.query not in self._ledgers and len(self._ledgers) >= MAX_QUERIES:
                raise LimitReached(
                    f"{MAX_QUERIES} queries have ledgers here already: `headrace txn ledgers` shows them, and"
                    " `headrace txn forget QUERY` lets go of one that nothing writes any more"
                )
            self._waiting[ask.query] = [ask]
            self._append((), replace(known, write_epoch=ask.write_epoch, changed_ms=now_ms))
        else:
            self._renewed_ms[ask.query] = now_ms
            self._machine.ask(now_ms, Init(ask.ticket, ask.id, ask.timeout_ms))

    def _check_write(self, query: str, write_epoch: int) -> None:
        newest = self.ledger(query).write_epoch
        if write_epoch < newest:
            raise ProducerFenced(f"write {write_epoch} of {query!r} was replaced by write {newest}")
        if query in self._ledgers:
            return
        floor = self._ledgers.floor(self._machine.partition_for(query))
        if floor != NONE and write_epoch <= floor:
            raise ProducerFenced(
                f"write {write_epoch} of {query!r} is no newer than write {floor}, whose ledger was forgotten:"
                " start the query again"
            )

    def _commit(self, now_ms: int, ask: CommitBatch) -> None:
        known = self.ledger(ask.query)
        if ask.batch <= known.batch:
            self._end(now_ms, self._open_members(ask))
            self._answer(ask)
            return
        if ask.query not in self._ledgers:
            raise InvalidTransactionState(f"{ask.query!r} has no ledger, and so no members: nothing was committed")
        if len(ask.members) > MAX_MEMBERS:
            raise LimitReached(f"a batch has at most {MAX_MEMBERS} members, not {len(ask.members)}")
        members = [self._member(ask.query, *member) for member in ask.members]
        others = self._others(ask)
        states = [_ended(member, True, now_ms) for member in members]
        states += [rules.fence(other, now_ms) for other in others]
        self._waiting[ask.query] = []
        self._committing[ask.query] = ask.ticket
        self._append(states, replace(known, batch=ask.batch, changed_ms=now_ms))

    def _member(self, query: str, transactional_id: str, producer_id: int, epoch: int) -> Transaction:
        entry = self._machine.entries.get(transactional_id)
        known = entry.current if entry is not None else None
        if entry is None or known is None or _query_of(transactional_id) != query:
            raise InvalidTransactionState(f"{transactional_id!r} is no member of {query!r}")
        if entry.change is not None:
            raise ConcurrentTransactions(f"{transactional_id!r} is just being changed: ask again")
        if known.state != State.ONGOING or (known.producer_id, known.epoch) != (producer_id, epoch):
            raise InvalidTransactionState(
                f"{transactional_id!r} is {known.state.shown} with producer {known.producer_id}, epoch {known.epoch},"
                f" and not under way with {producer_id}, {epoch}: nothing was committed"
            )
        return known

    def _others(self, ask: CommitBatch) -> list[Transaction]:
        """What else of the query is under way."""
        named = {member[0] for member in ask.members}
        found = []
        for transactional_id in self._machine.ongoing:
            if _query_of(transactional_id) == ask.query and transactional_id not in named:
                entry = self._machine.entries[transactional_id]
                if entry.current is not None and entry.change is None:
                    found.append(entry.current)
        return found

    def _abort(self, now_ms: int, ask: AbortBatch) -> None:
        if ask.batch > self.ledger(ask.query).batch:
            self._end(now_ms, self._open_members(ask))
        self._answer(ask)

    def _open_members(self, ask: CommitBatch | AbortBatch) -> list[Transaction]:
        found = []
        for member in ask.members:
            try:
                found.append(self._member(ask.query, *member))
            except HeadraceError:  # ended, or another's: that is all that is wanted
                continue
        return found

    def _end(self, now_ms: int, members: Iterable[Transaction]) -> None:
        self._append([_ended(member, False, now_ms) for member in members], None)

    def _forget(self, now_ms: int, ask: ForgetLedger) -> None:
        machine, known = self._machine, self._ledgers.get(ask.query)
        if known is None:
            raise UnknownLedger(f"no query {ask.query!r} has a ledger here")
        members = self._idle_members(now_ms, ask.query)
        partition = machine.partition_for(ask.query)
        # A number that nobody drew must not keep others from what they draw next. Should this not be appended, it is
        # too high in memory alone, and that only for queries without a ledger.
        floor = self._ledgers.raise_floor(partition, min(known.write_epoch, ask.drawn))
        for entry in members.values():
            entry.die()
        self._waiting[ask.query] = []
        self._forgetting[ask.query] = ask.ticket
        gone = tuple((transactional_id, None) for transactional_id in members)
        machine.out.append(Append(partition, gone, Ledger(NOBODY, floor), ask.query))

    def _idle_members(self, now_ms: int, query: str) -> dict[str, Entry]:
        """All that the query has; raises when one is not."""
        found, beginning = {}, query + SEPARATOR
        for transactional_id, entry in self._machine.entries.items():
            if not transactional_id.startswith(beginning):
                continue
            known = entry.current
            if known is None or entry.change is not None or entry.asks or known.state.is_prepared:
                raise ConcurrentTransactions(f"{transactional_id!r} is just being changed: ask again")
            renewed_ms = max(known.updated_ms, self._renewed_ms[query])
            is_new = known.state == State.EMPTY and now_ms <= renewed_ms + known.timeout_ms
            if is_new or known.state == State.ONGOING:
                raise InvalidTransactionState(
                    f"query {query!r} is being written: {transactional_id!r} is under way; stop the query first, or"
                    f" wait {known.timeout_ms / 1000:g} s if it was killed"
                )
            found[transactional_id] = entry
        return found

    def forget_unused(self, now_ms: int) -> None:
        """What is left of queries that were written once."""
        for query in [query for query in self._ledgers if query.startswith(ONCE)]:
            if query not in self._waiting and now_ms - self._renewed_ms[query] > ONCE_MS:
                self._waiting[query] = []
                self._forgetting[query] = None
                self._machine.out.append(Append(self._machine.partition_for(query), (), forgotten=query))

    # Appending

    def _append(self, states: Sequence[Transaction], ledger: Ledger | None) -> None:
        machine = self._machine
        for state in states:
            entry = machine.entries[state.id]
            entry.change, entry.ticket = state, None
        if states or ledger is not None:
            query = ledger.query if ledger is not None else _query_of(states[0].id)
            named = tuple((state.id, state) for state in states)
            machine.out.append(Append(machine.partition_for(query), named, ledger))

    def appended(self, now_ms: int, ledger: Ledger, error: HeadraceError | None) -> None:
        ticket = self._committing.pop(ledger.query, None)
        waiting = self._waiting.pop(ledger.query, [])
        if error is None:
            self._ledgers.put(ledger)
            self._renewed_ms.setdefault(ledger.query, now_ms)
        if ticket is not None:
            result = (COMMITTED, ledger.batch) if error is None else error
            self._machine.out.append(Answer(ticket, result))
        self._go_on(now_ms, waiting, error)

    def forgotten(self, now_ms: int, query: str, error: HeadraceError | None) -> None:
        ticket, waiting = self._forgetting.pop(query), self._waiting.pop(query)
        known, out = self.ledger(query), self._machine.out
        if error is None:
            self._ledgers.remove(query)
            del self._renewed_ms[query]
        if ticket is not None and error is None:
            out += (Forgotten(known), Answer(ticket, (FORGOTTEN, known.batch)))
        elif ticket is not None and error is not None:
            out.append(Answer(ticket, error))
        self._go_on(now_ms, waiting, error)

    def _go_on(self, now_ms: int, waiting: Iterable[SinkAsk], error: HeadraceError | None) -> None:
        for ask in waiting:
            if error is not None:
                self._machine.refuse(ask.ticket, error)
            else:
                self.ask(now_ms, ask)

    def _wait(self, ask: SinkAsk) -> None:
        waiting = self._waiting[ask.query]
        if len(waiting) >= MAX_MEMBERS:
            self._machine.refuse(ask.ticket, ConcurrentTransactions(f"{ask.query!r} is busy: ask again"))
        else:
            waiting.append(ask)

    def _answer(self, ask: RenewMembers | CommitBatch | AbortBatch) -> None:
        batch = self.ledger(ask.query).batch
        is_there = isinstance(ask, CommitBatch | AbortBatch) and ask.batch <= batch
        self._machine.out.append(Answer(ask.ticket, (COMMITTED if is_there else NOT_COMMITTED, batch)))


def _query_of(transactional_id: str) -> str:
    return transactional_id.partition(SEPARATOR)[0]


def _ended(known: Transaction, commit: bool, now_ms: int) -> Transaction:
    return rules.end(known, known.producer_id, known.epoch, commit, EPOCH_ON_EACH_END, NONE, now_ms)
