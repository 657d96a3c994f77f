"""One connection to one broker: requests out, answers in, in the same order.

- A frame's size is judged before anything is allocated by it. Small frames are copied out of one scratch buffer, large
  ones are received into a buffer of their own, which their records stay views of.
- Every request has a deadline. Answers come in order, so one that is late holds up all behind it: the connection is
  closed then, and whoever waited hears whether its own time was over or its connection lost.
- Which version of a request is spoken follows from what the broker said it takes, when the connection was made.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections import deque
from collections.abc import Mapping
from typing import Final, NamedTuple, TypeVar, cast

from headrace import __version__
from headrace.client.addresses import Address
from headrace.client.apis import API_VERSIONS, Api
from headrace.client.values import ApiRange
from headrace.errors import ConnectionFailed, RequestTimedOut, UnsupportedByBroker
from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.api_versions import ApiVersionsRequest
from headrace.wire.kafka.errors import Code, MalformedRequest

Q = TypeVar("Q")
A = TypeVar("A")

SCRATCH_BYTES: Final = 64 << 10  # as much as one read brings
MAX_ANSWER_BYTES: Final = 256 << 20  # twice the largest batch there can be: more is not Kafka's protocol
MIN_ANSWER_BYTES: Final = 4  # a correlation id
WRITE_HIGH_WATER_BYTES: Final = 4 << 20  # unsent requests at which a sender waits
SOFTWARE: Final = ApiVersionsRequest("headrace", __version__)

_INT32 = struct.Struct(">i")
_HTTP: Final = int.from_bytes(b"HTTP")  # how an answer of a web server begins, read as the size of a frame


class Answer(NamedTuple):
    frame: Buffer
    at: int  # where the body begins
    version: int


class _Waiting(NamedTuple):
    correlation_id: int
    key: int
    name: str
    version: int
    deadline: float
    answer: asyncio.Future[Answer]


class Connection(asyncio.BufferedProtocol):
    def __init__(self, address: Address, client_id: str | None) -> None:
        self.address, self.client_id = address, client_id
        self.versions: Mapping[int, ApiRange] = {}
        self.failure: ConnectionFailed | None = None  # why it ended
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_Waiting] = deque()
        self._next_id = 0
        self._scratch = bytearray(SCRATCH_BYTES)
        self._frame: bytearray | None = None
        self._filled = 0  # bytes of the frame, or else of the scratch buffer
        self._watch: asyncio.TimerHandle | None = None
        self._writable: asyncio.Future[None] | None = None

    @classmethod
    async def open(cls, address: Address, client_id: str | None, timeout_s: float) -> Connection:
        """A connection that knows what its broker speaks."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(timeout_s):
                _, connection = await loop.create_connection(lambda: cls(address, client_id), *address)
        except TimeoutError:
            raise ConnectionFailed(
                f"{address}: no connection within {timeout_s:g} s; check the address and that no firewall is between"
            ) from None
        except OSError as error:
            raise ConnectionFailed(f"{address}: {_why(error)}") from error
        try:
            await connection._learn_versions(timeout_s)
        except RequestTimedOut as error:
            raise ConnectionFailed(
                f"{address}: it took the connection, and did not answer ApiVersions within {timeout_s:g} s; is that its"
                " Kafka port, and is the broker not stopped?"
            ) from error
        except BaseException:
            connection.close()
            raise
        return connection

    @property
    def is_open(self) -> bool:
        return self.failure is None

    @property
    def waiting(self) -> int:
        """Requests without an answer yet."""
        return len(self._waiting)

    def close(self, why: str = "closed by this client") -> None:
        self._end(ConnectionFailed(f"{self.address}: {why}"))

    # Asking

    async def ask(self, api: Api[Q, A], request: Q, timeout_s: float, newest: int | None = None) -> A:
        """`newest` keeps the version down, for a request that cannot be said in the newest one."""
        answer = await self.send(api, request, timeout_s, newest)
        return self.read(api, answer)

    def send(self, api: Api[Q, A], request: Q, timeout_s: float, newest: int | None = None) -> asyncio.Future[Answer]:
        """Written when this returns; the answer comes later. Cancelling it only means that nobody wants it."""
        if self.failure is not None:
            raise ConnectionFailed(str(self.failure))
        version = self.version(api, newest)
        correlation_id = self._write(api, version, request)
        answer: asyncio.Future[Answer] = self._loop.create_future()
        deadline = self._loop.time() + timeout_s
        self._waiting.append(_Waiting(correlation_id, api.key, api.name, version, deadline, answer))
        if self._watch is None or deadline < self._watch.when():
            self._arm(deadline)
        return answer

    def send_unanswered(self, api: Api[Q, A], request: Q, newest: int | None = None) -> None:
        """For the one request that has no answer, Produce with acks=0."""
        if self.failure is not None:
            raise ConnectionFailed(str(self.failure))
        self._write(api, self.version(api, newest), request)

    def read(self, api: Api[Q, A], answer: Answer) -> A:
        try:
            return api.decode(answer.frame, answer.at, len(answer.frame), answer.version)
        except MalformedRequest as error:
            self.close(f"its answer to {api.name} cannot be read: {error}")
            raise ConnectionFailed(f"{self.address}: its answer to {api.name} cannot be read: {error}") from error

    async def drain(self) -> None:
        """Waits while the broker does not take what was written."""
        while self._writable is not None and self.failure is None:
            await asyncio.shield(self._writable)

    def version(self, api: Api[Q, A], newest: int | None = None) -> int:
        """The newest that both sides speak."""
        ours = api.newest if newest is None else min(newest, api.newest)
        if api.is_private:
            return ours
        theirs = self.versions.get(api.key)
        if theirs is None:
            raise UnsupportedByBroker(f"{self.address}: this broker does not know {api.name}")
        version = min(ours, theirs.max)
        if version < max(api.oldest, theirs.min):
            raise UnsupportedByBroker(
                f"{self.address}: this broker speaks {api.name} {theirs.min} to {theirs.max},"
                f" and this client {api.oldest} to {ours}"
            )
        return version

    def _write(self, api: Api[Q, A], version: int, request: Q) -> int:
        self._next_id = correlation_id = (self._next_id + 1) & 0x7FFFFFFF
        pieces = api.encode(version, correlation_id, self.client_id, request)
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)
        return correlation_id

    async def _learn_versions(self, timeout_s: float) -> None:
        self.versions = {API_VERSIONS.key: ApiRange(API_VERSIONS.oldest, 3)}
        answer = await self.send(API_VERSIONS, SOFTWARE, timeout_s)
        # A broker that does not know our version answers in version 0, whatever it was asked in.
        if int.from_bytes(answer.frame[answer.at : answer.at + 2]) == Code.UNSUPPORTED_VERSION:
            answer = await self.send(API_VERSIONS, SOFTWARE, timeout_s, 0)
        said = self.read(API_VERSIONS, answer)
        if said.error:
            raise ConnectionFailed(f"{self.address}: it did not say what it speaks (error code {said.error})")
        self.versions = {key: ApiRange(oldest, newest) for key, oldest, newest in said.ranges}

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(WRITE_HIGH_WATER_BYTES)
        wire = self._transport.get_extra_info("socket")
        if wire is not None:
            with contextlib.suppress(OSError):
                wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def connection_lost(self, error: Exception | None) -> None:
        why = _why(error) if isinstance(error, OSError) else str(error or "the broker closed the connection")
        self._end(ConnectionFailed(f"{self.address}: {why}"))

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None:
            self._writable.set_result(None)
            self._writable = None

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._scratch if self._frame is None else self._frame)[self._filled :]

    def buffer_updated(self, nbytes: int) -> None:
        self._filled += nbytes
        if self._frame is None:
            self._split()
        elif self._filled == len(self._frame):
            frame, self._frame, self._filled = self._frame, None, 0
            self._answered(frame)

    def _split(self) -> None:
        """Takes whole frames out of the scratch buffer; a large one goes on in a buffer of its own."""
        scratch, at, end = self._scratch, 0, self._filled
        while end - at >= 4 and self.failure is None:
            (size,) = _INT32.unpack_from(scratch, at)
            if not MIN_ANSWER_BYTES <= size <= MAX_ANSWER_BYTES:
                if size == _HTTP:
                    self.close("it speaks HTTP, not Kafka; name the port of its Kafka door")
                    return
                self.close(f"it sent a frame of {size} bytes, which is not Kafka's protocol; is that the right port?")
                return
            start, stop = at + 4, at + 4 + size
            if stop <= end:
                at = stop
                self._answered(bytes(memoryview(scratch)[start:stop]))
            elif size + 4 > SCRATCH_BYTES:
                self._frame, self._filled = bytearray(size), end - start
                self._frame[: end - start] = memoryview(scratch)[start:end]
                return
            else:
                break
        self._filled = end - at
        if at and self._filled:
            scratch[: self._filled] = scratch[at:end]

    def _answered(self, frame: Buffer) -> None:
        if not self._waiting:
            self.close("it sent an answer that nobody asked for")
            return
        asked = self._waiting[0]  # it stays in line until its answer is known to be its own
        try:
            correlation_id, at = header.read_response_header(frame, 0, len(frame), asked.key, asked.version)
        except MalformedRequest as error:
            self.close(f"it sent an answer that cannot be read ({error}); is that the right port?")
            return
        if correlation_id != asked.correlation_id:
            self.close(f"answer {correlation_id} came where {asked.correlation_id} was next")
            return
        self._waiting.popleft()
        if not asked.answer.done():
            asked.answer.set_result(Answer(frame, at, asked.version))

    # The end

    def _arm(self, when: float) -> None:
        if self._watch is not None:
            self._watch.cancel()
        self._watch = self._loop.call_at(when, self._check_deadlines)

    def _check_deadlines(self) -> None:
        self._watch = None
        if not self._waiting:
            return
        soonest = min(self._waiting, key=lambda asked: asked.deadline)
        if soonest.deadline > self._loop.time():
            self._arm(soonest.deadline)
            return
        if not soonest.answer.done():
            soonest.answer.set_exception(
                RequestTimedOut(
                    f"{self.address}: no answer to {soonest.name} in time; whether it was done is not known"
                )
            )
        self.close(f"an answer to {soonest.name} was overdue")

    def _end(self, failure: ConnectionFailed) -> None:
        if self.failure is not None:
            return
        self.failure = failure
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None
        self.resume_writing()
        waiting, self._waiting = self._waiting, deque()
        for asked in waiting:
            if not asked.answer.done():
                asked.answer.set_exception(failure)
                asked.answer.exception()  # seen: who gave up on a request does not come back for its error
        self._frame = None
        with contextlib.suppress(AttributeError):  # closed before it was made
            self._transport.abort() if waiting else self._transport.close()


def _why(error: OSError) -> str:
    if isinstance(error, ConnectionRefusedError) or "Connect call failed" in str(error):
        return "connection refused; is a broker running there, and is that its Kafka port?"
    if isinstance(error, socket.gaierror):
        return f"the name cannot be resolved ({error.strerror}); check the spelling and DNS"
    words = os.strerror(error.errno) if error.errno else str(error)
    return words.lower() or type(error).__name__
