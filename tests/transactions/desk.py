"""The machine of transactions with a log that is a list, partitions that are a set, and time that stands still:
whatever it wants done is done by hand, one thing at a time or all at once, and a restart may come between any two.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from headrace.broker.transactions.events import (
    Add,
    Answer,
    Append,
    Appended,
    Effect,
    End,
    Event,
    Forgotten,
    Init,
    Ledger,
    Loaded,
    Marked,
    NewProducerId,
    ProducerIdGiven,
    Tick,
    TimedOut,
    WriteMarkers,
)
from headrace.broker.transactions.machine import Machine
from headrace.broker.transactions.transaction import NONE, Place, State, Transaction
from headrace.errors import CoordinatorUnavailable, HeadraceError

TIMEOUT_MS = 60_000
PLACES: tuple[Place, ...] = (("t", 0), ("t", 1))


class Desk:
    def __init__(self) -> None:
        self.now_ms = 1_000_000
        self.log: list[tuple[str, Transaction | None]] = []
        self.ledgers: dict[str, Ledger] = {}
        self.markers: list[tuple[Place, int, int, bool]] = []  # place, producer id, epoch, commit
        self.answers: dict[int, Any] = {}
        self.timed_out: list[str] = []
        self.forgotten: list[str] = []  # as the node's log tells
        self.refuse_appends = False
        self._ids = iter(range(1000, 2000))
        self._tickets = 0
        self.machine = Machine(lambda name: 0)
        self.wanted: deque[Effect] = deque()
        self.start()

    # A life

    def start(self) -> None:
        self.machine = Machine(lambda name: 0)
        self.wanted.clear()
        known: dict[str, Transaction] = {}
        for name, state in self.log:
            if state is None:
                known.pop(name, None)
            else:
                known[name] = state
        self.tell(Loaded(0, 7, tuple(known.values()), tuple(self.ledgers.values())))

    def tell(self, event: Event) -> None:
        self.wanted += self.machine.step(self.now_ms, event)

    def do_one(self) -> None:
        effect = self.wanted.popleft()
        match effect:
            case Answer(ticket, result):
                assert ticket not in self.answers, "answered twice"
                self.answers[ticket] = result
            case Append(_, states, ledger, forgotten):
                ids = tuple(name for name, _ in states)
                if self.refuse_appends:
                    self.tell(Appended(ids, CoordinatorUnavailable("the disk is full"), ledger, forgotten))
                else:
                    self.log += states
                    if ledger is not None:
                        self.ledgers[ledger.query] = ledger
                    if forgotten is not None:
                        del self.ledgers[forgotten]
                    self.tell(Appended(ids, None, ledger, forgotten))
            case WriteMarkers(transaction, _, places):
                for place in places:
                    self.markers.append((place, transaction.producer_id, transaction.epoch, transaction.is_commit))
                    self.tell(Marked(transaction.id, place))
            case NewProducerId(name):
                self.tell(ProducerIdGiven(name, next(self._ids)))
            case TimedOut(transaction):
                self.timed_out.append(transaction.id)
            case Forgotten(ledger):
                self.forgotten.append(ledger.query)

    def settle(self) -> None:
        while self.wanted:
            self.do_one()

    def tick(self, after_ms: int = 0) -> None:
        self.now_ms += after_ms
        self.tell(Tick())
        self.settle()

    # What clients ask

    def _ticket(self) -> int:
        self._tickets += 1
        return self._tickets

    def ask(self, kind: Any, *fields: Any) -> int:
        ticket = self._ticket()
        self.tell(kind(ticket, *fields))
        return ticket

    def init(self, producer_id: int = NONE, epoch: int = NONE, timeout_ms: int = TIMEOUT_MS) -> tuple[int, int]:
        return self._told(self.ask(Init, "x", timeout_ms, producer_id, epoch))

    def add(self, producer: tuple[int, int], places: tuple[Place, ...] = PLACES, version: int = 0) -> None:
        self._told(self.ask(Add, "x", *producer, places, version))

    def end(self, producer: tuple[int, int], commit: bool = True, version: int = 0) -> tuple[int, int]:
        return self._told(self.ask(End, "x", *producer, commit, version))

    def _told(self, ticket: int) -> tuple[int, int]:
        self.settle()
        answer = self.answers.get(ticket)
        assert answer is not None, "nobody answered"
        if isinstance(answer, HeadraceError):
            raise answer
        found: tuple[int, int] = answer
        return found

    @property
    def known(self) -> Transaction:
        found = self.machine.get("x")
        assert found is not None
        return found

    @property
    def states(self) -> list[State | None]:
        return [None if state is None else state.state for _, state in self.log]
