"""A small Kafka client for simulations: one connection, every request visible, nothing retried behind
anybody's back.

Answers come in the order of the requests, and the correlation ids say so: anything else is a fault of the
broker and fails the run. A connection that ends, or an answer that does not come in time, is `Broken`: what
was asked may have happened or not.
"""

from __future__ import annotations

import asyncio
import random
import struct
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, cast

from headrace.ports import Buffer
from headrace.wire.kafka import fetch_client, header, produce_client
from headrace.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.primitives import Reader, array, string
from headrace.wire.kafka.produce import PartitionResult

# Shorter than the network's own patience, longer than any sync of a disk that works.
ANSWER_TIMEOUT_S = 8.0
# By name: from version 13 on both name topics by id.
PRODUCE_VERSIONS = range(3, 13)
FETCH_VERSIONS = range(4, 13)
CREATE_TOPICS_VERSION, INIT_PRODUCER_ID_VERSION, LIST_OFFSETS_VERSION = 2, 0, 1
FIRST_VERSION_WITH_SESSIONS = 7
MAX_WAIT_MS = 500
EARLIEST, LATEST = -2, -1

_INT32 = struct.Struct(">i")


class Broken(Exception):
    """No answer, and there will be none on this connection."""


class WrongAnswer(AssertionError):
    """The broker broke the protocol."""


class Refused(Exception):
    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error code {code}")
        self.code = code


@dataclass
class FetchSession:
    """What the broker remembers of our last Fetch, so that only changed positions are sent."""

    id: int = 0
    epoch: int = 0
    positions: dict[int, int] = field(default_factory=dict)

    def advance(self, session_id: int, sent: dict[int, int]) -> None:
        if session_id == 0:  # the broker keeps none for us
            self.id, self.epoch = 0, 0
            self.positions.clear()
        else:
            self.id, self.epoch = session_id, self.epoch + 1
            self.positions.update(sent)


NO_SESSION = FetchSession(0, -1)


class _Asked(NamedTuple):
    api_key: int
    version: int
    correlation_id: int
    answer: asyncio.Future[Reader]


class KafkaClient(asyncio.Protocol):
    def __init__(self, name: str, rng: random.Random) -> None:
        self.name = name
        self.produce_version = rng.choice(PRODUCE_VERSIONS)
        self.fetch_version = rng.choice(FETCH_VERSIONS)
        self._received = bytearray()
        self._asked: deque[_Asked] = deque()
        self._next_id = 1
        self._closed = False

    @classmethod
    async def connect(cls, host: str, port: int, name: str, rng: random.Random) -> KafkaClient:
        loop = asyncio.get_running_loop()
        try:
            _, client = await loop.create_connection(lambda: cls(name, rng), host, port)
        except OSError as error:
            raise Broken(f"cannot connect: {error}") from error
        return client

    def close(self) -> None:
        if not self._closed:
            self.transport.close()
            self._break("closed by ourselves")

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            size = _INT32.unpack_from(self._received)[0]
            if len(self._received) < 4 + size:
                break
            frame = bytes(self._received[4 : 4 + size])
            del self._received[: 4 + size]
            self._answered(frame)

    def connection_lost(self, error: Exception | None) -> None:
        self._break(f"the connection ended: {error}")

    def _answered(self, frame: bytes) -> None:
        if self._closed:
            return
        if not self._asked:
            raise WrongAnswer(f"{self.name}: an answer that nobody asked for, {len(frame)} bytes")
        asked = self._asked.popleft()
        correlation_id, at = header.read_response_header(frame, 0, len(frame), asked.api_key, asked.version)
        if correlation_id != asked.correlation_id:
            raise WrongAnswer(
                f"{self.name}: answer {correlation_id} came where {asked.correlation_id} was next in order"
            )
        if not asked.answer.done():
            flexible = header.is_flexible(asked.api_key, asked.version)
            asked.answer.set_result(Reader(frame, at, len(frame), flexible))

    def _break(self, why: str) -> None:
        self._closed = True
        asked, self._asked = self._asked, deque()
        for waiting in asked:
            if not waiting.answer.done():
                waiting.answer.set_exception(Broken(why))
                waiting.answer.exception()  # seen: who gave up on a request does not come back for its error

    # Requests

    def _send(self, api_key: int, version: int, pieces: Sequence[Buffer]) -> asyncio.Future[Reader]:
        if self._closed:
            raise Broken("the connection is closed")
        answer: asyncio.Future[Reader] = asyncio.get_running_loop().create_future()
        self._asked.append(_Asked(api_key, version, self._next_id, answer))
        self._next_id += 1
        self.transport.writelines(pieces)
        return answer

    async def _ask(self, api_key: int, version: int, body: bytes) -> Reader:
        head = header.request_header(api_key, version, self._next_id, self.name)
        return await self.answer(self._send(api_key, version, [_INT32.pack(len(head) + len(body)), head, body]))

    async def answer(self, asked: asyncio.Future[Reader]) -> Reader:
        try:
            async with asyncio.timeout(ANSWER_TIMEOUT_S):
                return await asked
        except TimeoutError:
            self.close()
            raise Broken(f"no answer in {ANSWER_TIMEOUT_S:.0f} s") from None

    async def create_topic(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        body = array(1, False) + string(name, False) + struct.pack(">ihi", partitions, 1, 0)
        body += array(len(configs), False)
        body += b"".join(string(key, False) + string(value, False) for key, value in configs.items())
        reader = await self._ask(header.CREATE_TOPICS, CREATE_TOPICS_VERSION, body + struct.pack(">ib", 10_000, 0))
        reader.int32()
        for _ in reader.array():
            reader.string()
            code = reader.int16()
            if code:
                raise Refused(f"create {name}: {reader.nullable_string()}", code)

    async def new_producer_id(self) -> tuple[int, int]:
        body = string(None, False) + _INT32.pack(60_000)
        reader = await self._ask(header.INIT_PRODUCER_ID, INIT_PRODUCER_ID_VERSION, body)
        reader.int32()
        code = reader.int16()
        if code:
            raise Refused("a producer id", code)
        return reader.int64(), reader.int16()

    async def list_offset(self, topic: str, partition: int, timestamp: int) -> int:
        body = _INT32.pack(-1) + array(1, False) + string(topic, False)
        body += array(1, False) + struct.pack(">iq", partition, timestamp)
        reader = await self._ask(header.LIST_OFFSETS, LIST_OFFSETS_VERSION, body)
        assert len(reader.array()) == 1 and reader.string() == topic and len(reader.array()) == 1
        reader.int32()
        code = reader.int16()
        if code:
            raise Refused(f"offsets of {topic}/{partition}", code)
        reader.int64()
        return reader.int64()

    def produce(self, topic: str, partition: int, batch: Buffer, acks: int) -> asyncio.Future[Reader] | None:
        """None for acks=0, which has no answer."""
        version = self.produce_version
        pieces = produce_client.encode_request(
            version, self._next_id, self.name, None, acks, 10_000, [(topic, None, [(partition, batch)])]
        )
        if acks == 0:
            if self._closed:
                raise Broken("the connection is closed")
            self._next_id += 1
            self.transport.writelines(pieces)
            return None
        return self._send(header.PRODUCE, version, pieces)

    async def produced(self, asked: asyncio.Future[Reader]) -> PartitionResult:
        reader = await self.answer(asked)
        response = produce_client.decode_response(reader.buffer, reader.at, len(reader.buffer), self.produce_version)
        return response.topics[0].partitions[0]

    async def fetch(
        self,
        topic: str,
        positions: dict[int, int],
        *,
        max_bytes: int = 1 << 20,
        session: FetchSession | None = None,
    ) -> list[FetchedPartition]:
        version = self.fetch_version
        if session is None or version < FIRST_VERSION_WITH_SESSIONS:
            session = NO_SESSION
        changed = {index: at for index, at in positions.items() if session.positions.get(index) != at}
        asked = [FetchPartition(index, -1, at, -1, -1, max_bytes) for index, at in changed.items()]
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=max_bytes,
            session_id=session.id,
            session_epoch=session.epoch,
            topics=[FetchTopic(topic, None, asked)] if asked else [],
        )
        encoded = fetch_client.encode_request(version, self._next_id, self.name, request)
        reader = await self.answer(self._send(header.FETCH, version, [encoded]))
        response = fetch_client.decode_response(reader.buffer, reader.at, len(reader.buffer), version)
        if response.error:
            raise Refused("fetch", response.error)
        if session is not NO_SESSION:
            session.advance(response.session_id, changed)
        return [fetched for answered in response.topics for fetched in answered.partitions]
