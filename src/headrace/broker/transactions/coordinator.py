"""The coordinator of transactions: drives the machine over the state topic and the partitions.

- What is asked while a partition of the state topic is being read waits for it a moment, then is told to come again.
- A transactional id belongs to the partition of the state topic that the text before its first `#` hashes to: who
  wants several ids under one coordinator begins them alike.
- A marker is written again and again until it is synced, or its topic is gone. A partition that has heard of a newer
  epoch needs none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.broker.state_topic import Entry, StateTopic
from headrace.broker.transactions.events import (
    SEPARATOR,
    Add,
    Answer,
    Append,
    Appended,
    Ask,
    Effect,
    End,
    Event,
    ForgetLedger,
    Forgotten,
    Init,
    Ledger,
    Loaded,
    Marked,
    NewProducerId,
    ProducerIdGiven,
    SinkAsk,
    Tick,
    TimedOut,
    WriteMarkers,
)
from headrace.broker.transactions.ledgers import Page
from headrace.broker.transactions.machine import Machine
from headrace.broker.transactions.marking import mark
from headrace.broker.transactions.records import (
    decode_key,
    decode_ledger,
    decode_value,
    encode_key,
    encode_ledger,
    encode_value,
    ledger_key,
)
from headrace.broker.transactions.transaction import NONE, Place, Transaction
from headrace.errors import CoordinatorLoading, CoordinatorUnavailable, HeadraceError
from headrace.ports import Promise

if TYPE_CHECKING:
    from headrace.broker.broker import Broker

TOPIC = "__transaction_state"
SEGMENT_BYTES = str(100 << 20)  # as in Kafka: what is compacted at a time
LOAD_WAIT_S = 1.0  # what a request waits for the state to be read

Result = tuple[int, int] | HeadraceError


class TransactionCoordinator:
    def __init__(self, broker: Broker) -> None:
        settings = broker.settings
        self._broker = broker
        self.state_topic = StateTopic(broker, TOPIC, settings.transaction_partitions, {"segment.bytes": SEGMENT_BYTES})
        self.machine = Machine(
            self.partition_for, settings.transaction_max_timeout_ms, settings.transactional_id_expiry_ms
        )
        self._results: dict[int, Result | None] = {}
        self._promises: dict[int, Promise[None]] = {}
        self._next_ticket = 0
        self._loading: dict[int, list[Promise[None]]] = {}
        self._is_started = False  # doors are open before
        self._left: list[int] = []  # partitions that the start has yet to read

    def partition_for(self, transactional_id: str) -> int:
        return self.state_topic.partition_for(transactional_id.partition(SEPARATOR)[0])

    # What clients ask

    async def init(
        self, transactional_id: str, timeout_ms: int, producer_id: int = NONE, epoch: int = NONE
    ) -> tuple[int, int]:
        """A producer begins: its id and epoch."""
        await self.ready(transactional_id)
        return await self._ask(Init(self._ticket(), transactional_id, timeout_ms, producer_id, epoch))

    async def add(
        self, transactional_id: str, producer_id: int, epoch: int, places: Sequence[Place], version: int = 0
    ) -> None:
        await self.ready(transactional_id)
        await self._ask(Add(self._ticket(), transactional_id, producer_id, epoch, places, version))

    async def end(
        self, transactional_id: str, producer_id: int, epoch: int, commit: bool, version: int = 0
    ) -> tuple[int, int]:
        """What the producer goes on with."""
        await self.ready(transactional_id)
        return await self._ask(End(self._ticket(), transactional_id, producer_id, epoch, commit, version))

    async def forget_ledger(self, query: str) -> int:
        """When this returns it is gone for good; the last batch that was in it."""
        drawn = await self._broker.new_producer_id()
        return (await self.ask_sink(ForgetLedger, query, drawn))[1]

    @property
    def ledger_count(self) -> int:
        return len(self.machine.sinks)

    def ledgers(self, after: str) -> Page:
        """In the order of names, those that come after this one."""
        self._check_all_loaded()
        return self.machine.sinks.page(after)

    async def ask_sink(self, kind: type[SinkAsk], query: str, *fields: Any) -> tuple[int, int]:
        """What a query's tasks and its driver ask."""
        await self.ready(query)
        return await self._ask(kind(self._ticket(), query, *fields))

    def verify(self, transactional_id: str, producer_id: int, epoch: int, place: Place) -> None:
        """Raises unless the partition is part of that producer's transaction. At once: the state has to be there."""
        self._check_loaded(transactional_id)
        self.machine.verify(transactional_id, producer_id, epoch, place)

    def get(self, transactional_id: str) -> Transaction | None:
        self._check_loaded(transactional_id)
        return self.machine.get(transactional_id)

    def transactions(self) -> Iterable[Transaction]:
        self._check_all_loaded()
        return self.machine.transactions()

    def _check_all_loaded(self) -> None:
        if not self._is_started or self._left or self._loading:
            raise CoordinatorLoading("the transactions are still being read: ask again")

    async def ready(self, transactional_id: str) -> None:
        """The state of this id is there."""
        partition = self.partition_for(transactional_id)
        if self.machine.is_loaded(partition):
            return
        if self.state_topic.topic is None:  # nothing was ever written: nothing is to be read
            self._step(Loaded(partition, 0, ()))
            return
        promise = self._broker.new_promise()
        if partition in self._loading:
            self._loading[partition].append(promise)
        else:
            self._loading[partition] = [promise]
            self._load(partition)
        self._broker.timers.after(LOAD_WAIT_S, lambda: None if promise.done() else promise.set_result(None))
        await promise
        self._check_loaded(transactional_id)

    def _check_loaded(self, transactional_id: str) -> None:
        partition = self.partition_for(transactional_id)
        if not self.machine.is_loaded(partition):
            if self.state_topic.topic is not None:
                raise CoordinatorLoading(f"the state of {transactional_id!r} is still being read: ask again")
            self._step(Loaded(partition, 0, ()))

    # Time

    def start(self) -> None:
        """Reads all that is there, one partition after the other, and ends what was being ended."""
        self._is_started = True
        topic = self.state_topic.topic
        self._left = list(range(len(topic.partitions))) if topic is not None else []
        self._load_next()

    def tick(self) -> None:
        self._step(Tick())

    # Loading

    def _load_next(self) -> None:
        while self._left:
            partition = self._left.pop(0)
            if not self.machine.is_loaded(partition) and partition not in self._loading:
                self._loading[partition] = []
                self._load(partition)
                return

    def _load(self, partition: int) -> None:
        found: dict[str, Transaction] = {}
        ledgers: dict[str, Ledger] = {}

        def apply(key: bytes, value: bytes | None, _: int) -> None:
            transactional_id = decode_key(key)
            if transactional_id is None:
                match decode_ledger(key, value):
                    case Ledger() as ledger:
                        ledgers[ledger.query] = ledger
                    case str(query):
                        ledgers.pop(query, None)
            elif value is None:
                found.pop(transactional_id, None)
            else:
                found[transactional_id] = decode_value(transactional_id, value)

        self.state_topic.load(partition, apply, lambda error: self._loaded(partition, found, ledgers, error))

    def _loaded(
        self, partition: int, found: dict[str, Transaction], ledgers: dict[str, Ledger], error: HeadraceError | None
    ) -> None:
        waiting = self._loading.pop(partition, [])
        topic = self.state_topic.topic
        if error is None and topic is not None:
            epoch = topic.partitions[partition].leader_epoch
            self._step(Loaded(partition, epoch, tuple(found.values()), tuple(ledgers.values())))
        elif error is not None:
            self._broker.on_event("transaction.not-loaded", {"partition": partition, "error": str(error)})
            self._left.append(partition)
        for promise in waiting:
            if not promise.done():
                promise.set_result(None)
        if error is None:
            self._load_next()
        else:
            self._broker.timers.after(LOAD_WAIT_S, self._load_next)

    # The machine

    def _ticket(self) -> int:
        self._next_ticket += 1
        return self._next_ticket

    async def _ask(self, ask: Ask | SinkAsk) -> tuple[int, int]:
        self._results[ask.ticket] = None
        try:
            self._step(ask)
            if self._results[ask.ticket] is None:
                self._promises[ask.ticket] = promise = self._broker.new_promise()
                await promise
            result = self._results[ask.ticket]
        finally:
            self._results.pop(ask.ticket, None)
            self._promises.pop(ask.ticket, None)
        assert result is not None
        if isinstance(result, HeadraceError):
            raise result
        return result

    def _step(self, event: Event) -> None:
        for effect in self.machine.step(self._broker.clock.now_ms(), event):
            self._do(effect)

    def _do(self, effect: Effect) -> None:
        broker = self._broker
        match effect:
            case Answer(ticket=ticket, result=result):
                if ticket in self._results:  # else who asked has gone
                    self._results[ticket] = result
                    promise = self._promises.get(ticket)
                    if promise is not None and not promise.done():
                        promise.set_result(None)
            case Append(partition=partition, states=states, ledger=ledger, forgotten=forgotten):
                records: list[Entry] = [
                    (encode_key(name), None if state is None else encode_value(state)) for name, state in states
                ]
                if ledger is not None:
                    records.append(encode_ledger(ledger))
                if forgotten is not None:
                    records.append((ledger_key(forgotten), None))
                ids = tuple(name for name, _ in states)
                self.state_topic.append(partition, records, partial(self._appended, ids, ledger, forgotten))
            case WriteMarkers():
                for place in effect.places:
                    mark(broker, effect, place, partial(self._marked, effect.transaction.id, place))
            case NewProducerId(id=transactional_id):
                broker.producer_ids.next(partial(self._given, transactional_id))
            case Forgotten(ledger=ledger):
                broker.on_event("transaction.ledger-forgotten", {"query": ledger.query, "batch": ledger.batch})
            case TimedOut(transaction=transaction):
                broker.on_event(
                    "transaction.timed-out",
                    {
                        "transactional_id": transaction.id,
                        "producer_id": transaction.producer_id,
                        "timeout_ms": transaction.timeout_ms,
                    },
                )

    def _appended(
        self, ids: tuple[str, ...], ledger: Ledger | None, forgotten: str | None, error: HeadraceError | None
    ) -> None:
        if error is not None:
            error = CoordinatorUnavailable(f"the state of transactions cannot be written: {error}")
        self._step(Appended(ids, error, ledger, forgotten))

    def _marked(self, transactional_id: str, place: Place) -> None:
        self._step(Marked(transactional_id, place))

    def _given(self, transactional_id: str, producer_id: int, error: HeadraceError | None) -> None:
        self._step(ProducerIdGiven(transactional_id, producer_id, error))
