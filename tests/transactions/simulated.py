"""Transactions in the simulated world: producers whose transactions stand in several partitions, readers of what is
committed, and the promises.

- A transaction whose commit was answered is there: every value, in every partition. One whose abort was answered is not
  there at all. Of the others all is there or nothing.
- Nothing that a reader of committed records was ever given is anything but committed.
- The values of one producer stand in their order, each once.
- When all faults and time-outs are over, nothing hangs: everything is stable.

Two producers may fight for one transactional id: the one that begins later fences the other.
"""

from __future__ import annotations

import asyncio
import random
import struct
from dataclasses import dataclass, field
from typing import Any

from headrace.records import codec
from headrace.records.record import Record
from headrace.testing.history import Violation
from headrace.testing.kafka import EARLIEST, LATEST, Broken, KafkaClient, Refused
from headrace.testing.loop import SimulatedLoop, simulated_loop
from headrace.testing.machine import SimulatedMachine
from headrace.testing.simulation import HOST, PORT, Options, Simulation
from headrace.testing.workload import BACKOFF_S, WALL_MS, Target
from headrace.wire.kafka import fetch_client, header, init_producer_id, produce_client
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.primitives import array, string

TIMEOUT_MS = 3_000
SETTLED_S = 60.0  # after the last fault: every transaction that was left has timed out, whatever the clock did
FETCH_VERSION, READ_COMMITTED, MAX_BYTES = 12, 1, 1 << 20
UNKNOWN, COMMITTED, ABORTED = "unknown", "committed", "aborted"
NEVER = (Code.UNKNOWN_SERVER_ERROR, Code.CORRUPT_MESSAGE, Code.UNKNOWN_TOPIC_OR_PARTITION)


@dataclass(eq=False)
class Transaction:
    name: str
    values: dict[int, list[bytes]] = field(default_factory=dict)  # by partition
    outcome: str = UNKNOWN


@dataclass
class Book:
    """What clients did, and what readers saw."""

    transactions: list[Transaction] = field(default_factory=list)
    seen: dict[bytes, int] = field(default_factory=dict)  # a value that was read as committed, and its partition


class Client(KafkaClient):
    """With the requests of transactions."""

    async def init(self, transactional_id: str, known: tuple[int, int] | None) -> tuple[int, int]:
        request = init_producer_id.InitProducerIdRequest(transactional_id, TIMEOUT_MS, *(known or (-1, -1)))
        question = init_producer_id.encode_request(5, self._next_id, self.name, request)
        reader = await self.answer(self._send(header.INIT_PRODUCER_ID, 5, [question]))
        answer = init_producer_id.decode_response(reader.buffer, reader.at, len(reader.buffer), 5)
        _check("init", answer.error)
        return answer.producer_id, answer.producer_epoch

    async def add(self, transactional_id: str, producer: tuple[int, int], topic: str, partition: int) -> None:
        body = string(transactional_id, False) + struct.pack(">qh", *producer)
        body += array(1, False) + string(topic, False) + array(1, False) + struct.pack(">i", partition)
        reader = await self._ask(header.ADD_PARTITIONS_TO_TXN, 2, body)
        reader.int32()
        assert len(reader.array()) == 1 and reader.string() == topic and len(reader.array()) == 1
        reader.int32()
        _check("add", reader.int16())

    async def end(
        self, transactional_id: str, producer: tuple[int, int], commit: bool, raises: bool
    ) -> tuple[int, int]:
        version = 5 if raises else 2
        body = string(transactional_id, raises) + struct.pack(">qhb", *producer, commit) + (b"\0" if raises else b"")
        reader = await self._ask(header.END_TXN, version, body)
        reader.int32()
        _check("end", reader.int16())
        return (reader.int64(), reader.int16()) if raises else producer

    async def write(self, transactional_id: str, topic: str, partition: int, batch: bytearray) -> None:
        topics = [(topic, None, [(partition, batch)])]
        pieces = produce_client.encode_request(
            self.produce_version, self._next_id, self.name, transactional_id, -1, 5000, topics
        )
        result = await self.produced(self._send(header.PRODUCE, self.produce_version, pieces))
        _check("write", result.error)

    async def read(self, topic: str, partition: int, offset: int) -> FetchedPartition:
        asked = FetchPartition(partition, -1, offset, -1, -1, MAX_BYTES)
        request = FetchRequest(
            max_wait_ms=300, min_bytes=1, isolation_level=READ_COMMITTED, topics=[FetchTopic(topic, None, [asked])]
        )
        question = fetch_client.encode_request(FETCH_VERSION, self._next_id, self.name, request)
        reader = await self.answer(self._send(header.FETCH, FETCH_VERSION, [question]))
        answer = fetch_client.decode_response(reader.buffer, reader.at, len(reader.buffer), FETCH_VERSION)
        return answer.topics[0].partitions[0]


def _check(what: str, code: int) -> None:
    if code in NEVER:
        raise Violation(f"{what}: {Code(code).name}, and nothing happened that could be the reason")
    if code:
        raise Refused(what, code)


def committed(part: FetchedPartition, position: int) -> tuple[list[tuple[int, bytes]], int]:
    """What a client gives its user of an answer, and where it reads on."""
    waiting = sorted(part.aborted or (), key=lambda one: one[1])
    skipped: set[int] = set()
    found: list[tuple[int, bytes]] = []
    for piece in part.pieces or ():
        for head, body in codec.split(piece):
            while waiting and waiting[0][1] <= head.last_offset:
                skipped.add(waiting.pop(0)[0])
            if head.is_control:
                skipped.discard(head.producer_id)
            elif head.producer_id not in skipped:
                whole = codec.kernel.decode_records(
                    codec.records_bytes(head, body), head.record_count, head.base_offset, head.base_timestamp, None
                )
                found += [(one.offset, bytes(one.value or b"")) for one in whole if one.offset >= position]
            position = max(position, head.next_offset)
    return found, position


class Producer:
    def __init__(self, name: str, transactional_id: str, target: Target, book: Book, rng: random.Random) -> None:
        self.name, self.id, self.target, self.book, self._random = name, transactional_id, target, book, rng
        self.raises = rng.random() < 0.6  # speaks transactions of version 2
        self.stopping = False
        self._producer: tuple[int, int] | None = None
        self._sequences: dict[int, int] = {}
        self._count = self._values = 0

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._connected()
            except (Broken, Refused) as error:
                self.target.trace.add("client", f"{self.name} tries again: {type(error).__name__} {error}")
                if isinstance(error, Refused) and self._random.random() < 0.7:
                    self._producer = None  # fenced, maybe: as one that begins
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))

    async def _connected(self) -> None:
        client = await Client.connect(self.target.host, self.target.port, self.name, self._random)
        assert isinstance(client, Client)
        client.produce_version = 12 if self.raises else 9
        try:
            known = self._producer if self._random.random() < 0.5 else None
            self._go_on(await client.init(self.id, known))
            while not self.stopping:
                await self._transaction(client)
        finally:
            client.close()

    def _go_on(self, producer: tuple[int, int]) -> None:
        if producer != self._producer:
            self._producer, self._sequences = producer, {}

    async def _transaction(self, client: Client) -> None:
        self._count += 1
        transaction = Transaction(f"{self.name}.{self._count}")
        self.book.transactions.append(transaction)
        for _ in range(self._random.randint(1, 4)):
            await self._write(client, transaction, self._random.randrange(self.target.partitions))
            if self._random.random() < 0.2:
                await asyncio.sleep(self._random.choice((0.01, 0.2)))
        chance = self._random.random()
        if chance < 0.05:
            raise Broken("left open on purpose")
        if chance < 0.08:
            await asyncio.sleep(2 * TIMEOUT_MS / 1000)
        commit = self._random.random() < 0.7
        assert self._producer is not None
        given = await client.end(self.id, self._producer, commit, self.raises)
        self.target.trace.add("ack", f"{transaction.name} {'commit' if commit else 'abort'}")
        transaction.outcome = COMMITTED if commit else ABORTED
        self._go_on(given)

    async def _write(self, client: Client, transaction: Transaction, partition: int) -> None:
        assert self._producer is not None
        topic = self.target.topic
        if not self.raises and partition not in transaction.values:
            await client.add(self.id, self._producer, topic, partition)
        values = []
        for _ in range(self._random.choice((1, 1, 3))):
            self._values += 1
            values.append(f"{self.name} {self._values:06d}".encode())
        transaction.values.setdefault(partition, []).extend(values)
        sequence = self._sequences.get(partition, 0)
        writer = codec.Producer(*self._producer, sequence)
        batch = codec.encode(
            [Record(b"k", value, (), WALL_MS) for value in values],
            codec.BatchOptions(producer=writer, is_transactional=True),
        )
        await client.write(self.id, topic, partition, batch)
        self._sequences[partition] = sequence + len(values)


class Reader:
    def __init__(self, name: str, target: Target, book: Book, rng: random.Random) -> None:
        self.name, self.target, self.book, self._random = name, target, book, rng
        self.stopping = False
        self._positions = dict.fromkeys(range(target.partitions), 0)

    async def run(self) -> None:
        while not self.stopping:
            try:
                client = await Client.connect(self.target.host, self.target.port, self.name, self._random)
                assert isinstance(client, Client)
                try:
                    while not self.stopping:
                        await self._read(client, self._random.randrange(self.target.partitions))
                finally:
                    client.close()
            except (Broken, Refused) as error:
                self.target.trace.add("client", f"{self.name} tries again: {type(error).__name__} {error}")
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))

    async def _read(self, client: Client, partition: int) -> None:
        part = await client.read(self.target.topic, partition, self._positions[partition])
        if part.error == Code.OFFSET_OUT_OF_RANGE:  # an unsynced marker, or the end of what nobody was promised
            self._positions[partition] = 0
            return
        _check("read", part.error)
        found, self._positions[partition] = committed(part, self._positions[partition])
        for _, value in found:
            self.book.seen[value] = partition


class Transacting(Simulation):
    """The same life and the same faults, with other clients and another checker."""

    def __init__(self, seed: int, loop: SimulatedLoop, machine: Any, options: Options) -> None:
        super().__init__(seed, loop, machine, options)
        self.book = Book()
        self.producers = []
        for number in range(options.producers):
            name, owner = f"p{number}", self.random.choice((number, number, 0))
            self.producers.append(Producer(name, f"x{owner}", self.target, self.book, loop.random_for(name)))  # type: ignore[arg-type]
        self.consumers = [Reader("r0", self.target, self.book, loop.random_for("r0"))]  # type: ignore[list-item]
        self.clients = [*self.producers, self.admin, *self.consumers]

    async def _audit(self) -> None:
        await asyncio.sleep(SETTLED_S)
        found = await self._spawn("auditor", self._read_all())
        check(self.book, found)
        self.loop.trace.add("audit", " ".join(f"p{partition}:{len(log)}" for partition, log in found.items()))

    async def _read_all(self) -> dict[int, list[bytes]]:
        deadline = self.loop.time() + 120
        while True:
            try:
                return await self._read_once()
            except (Broken, Refused) as error:
                if self.loop.time() > deadline:
                    raise Violation(f"long after all faults it does not read: {error}") from error
                await asyncio.sleep(0.2)

    async def _read_once(self) -> dict[int, list[bytes]]:
        client = await Client.connect(HOST, PORT, "auditor", self.random)
        assert isinstance(client, Client)
        logs: dict[int, list[bytes]] = {}
        try:
            for partition in range(self.target.partitions):
                position = await client.list_offset(self.target.topic, partition, EARLIEST)
                end = await client.list_offset(self.target.topic, partition, LATEST)
                log: list[bytes] = []
                while position < end:
                    part = await client.read(self.target.topic, partition, position)
                    _check("read", part.error)
                    values, after = committed(part, position)
                    if after == position:
                        raise Violation(
                            f"partition {partition}: one hangs: stable up to {part.last_stable_offset} of {end}"
                        )
                    log += [value for _, value in values]
                    position = after
                logs[partition] = log
        finally:
            client.close()
        return logs


def check(book: Book, found: dict[int, list[bytes]]) -> None:
    places = {value: partition for partition, log in found.items() for value in log}
    for partition, log in found.items():
        if len(set(log)) != len(log):
            raise Violation(f"partition {partition} holds a value twice")
        last: dict[bytes, bytes] = {}
        for value in log:
            name = value.partition(b" ")[0]
            if value < last.get(name, b""):
                raise Violation(f"partition {partition}: {value!r} stands after {last[name]!r}")
            last[name] = value
    for transaction in book.transactions:
        values = [(partition, value) for partition, of in transaction.values.items() for value in of]
        there = [places.get(value) == partition for partition, value in values]
        if transaction.outcome == COMMITTED and not all(there):
            raise Violation(f"{transaction.name} was committed, and {there.count(False)} of its values are not there")
        if transaction.outcome == ABORTED and any(there):
            raise Violation(f"{transaction.name} was aborted, and {there.count(True)} of its values are there")
        if any(there) and not all(there):
            raise Violation(f"{transaction.name} is torn: {there.count(True)} of {len(there)} values are there")
    for value, partition in book.seen.items():
        if places.get(value) != partition:
            raise Violation(f"{value!r} was read as committed, and is not")


def run(seed: int, options: Options) -> Book:
    """One run. A broken promise raises."""
    with simulated_loop(seed, permute=True) as loop:
        simulation = Transacting(seed, loop, SimulatedMachine(loop), options)
        loop.run_until_complete(simulation.main())
        return simulation.book
