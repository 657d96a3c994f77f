"""Several transactions committed as one: the client's side of the private request of a streaming sink (our broker only;
docs/transactions.md says what each action does and why both ends may repeat it); and the ledgers of all queries, for
those who look after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from headrace.client.apis import LEDGERS, SINK
from headrace.client.coordinators import MOVING, TRANSACTION, Coordinated
from headrace.client.group_values import Ledger
from headrace.client.refusals import error_of
from headrace.client.settings import Settings
from headrace.errors import UnknownLedger, UnknownTransactionalId, UnsupportedByBroker
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.sink import Action, LedgerEntry, SinkRequest, SinkResponse

SEPARATOR = "#"
OURS = "headrace."  # how the names of settings begin that no other broker has
PASSING = MOVING | {int(Code.CONCURRENT_TRANSACTIONS)}


class Member(NamedTuple):
    """A transaction that is open: who writes with these numbers writes in it."""

    transactional_id: str
    producer_id: int
    epoch: int


class Sinks(Coordinated):
    """The part of Admin that is about sinks."""

    async def has_sinks(self) -> bool:
        """Is the broker one of ours? Its settings tell: the request itself is not advertised, and another broker would
        answer it by closing the connection."""
        node = (await self._asking.metadata.cluster_now()).nodes[0]
        found = await Settings(self._asking).describe("broker", str(node.id))
        return any(setting.name.startswith(OURS) for setting in found)

    async def draw_write(self) -> int:
        """A number for a write, higher than every one before."""
        answer = await self._asking.any(SINK, SinkRequest(Action.DRAW))
        return _checked(answer, "a number for a write").first

    async def open_member(self, query: str, write: int, task: str, timeout_ms: int) -> Member:
        """Refused with ProducerFenced when a newer write of the query was seen."""
        answer = await self._ask(SinkRequest(Action.OPEN, query, write, task, timeout_ms))
        assert answer.transactional_id is not None
        return Member(answer.transactional_id, answer.first, answer.second)

    async def renew_members(self, query: str, write: int) -> None:
        await self._ask(SinkRequest(Action.RENEW, query, write))

    async def commit_batch(self, query: str, batch: int, members: Sequence[Member]) -> int:
        """All of them, or none; asked again until there is an answer. The ledger's last batch."""
        return (await self._ask(SinkRequest(Action.COMMIT, query, batch, members=members))).second

    async def abort_batch(self, query: str, batch: int, members: Sequence[Member]) -> bool:
        """Unless the batch is in the ledger, which is what is told."""
        return bool((await self._ask(SinkRequest(Action.ABORT, query, batch, members=members))).first)

    async def ledgers(self) -> list[Ledger]:
        """Of all nodes, in the order of their queries' names."""
        await self._check_ours()
        found: dict[str, Ledger] = {}
        for node in (await self._asking.metadata.cluster_now()).nodes:
            after, has_more = "", True
            while has_more:
                answer = await self._coordinators.ask_node(
                    node.id, LEDGERS, SinkRequest(Action.LIST, after), lambda told: told.error
                )
                told = _checked(answer, f"the ledgers of node {node.id}").ledgers
                found.update((one.query, _ledger(one, node.id)) for one in told)
                has_more = bool(answer.first and told)
                after = told[-1].query if told else after
        return [found[query] for query in sorted(found)]

    async def forget_ledger(self, query: str) -> int | None:
        """For a query that nothing writes any more: one that goes on afterwards may write its last batch a second
        time. The last batch that was in the ledger; UnknownLedger when there is none, InvalidTransactionState while
        the query is being written."""
        await self._check_ours()
        request = SinkRequest(Action.FORGET, query)
        _, answer = await self._coordinators.ask(
            TRANSACTION, query + SEPARATOR, LEDGERS, request, _codes, changes=True, passing=PASSING
        )
        try:
            return _or_none(_checked(answer, f"query {query!r}").second)
        except UnknownTransactionalId as error:
            raise UnknownLedger(answer.message or str(error)) from None

    async def _check_ours(self) -> None:
        if not await self.has_sinks():
            raise UnsupportedByBroker("a broker that is not a Headrace has no ledgers of streaming queries")

    async def _ask(self, request: SinkRequest) -> SinkResponse:
        name = request.query + SEPARATOR
        _, answer = await self._coordinators.ask(TRANSACTION, name, SINK, request, _codes, passing=PASSING)
        return _checked(answer, f"query {request.query!r}")


def _codes(answer: SinkResponse) -> list[int]:
    return [answer.error]


def _checked(answer: SinkResponse, what: str) -> SinkResponse:
    if answer.error:
        raise error_of(answer.error, what, answer.message)
    return answer


def _ledger(told: LedgerEntry, node_id: int) -> Ledger:
    return Ledger(told.query, _or_none(told.batch), told.write, _or_none(told.changed_ms), told.open_members, node_id)


def _or_none(number: int) -> int | None:
    return number if number >= 0 else None
