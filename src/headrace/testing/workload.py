"""Simulated clients: producers that keep Kafka's rules for idempotence, and consumers that follow the log.

An idempotent producer keeps its unacknowledged batches and repeats them in order, on a new connection, with
the same sequences, until they are answered. The others never repeat, so that nothing of theirs may stand
twice. Every value is unique, so that a record tells where it came from.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from dataclasses import dataclass

from headrace.records import codec, kernel
from headrace.records.record import Record
from headrace.testing.history import ACKS_ALL, Batch, History, Seen, Violation
from headrace.testing.kafka import EARLIEST, LATEST, Broken, FetchSession, KafkaClient, Refused
from headrace.testing.trace import Trace
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchedPartition
from headrace.wire.kafka.primitives import Reader

CREATE_EVERY_S = (0.2, 2.0)
BACKOFF_S = (0.01, 0.5)
# Kafka's own bound: a broker remembers a producer's last five batches.
MAX_IN_FLIGHT = 5
# The timestamp of all records: that of the simulated clocks, near enough for every broker.
WALL_MS = 1_700_000_000_000
# What nobody may be told here: the topic was created for good, and no synced byte was damaged.
IMPOSSIBLE = (Code.UNKNOWN_TOPIC_OR_PARTITION, Code.CORRUPT_MESSAGE, Code.UNKNOWN_SERVER_ERROR)
# A gap in the sequences: the broker does not know a batch that it had acknowledged.
GAP = (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, 59)  # 59: UNKNOWN_PRODUCER_ID


@dataclass(frozen=True)
class Target:
    """Where everybody works, and the clock and paper that they share."""

    host: str
    port: int
    topic: str
    partitions: int
    history: History
    trace: Trace


class Producer:
    def __init__(self, name: str, target: Target, rng: random.Random) -> None:
        self.name, self.target, self._random = name, target, rng
        self.partition = rng.randrange(target.partitions)
        self.idempotent = rng.random() < 0.7
        self.acks = rng.choice((ACKS_ALL, ACKS_ALL, 1) if self.idempotent else (ACKS_ALL, 1, 1, 0))
        self.in_flight = rng.randint(1, MAX_IN_FLIGHT)
        self.compression = rng.choice(("none", "none", "gzip", "snappy", "lz4", "zstd"))
        self.think_s = rng.choice((0.02, 0.05, 0.2))
        self.stopping = False
        self._session, self._order, self._sequence = 0, 0, 0
        self._id: tuple[int, int] | None = None
        self._waiting: deque[Batch] = deque()  # sent and not answered, in order

    async def run(self) -> None:
        while not (self.stopping and not self._waiting):
            try:
                await self._connected()
            except (Broken, Refused) as error:
                self.target.trace.add("client", f"{self.name} tries again: {type(error).__name__} {error}")
                if not self.idempotent:
                    self._waiting.clear()  # their fate is unknown, and stays so
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))

    async def _connected(self) -> None:
        target = self.target
        client = await KafkaClient.connect(target.host, target.port, self.name, self._random)
        try:
            if self.idempotent and self._id is None:
                self._id = await client.new_producer_id()
            await self._converse(client)
        finally:
            client.close()

    async def _converse(self, client: KafkaClient) -> None:
        repeated = list(self._waiting)
        asked = deque((batch, self._send(client, batch)) for batch in repeated)
        while asked or not self.stopping:
            while len(asked) < self.in_flight and not self.stopping:
                batch = self._new_batch()
                if batch.acks:
                    self._waiting.append(batch)  # before it is sent: a connection may end in between
                answer = self._send(client, batch)
                if answer is None:
                    await asyncio.sleep(max(self.think_s, 0.001))
                else:
                    asked.append((batch, answer))
                if self._random.random() < 0.3:
                    await asyncio.sleep(self.think_s)
            if asked:
                batch, answer = asked.popleft()
                assert answer is not None
                result = await client.produced(answer)
                self._answered(batch, result.error, result.base_offset)

    def _answered(self, batch: Batch, error: int, base_offset: int) -> None:
        trace, history = self.target.trace, self.target.history
        if not error:
            assert self._waiting[0] is batch
            self._waiting.popleft()
            trace.add("ack", f"{batch.name} acks={batch.acks} p{batch.partition} at {base_offset}")
            history.acknowledged(batch, base_offset, trace.now())
            return
        trace.add("refused", f"{batch.name} p{batch.partition} code {error}")
        check_possible(batch.name, error)
        if error in GAP and self.idempotent:
            self._start_over(batch)
        raise Refused(batch.name, error)

    def _start_over(self, batch: Batch) -> None:
        """The broker misses a batch before this one. With acks=all it acknowledged that batch for good."""
        if batch.acks == ACKS_ALL:
            raise Violation(
                f"{batch.name} is out of order for the broker, but all before it were acknowledged (acks=all)"
            )
        if not self.target.history.power_losses:
            raise Violation(f"{batch.name} is out of order for the broker, and the power never failed")
        self._waiting.clear()
        self._id = None
        self._session += 1
        self._order = self._sequence = 0

    def _new_batch(self) -> Batch:
        count = self._random.choice((1, 1, 2, 5, 20))
        values = [
            f"{self.name}.{self._session}.{self._order}.{number} ".encode()
            + self._random.randbytes(self._random.choice((0, 10, 100, 1000)))
            for number in range(count)
        ]
        batch = Batch(self.name, self._session, self._order, self.partition, self.acks, self.idempotent, values)
        batch.sequence = self._sequence
        self._order += 1
        self._sequence += count
        self.target.history.sending(batch)
        return batch

    def _send(self, client: KafkaClient, batch: Batch) -> asyncio.Future[Reader] | None:
        who = codec.NO_PRODUCER
        if self.idempotent:
            assert self._id is not None
            who = codec.Producer(*self._id, batch.sequence)
        records = [Record(batch.name.encode(), value, (), WALL_MS) for value in batch.values]
        encoded = codec.encode(records, codec.BatchOptions(compression=self.compression, producer=who))
        self.target.trace.add("send", f"{batch.name} acks={batch.acks} p{batch.partition} {len(encoded)} bytes")
        batch.sent_at = self.target.trace.now()
        return client.produce(self.target.topic, batch.partition, encoded, batch.acks)


class Consumer:
    """Follows all partitions from their start. After a power loss what it had read may be gone: then it goes
    back."""

    def __init__(self, name: str, target: Target, rng: random.Random) -> None:
        self.name, self.target, self._random = name, target, rng
        self.stopping = False
        self._positions = dict.fromkeys(range(target.partitions), 0)
        self._max_bytes = rng.choice((1, 2000, 1 << 20))

    async def run(self) -> None:
        while not self.stopping:
            try:
                await self._connected()
            except (Broken, Refused) as error:
                self.target.trace.add("client", f"{self.name} tries again: {type(error).__name__} {error}")
                await asyncio.sleep(self._random.uniform(*BACKOFF_S))

    async def _connected(self) -> None:
        client = await KafkaClient.connect(self.target.host, self.target.port, self.name, self._random)
        session = FetchSession() if self._random.random() < 0.5 else None
        try:
            while not self.stopping:
                await self._fetch(client, session)
        finally:
            client.close()

    async def _fetch(self, client: KafkaClient, session: FetchSession | None) -> None:
        history = self.target.history
        synced = dict(history.synced_end)
        fetched = await client.fetch(self.target.topic, self._positions, max_bytes=self._max_bytes, session=session)
        for part in fetched:
            if part.error == Code.OFFSET_OUT_OF_RANGE:
                await self._go_back(client, part.partition)
            elif part.error:
                check_possible(self.name, part.error)
                raise Refused(f"{self.name}: partition {part.partition}", part.error)
            else:
                history.watermark(part.partition, part.high_watermark, synced.get(part.partition, 0))
                for seen in records_of(part, self._positions[part.partition]):
                    history.read(part.partition, seen)
                    self._positions[part.partition] = seen.offset + 1

    async def _go_back(self, client: KafkaClient, partition: int) -> None:
        end = await client.list_offset(self.target.topic, partition, LATEST)
        if not self.target.history.power_losses:
            raise Violation(
                f"{self.name} read partition {partition} up to {self._positions[partition]}, which is out of "
                f"range now (end {end}), and the power never failed"
            )
        self._positions[partition] = min(self._positions[partition], end)


class Admin:
    """Creates a topic now and then; one that was created once is there for good."""

    def __init__(self, name: str, target: Target, rng: random.Random) -> None:
        self.name, self.target, self._random = name, target, rng
        self.stopping = False

    async def run(self) -> None:
        waiting = False  # for a topic that was asked for, and whose fate is unknown
        while waiting or not self.stopping:
            await asyncio.sleep(self._random.uniform(*(BACKOFF_S if waiting else CREATE_EVERY_S)))
            topic = f"extra{len(self.target.history.topics)}"
            waiting = not await self._created(topic)
            if not waiting:
                self.target.trace.add("ack", f"topic {topic}")
                self.target.history.topics.append(topic)

    async def _created(self, topic: str) -> bool:
        """Also when an earlier attempt did it whose answer did not come."""
        try:
            client = await KafkaClient.connect(self.target.host, self.target.port, self.name, self._random)
            try:
                await client.create_topic(topic, 1, {})
            finally:
                client.close()
        except Refused as error:
            return error.code == Code.TOPIC_ALREADY_EXISTS
        except Broken:
            return False
        return True


def check_possible(who: str, code: int) -> None:
    if code in IMPOSSIBLE:
        raise Violation(f"{who} was told {Code(code).name}, and nothing happened that could be the reason")


def records_of(part: FetchedPartition, position: int) -> list[Seen]:
    """From `position` on; the first batch may begin before it. A batch that is cut or damaged raises."""
    found: list[Seen] = []
    for piece in part.pieces or ():
        for batch_header, body in codec.split(piece):
            plain = codec.records_bytes(batch_header, body)
            decoded = kernel.decode_records(
                plain, batch_header.record_count, batch_header.base_offset, batch_header.base_timestamp, None
            )
            found += [
                Seen(record.offset, batch_header.leader_epoch, bytes(record.value or b""))
                for record in decoded
                if record.offset >= position
            ]
    return found


async def read_all(target: Target, rng: random.Random) -> dict[int, tuple[int, int, list[Seen]]]:
    """Every partition whole, as (start, high watermark, records)."""
    client = await KafkaClient.connect(target.host, target.port, "auditor", rng)
    try:
        for topic in target.history.topics:
            await _check_topic(client, topic)
        found = {}
        for partition in range(target.partitions):
            start = await client.list_offset(target.topic, partition, EARLIEST)
            end = await client.list_offset(target.topic, partition, LATEST)
            log: list[Seen] = []
            position = start
            while position < end:
                part = (await client.fetch(target.topic, {partition: position}))[0]
                if part.error:
                    check_possible("auditor", part.error)
                    raise Refused(f"reading partition {partition} from {position}", part.error)
                seen = records_of(part, position)
                if not seen:
                    raise Violation(f"partition {partition}: nothing comes from offset {position}, below its end {end}")
                for each in seen:
                    target.history.read(partition, each)
                log += seen
                position = seen[-1].offset + 1
            found[partition] = (start, end, log)
        return found
    finally:
        client.close()


async def _check_topic(client: KafkaClient, topic: str) -> None:
    try:
        await client.list_offset(topic, 0, LATEST)
    except Refused as error:
        if error.code == Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise Violation(f"topic {topic} was created, and is unknown now") from error
        raise
