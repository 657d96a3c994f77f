"""Ledgers in the simulated world: clients that open queries, commit batches and have ledgers forgotten; the promises.

- A batch whose commit was answered is in its ledger. A ledger whose forgetting was answered is not there.
- What was asked for and not answered has happened as a whole, or not at all.
- Of a query that was forgotten, no write that is as old opens anything.

A query whose last answer did not come is left as it is, and told of by what it was before and would have been after:
what was sent may still arrive when another connection has long gone on.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from headrace.testing.history import Violation
from headrace.testing.kafka import Broken, KafkaClient, Refused
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.machine import SimulatedMachine
from headrace.testing.simulation import HOST, PORT, RECOVERY_S, Options, Simulation
from headrace.testing.workload import BACKOFF_S, Target
from headrace.wire.kafka import sink
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.sink import Action, SinkRequest, SinkResponse

ABSENT = -2  # no ledger; -1 is one without a batch
TIMEOUT_MS = 1  # of members that nobody uses
NOT_DONE = (Code.CONCURRENT_TRANSACTIONS, Code.COORDINATOR_LOAD_IN_PROGRESS, Code.INVALID_TXN_STATE)


@dataclass(eq=False)
class Query:
    name: str
    batch: int = ABSENT  # as it was last answered
    write: int = -1
    asked: int | None = None  # what it would be, had the last answer come

    @property
    def possible(self) -> set[int]:
        return {self.batch} if self.asked is None else {self.batch, self.asked}


@dataclass
class Book:
    queries: list[Query] = field(default_factory=list)
    forgotten: int = 0


class Client(KafkaClient):
    async def sink(self, *fields: Any) -> SinkResponse:
        question = sink.encode_request(1, self._next_id, self.name, SinkRequest(*fields))
        reader = await self.answer(self._send(sink.SINK, 1, [question]))
        answer = sink.decode_response(reader.buffer, reader.at, len(reader.buffer), 1)
        if answer.error == Code.UNKNOWN_SERVER_ERROR:
            raise Violation(f"a fault: {answer.message}")
        if answer.error:
            raise Refused(fields[0].name, answer.error)
        return answer


class Keeper:
    def __init__(self, name: str, target: Target, book: Book, rng: random.Random) -> None:
        self.name, self.target, self.book, self._random = name, target, book, rng
        self.stopping = False
        self._queries: list[Query] = []
        self._count = 0

    async def run(self) -> None:
        while not self.stopping:
            try:
                client = await Client.connect(self.target.host, self.target.port, self.name, self._random)
                assert isinstance(client, Client)
                try:
                    while not self.stopping:
                        await self._step(client)
                finally:
                    client.close()
            except (Broken, Refused) as error:
                self.target.trace.add("client", f"{self.name} tries again: {type(error).__name__} {error}")
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))

    async def _step(self, client: Client) -> None:
        if len(self._queries) < 4:
            await self._begin(client)
            return
        query = self._random.choice(self._queries)
        if query.batch != ABSENT and self._random.random() < 0.4:
            await self._ask(client, query, ABSENT, Action.FORGET, query.name)
            self.book.forgotten += query.batch == ABSENT
        elif query.batch == ABSENT:
            self._queries.remove(query)  # it does not come again, so that the audit may look for it
        else:
            await self._ask(client, query, query.batch + 1, Action.COMMIT, query.name, query.batch + 1)
        await asyncio.sleep(self._random.choice((0.002, 0.05)))

    async def _begin(self, client: Client) -> None:
        write = (await client.sink(Action.DRAW)).first
        self._count += 1
        query = Query(f"{self.name}:{self._count}", write=write)
        self.book.queries.append(query)
        self._queries.append(query)
        await self._ask(client, query, -1, Action.OPEN, query.name, write, "0", TIMEOUT_MS)
        if query.batch == ABSENT:
            self._queries.remove(query)

    async def _ask(self, client: Client, query: Query, then: int, *fields: Any) -> None:
        query.asked = then
        try:
            await client.sink(*fields)
        except (Broken, Refused) as error:
            if isinstance(error, Refused) and error.code in NOT_DONE:
                query.asked = None
                return
            self._queries.remove(query)
            raise
        query.batch, query.asked = then, None
        self.target.trace.add("ack", f"{query.name} {then}")


class Keeping(Simulation):
    """The same life and the same faults, with other clients and another checker."""

    def __init__(self, seed: int, loop: SimulatedLoop, machine: Any, options: Options) -> None:
        super().__init__(seed, loop, machine, options)
        self.book = Book()
        names = [f"k{number}" for number in range(options.producers)]
        keepers = [Keeper(name, self.target, self.book, loop.random_for(name)) for name in names]
        self.producers, self.consumers = keepers, []  # type: ignore[assignment]
        self.clients = [*self.producers, self.admin]

    async def _audit(self) -> None:
        await self._spawn("auditor", self._look())

    async def _look(self) -> None:
        deadline = self.loop.time() + RECOVERY_S
        while True:
            try:
                client = await Client.connect(HOST, PORT, "auditor", self.random)
                assert isinstance(client, Client)
                try:
                    await self._check(client)
                    return
                finally:
                    client.close()
            except (Broken, Refused) as error:
                if self.loop.time() > deadline:
                    raise Violation(f"long after all faults the ledgers do not read: {error}") from error
                await asyncio.sleep(0.2)

    async def _check(self, client: Client) -> None:
        found: dict[str, int] = {}
        after, has_more = "", True
        while has_more:
            page = await client.sink(Action.LIST, after)
            found.update((entry.query, entry.batch) for entry in page.ledgers)
            after, has_more = (page.ledgers[-1].query if page.ledgers else ""), bool(page.first)
        for query in self.book.queries:
            batch = found.pop(query.name, ABSENT)
            if batch not in query.possible:
                raise Violation(f"the ledger of {query.name} is {batch}, where {query.possible} could be")
            if query.possible == {ABSENT}:
                await self._check_fenced(client, query)
        if found:
            raise Violation(f"nobody asked for {', '.join(found)}")

    async def _check_fenced(self, client: Client, query: Query) -> None:
        try:
            await client.sink(Action.OPEN, query.name, query.write, "0", TIMEOUT_MS)
        except Refused as error:
            if error.code == Code.PRODUCER_FENCED:
                return
            raise
        raise Violation(f"{query.name} was forgotten, and write {query.write} of it came back")


def run(seed: int, options: Options) -> Book:
    """One run. A broken promise raises."""
    with simulated_loop(seed, permute=True) as loop:
        simulation = Keeping(seed, loop, SimulatedMachine(loop), options)
        loop.run_until_complete(simulation.main())
        return simulation.book
