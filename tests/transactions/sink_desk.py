"""The desk for streaming sinks: queries that have members, and ledgers."""

from __future__ import annotations

from headrace.broker.transactions.events import Add, CommitBatch, ForgetLedger, OpenMember
from headrace.broker.transactions.transaction import State
from tests.transactions.desk import PLACES, Desk

DRAWN = 1 << 40  # a number for a write that is higher than all that tests use

Q, TIMEOUT_MS = "spark:q", 60_000
Member = tuple[str, int, int]


class SinkDesk(Desk):
    def told(self, ticket: int) -> tuple[int, int]:
        return self._told(ticket)

    def member(self, task: str, write: int = 1, query: str = Q) -> Member:
        producer = self.told(self.ask(OpenMember, query, write, task, TIMEOUT_MS))
        name = f"{query}#{task}"
        self.told(self.ask(Add, name, *producer, PLACES, 2))
        return (name, *producer)

    def commit(self, batch: int, *members: Member) -> tuple[int, int]:
        return self.told(self.ask(CommitBatch, Q, batch, members))

    def forget(self, query: str = Q, drawn: int = DRAWN) -> tuple[int, int]:
        return self.told(self.ask(ForgetLedger, query, drawn))

    def state(self, member: Member) -> State:
        found = self.machine.get(member[0])
        assert found is not None
        return found.state
