"""A producer whose records are written in transactions: all of one are seen by readers of committed records, or none.

    ready -> open -> closing -> committing -> ready          fenced: over, for good
               \\-> spoilt -> aborting -> ready

- A record that is not delivered spoils its transaction: it can only be aborted, and what is still to be sent of it is
  given up. The producer goes on with the next one.
- The end of a transaction is asked for until its outcome is known. When the time for that is over, the program is told
  so, and may ask again for the same end; for the other one it may not.
- Who is fenced (another producer began with the same transactional id) is over.
- Before an abort is asked for, everything on its way has come back: what came after the abort would be of no
  transaction. What was lost on the way cannot slip into the next one: with it the producer gets another epoch.
"""

from __future__ import annotations

import asyncio
from enum import Enum
from typing import TYPE_CHECKING, Final, Self

from headrace.client.asking import Asking
from headrace.client.contents import Content, GivenHeaders
from headrace.client.group_consumer import GroupConsumer
from headrace.client.lane import Batch, Identity, Lane, Promise
from headrace.client.producer import Producer
from headrace.client.producer_options import ProducerOptions
from headrace.client.sinks import Member
from headrace.client.transaction_coordinator import FIRST_PRODUCE, TransactionCoordinator
from headrace.client.values import TopicPartition
from headrace.errors import (
    ClientClosed,
    ConnectionFailed,
    DeliveryFailed,
    HeadraceError,
    IllegalGeneration,
    InvalidTransactionState,
    ProducerFenced,
    RebalanceInProgress,
    RequestTimedOut,
    TransactionAbortable,
    UnknownMember,
    UnknownProducerId,
    UnsupportedByBroker,
)

if TYPE_CHECKING:
    from headrace.client.transaction import Transaction

CLOSE_LIMIT_S: Final = 5.0  # for the abort of what is open; then its coordinator aborts it when its time is over
NAP_S: Final = 0.005  # between looks whether everything on its way is back
_OPEN_ENDED: Final = (RequestTimedOut, ConnectionFailed, ClientClosed)  # after which the outcome is not known
_MOVED: Final = (IllegalGeneration, UnknownMember, RebalanceInProgress)


class Phase(Enum):
    READY = "ready"
    OPEN = "open"
    SPOILT = "spoilt"
    CLOSING = "closing"  # nothing more is taken; what was put is on its way
    COMMITTING = "committing"
    ABORTING = "aborting"
    FENCED = "fenced"


_IN_WORDS: Final = {
    Phase.READY: "no transaction is open; begin one first",
    Phase.OPEN: "a transaction is open already; commit or abort it first",
    Phase.SPOILT: "the transaction is spoilt and can only be aborted",
    Phase.CLOSING: "the transaction is just being committed",
    Phase.COMMITTING: "the commit of the transaction was asked for; commit again until its outcome is known",
    Phase.ABORTING: "the abort of the transaction was asked for; abort again until its outcome is known",
}


class TransactionalProducer(Producer):
    """Made by `client.producer(transactional_id="name")`; use it with `async with`, or `close` it."""

    def __init__(
        self, asking: Asking, options: ProducerOptions, commit_asking: Asking, *, owner: object = None
    ) -> None:
        super().__init__(asking, options, owner=owner)
        assert options.transactional_id is not None
        self.id = options.transactional_id
        self._commit_asking = commit_asking
        self._coordinator = TransactionCoordinator(commit_asking, self.id, options.transaction_timeout)
        self._sender.identifier = self._identify
        self._phase = Phase.READY
        self._why: HeadraceError | None = None  # spoilt or fenced
        self._identity: Identity | None = None
        self._must_init = True  # before the next transaction
        self._is_begun = False  # the coordinator may know of the open transaction
        self._is_ending = False  # its end was asked for, and there is no answer yet
        self._added: set[TopicPartition] = set()
        self._to_add: dict[Lane, None] = {}
        self._adding: asyncio.Task[None] | None = None
        self._placing = 0  # records that are about to be put
        self._placed = asyncio.Event()  # there is none any more

    async def __aenter__(self) -> Self:
        try:
            return await self.start()
        except BaseException:
            await self.close()
            raise

    async def start(self) -> Self:
        """Takes the transactional id: whoever has it is fenced. The first transaction does this by itself."""
        if self._must_init and self._phase is Phase.READY:
            await self._init()
        return self

    def transaction(self) -> Transaction:
        """`async with producer.transaction() as transaction:` commits at the end, and aborts on an exception."""
        from headrace.client.transaction import Transaction

        return Transaction(self)

    @property
    def is_spoilt(self) -> bool:
        return self._phase is Phase.SPOILT

    @property
    def member(self) -> Member:
        """For others that write in the open transaction, as `client.column_producer(member=...)`: to partitions that
        this producer does not write to, and flushed before the end."""
        self._want(Phase.OPEN)
        if not self._coordinator.is_second:
            raise UnsupportedByBroker("only Kafka's second version of transactions lets others write in one")
        assert self._identity is not None
        self._is_begun = True
        return Member(self.id, *self._identity)

    async def begin(self) -> None:
        if self._is_closed:
            raise ClientClosed("the producer is closed")
        self._want(Phase.READY)
        if self._must_init:
            await self._init()
            self._want(Phase.READY)
        self._phase, self._why, self._is_begun = Phase.OPEN, None, False
        self._added.clear()
        for lanes in self._topics.values():
            for lane in lanes.lanes:
                lane.needs_identity = True  # and so `_identify` hears of each that is written to

    async def commit(self) -> None:
        """All that was put is delivered and committed, or this raises, and the transaction can be aborted."""
        if self._phase is not Phase.COMMITTING:
            self._want(Phase.OPEN)
            self._phase = Phase.CLOSING
            try:
                await self._all_placed()
                await self.flush()
            except BaseException:
                if self._phase is Phase.CLOSING:
                    self._phase = Phase.OPEN  # nothing was asked for yet
                raise
            self._want(Phase.CLOSING)
            self._phase = Phase.COMMITTING
        await self._end(commit=True)

    async def abort(self) -> None:
        """Nothing of it is ever seen by readers of committed records."""
        if self._phase is not Phase.ABORTING:
            self._want(Phase.OPEN, Phase.SPOILT)
            self._phase = Phase.ABORTING
        await self._call_back()
        await self._end(commit=False)
        self._failures, self._failed_first = 0, None  # they were of what was aborted

    async def send_positions(self, consumer: GroupConsumer, handed: int | None = None) -> None:
        """The consumer's positions after what it handed out (or the first `handed` of that), as part of the
        transaction: they count when it commits.

        A transaction of a consumer that its group went on without is spoilt (IllegalGeneration).
        """
        self._want(Phase.OPEN)
        if consumer.commits_by_itself:
            raise ValueError("a consumer that commits by itself cannot be part of a transaction: use auto_commit=False")
        assert self._identity is not None
        try:
            given = consumer.standing(len(consumer.handed) if handed is None else handed)
            claim, is_settled = consumer.claim(given), not given
            while not is_settled:
                await consumer.settled(claim)
                who = consumer.membership
                try:
                    self._is_begun = True
                    await self._coordinator.commit_positions(self._identity, who, given)
                    is_settled = True
                except _MOVED:
                    await consumer.settled(claim)
                    if consumer.membership == who or not consumer.holds(claim):
                        raise  # else it was a rebalance that left it its partitions
        except HeadraceError as error:
            self._spoil(error)
            raise

    async def place(
        self,
        promise: Promise,
        topic: str,
        value: Content,
        key: Content,
        headers: GivenHeaders | None,
        partition: int | None,
        timestamp_ms: int | None,
    ) -> None:
        if not self._is_closed:
            self._want(Phase.OPEN)
        self._placing += 1
        try:
            await super().place(promise, topic, value, key, headers, partition, timestamp_ms)
        finally:
            self._placing -= 1
            if not self._placing:
                self._placed.set()

    async def close(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (people look for that word)
        """Aborts what is open. DeliveryFailed: records were put while no transaction was open."""
        if self._is_closed:
            return
        was_open = self._phase is not Phase.READY
        try:
            if self._phase in (Phase.OPEN, Phase.SPOILT):
                async with asyncio.timeout(CLOSE_LIMIT_S if timeout is None else timeout):
                    await self.abort()
        except (TimeoutError, HeadraceError):
            pass  # its coordinator aborts it, when its time is over
        finally:
            self._give_up()
            try:
                await super().close(CLOSE_LIMIT_S if timeout is None else timeout)
            except DeliveryFailed:
                if not was_open:  # else they were of a transaction that came to nothing
                    raise
            finally:
                self._commit_asking.connections.close()

    # Inside

    def _want(self, *phases: Phase) -> None:
        if self._phase in phases:
            return
        if self._phase is Phase.FENCED and self._why is not None:
            raise ProducerFenced(str(self._why)) from self._why
        words = f"transactional id {self.id!r}: {_IN_WORDS[self._phase]}"
        if self._phase is Phase.SPOILT:
            raise TransactionAbortable(f"{words}: {self._why}") from self._why
        raise InvalidTransactionState(words)

    def _spoil(self, error: HeadraceError) -> None:
        if isinstance(error, ProducerFenced):
            self._phase, self._why = Phase.FENCED, error
        elif self._phase in (Phase.OPEN, Phase.CLOSING):
            self._phase, self._why = Phase.SPOILT, error
        else:
            return
        self._loop.call_soon(self._give_up_the_rest)

    async def _init(self) -> None:
        try:
            self._identity = await self._coordinator.init(self._identity)
        except ProducerFenced as error:
            self._spoil(error)
            raise
        self._sender.newest_produce = None if self._coordinator.is_second else FIRST_PRODUCE
        self._must_init = False

    async def _end(self, *, commit: bool) -> None:
        if self._is_ending:
            raise InvalidTransactionState(f"transactional id {self.id!r}: the transaction is just being ended")
        self._is_ending = True
        try:
            if self._is_begun:
                assert self._identity is not None
                limit_s = self._options.delivery_timeout
                self._identity = await self._coordinator.end(self._identity, commit, limit_s)
        except ProducerFenced as error:
            self._spoil(error)
            raise
        except _OPEN_ENDED:
            raise  # it may be asked for again
        except HeadraceError as error:
            # Its coordinator has ended it, or does not know it: not committed, and nothing is left to abort.
            if isinstance(error, UnknownProducerId):
                self._identity = None  # and so forgot who we are
            self._must_init, self._is_begun = True, False
            self._phase = Phase.SPOILT if commit else Phase.READY
            self._why = error
            if commit:
                raise
            return
        finally:
            self._is_ending = False
        self._must_init |= self._is_begun and not (commit or self._coordinator.is_second)
        self._phase = Phase.READY

    async def _all_placed(self) -> None:
        """Those who are about to put have put; nobody else may any more."""
        if self._placing:
            self._placed.clear()
            await self._placed.wait()

    async def _call_back(self) -> None:
        """Gives up what has not left, and waits for what has."""
        self._give_up()
        while self._placing or self._adding is not None or any(lane.in_flight for lane in self._sender.lanes):
            await asyncio.sleep(NAP_S)
            self._give_up()

    def _give_up_the_rest(self) -> None:
        if self._phase in (Phase.SPOILT, Phase.FENCED):  # and no other transaction was begun since
            self._give_up()

    def _give_up(self) -> None:
        error = self._why or TransactionAbortable(f"transactional id {self.id!r}: the transaction was aborted")
        for lane in self._sender.lanes:
            self._sender.give_up(lane, error)

    def _batch_failed(self, lane: Lane, batch: Batch, error: HeadraceError) -> None:
        super()._batch_failed(lane, batch, error)
        self._spoil(error)

    def _lane(self, topic: str, partition: int) -> Lane:
        lane = super()._lane(topic, partition)
        lane.is_transactional = True
        return lane

    def _identify(self, lane: Lane) -> None:
        """The lane's first batch of this transaction wants to leave."""
        if self._phase not in (Phase.OPEN, Phase.CLOSING):
            return
        self._is_begun = True
        if self._coordinator.is_second or TopicPartition(lane.topic, lane.partition) in self._added:
            self._let_go(lane)
            return
        self._to_add[lane] = None
        if self._adding is None:
            self._adding = self._sender.start(self._add())

    def _let_go(self, lane: Lane) -> None:
        assert self._identity is not None
        if lane.identity != self._identity:
            lane.begin(self._identity)
        lane.needs_identity = False
        self._sender.offer(lane)

    async def _add(self) -> None:
        """Partitions to the transaction, all that wait for it at once."""
        try:
            while self._to_add and self._identity is not None:
                lanes, self._to_add = list(self._to_add), {}
                wanted = [TopicPartition(lane.topic, lane.partition) for lane in lanes]
                await self._coordinator.add_partitions(self._identity, wanted)
                self._added.update(wanted)
                for lane in lanes:
                    self._let_go(lane)
        except HeadraceError as error:
            self._to_add = {}
            self._spoil(error)
        finally:
            self._adding = None
