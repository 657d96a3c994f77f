"""One connection of a Kafka client: frames in, answers out in the order of their requests.

- Bytes are read into one scratch buffer that all connections share; a large frame gets a buffer of its own, which the
  log may keep, so that a producer's megabyte is never copied. An idle connection holds no buffer.
- A turn is what one read brought: all its requests are taken, then the broker writes everything they produced (one
  write for a partition), then the answers go out.
- Produce requests may wait for their sync side by side; any other request that has to wait holds back those behind
  it, as Kafka does.
- No request is taken while answers pile up unsent: what was read already stays here, and the socket is not read on.
"""

from __future__ import annotations

import asyncio
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, cast

from headrace.doors.kafka import handling, lone, single, single_fetch
from headrace.doors.kafka.answers import Answer
from headrace.doors.kafka.api import fetch, produce
from headrace.doors.kafka.ends import NO_SOCKET, end_of, send, socket_of
from headrace.doors.kafka.limits import OWN_FRAME_BYTES, PEEK_BYTES, WRITE_HIGH_WATER_BYTES
from headrace.ports import Buffer, Piece
from headrace.records.kernel import room
from headrace.wire.kafka import frame, kernel
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.header import FETCH, PRODUCE, read_header
from headrace.wire.kafka.produce import FLEXIBLE

if TYPE_CHECKING:
    from headrace.doors.kafka.door import KafkaDoor


_SIZE = Struct(">i")
_HEAD = Struct(">hhih")  # api key, version, correlation id, length of the client id


class Connection(asyncio.BufferedProtocol):
    def __init__(self, door: KafkaDoor) -> None:
        self.door = door
        self.broker = door.broker
        self.active = True
        self.closed = False
        self.cause = "client"  # who ends it, until we do
        self.timing = False  # the time of this turn's Produce requests is taken,
        self.turn_at = 0.0  # and then it began here
        self.now, self.metrics = door.broker.clock.monotonic, door.metrics
        self.max_request_bytes = door.limits.max_request_bytes
        self.listener: tuple[str, int] = ("", 0)
        self.peer = ""
        self.socket = NO_SOCKET  # under the transport, for what the kernel sends by itself
        self.poll: fetch.Fetch | None = None  # the fetch that waits for more
        self.task: asyncio.Task[None] | None = None  # the request that waits for something else
        self.waiting: dict[produce.Pending, None] = {}  # for their sync
        self.ready_bytes = 0  # of answers that are made and not sent, but for those to Produce, which are short
        self._answers: deque[Answer] = deque()
        self.staged: list[produce.Pending] = []
        self._kept: Buffer = b""  # read, but not taken yet
        self._frame: bytearray | None = None  # a large frame on its way in
        self._frame_bytes = 0  # its whole size
        self._filled = 0
        self._starved = False  # it waits for memory
        self.large = False  # the last one was: the next is likely to be
        self._blocked = False  # by a request that waits
        self._write_paused = False
        self._read_paused = False
        self._backlog = False  # whole requests may be among what was kept
        self._wanted = False  # a turn is due for them
        self._draining = False

    # Coming and going

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport = cast(asyncio.Transport, transport)  # uvloop's is one but in name
        self.peer = end_of(transport.get_extra_info("peername"))[0]
        self.listener = self.door.advertised or end_of(transport.get_extra_info("sockname"))
        transport.set_write_buffer_limits(high=WRITE_HIGH_WATER_BYTES)
        self.socket = socket_of(transport)
        self.door.joined(self)

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        self._drop_frame()
        self._kept = b""
        self._answers.clear()
        self.waiting.clear()
        self.door.left(self)

    def close(self, why: str | None = None, cause: str = "malformed") -> None:
        """After what is answered already; `why` is for the log, `cause` is counted."""
        if self.closed:
            return
        self.closed, self.cause = True, cause
        if why is not None:
            self.door.refused(self, why)
        self.transport.close()

    def abort(self, cause: str) -> None:
        if not self.closed:
            self.closed, self.cause = True, cause
        self.transport.abort()

    # Bytes in

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._frame is not None:
            return memoryview(self._frame)[self._filled :]
        kept = len(self._kept)
        if kept:
            self.door.scratch[:kept] = self._kept
        elif not self.large:
            return self.door.scratch_view
        return self.door.scratch_view[kept : kept + PEEK_BYTES] if self.large else self.door.scratch_view[kept:]

    def buffer_updated(self, nbytes: int) -> None:
        self.active = True
        if self.closed:
            return
        if self._frame is not None:
            self._filled += nbytes
            if self._filled == len(self._frame):
                self._frame_grew()
            return
        end = len(self._kept) + nbytes
        self._kept = b""
        if not (self._answers or self._blocked or self._write_paused) and lone.take(self, self.door.scratch_view, end):
            return
        self._take(self.door.scratch_view, end)

    def eof_received(self) -> bool:
        return False

    def _take(self, buffer: memoryview, end: int) -> None:
        """One turn: every whole request in `buffer`, as long as nothing holds us back."""
        at = 0
        if self.timing:
            self.turn_at = self.now()
        self._backlog = False
        try:
            while end - at >= frame.SIZE_BYTES:
                if self._held():
                    self._backlog = True
                    break
                size: int = _SIZE.unpack_from(buffer, at)[0]
                if not frame.MIN_REQUEST_BYTES <= size <= self.max_request_bytes:
                    frame.refuse(size, self.max_request_bytes)
                stop = at + frame.SIZE_BYTES + size
                if stop > end:
                    if size > OWN_FRAME_BYTES:
                        self._begin_frame(size, buffer[at + frame.SIZE_BYTES : end])
                        at = end
                    break
                self.large = False
                self._request(buffer, at + frame.SIZE_BYTES, stop, None)
                at = stop
        except MalformedRequest as error:
            self.end_turn()
            self.close(str(error))
            return
        if at < end and not self.closed:
            self._kept = bytes(buffer[at:end])
        self.end_turn()

    def _held(self) -> bool:
        if self._blocked or self._write_paused or self.closed or self.door.stopping:
            return True
        if self.ready_bytes >= WRITE_HIGH_WATER_BYTES:
            return True
        return len(self._answers) >= self.door.limits.max_in_flight

    # A large frame

    def _begin_frame(self, size: int, first: memoryview) -> None:
        memory, filled = self.door.memory, len(first)
        self._frame_bytes, self._filled, self.large = size, filled, True
        step = max(memory.first_step(size), min(2 * filled, size))
        if memory.take(self, step, self._grow_again):
            self._frame = room(step)  # of which only what was received is ever looked at
            self._frame[:filled] = first
        else:
            memory.used_bytes += filled
            self._frame = bytearray(first)
            self._starved = True
            self._pause_reading()

    def _frame_grew(self) -> None:
        assert self._frame is not None
        if self._filled < self._frame_bytes:
            self._grow_to(min(2 * self._filled, self._frame_bytes))
            return
        own, self._frame = self._frame, None
        if self.timing:
            self.turn_at = self.now()
        try:
            self._request(memoryview(own), 0, len(own), own)
        except MalformedRequest as error:
            self.end_turn()
            self.close(str(error))
        else:
            self.end_turn()
        finally:
            self.door.memory.give_back(self, len(own))

    def _grow_to(self, size: int) -> None:
        assert self._frame is not None
        more = size - len(self._frame)
        if not self.door.memory.take(self, more, self._grow_again):
            self._starved = True
            self._pause_reading()
            return
        if self._filled < size:
            grown = room(size)
            grown[: self._filled] = self._frame
            self._frame = grown

    def _grow_again(self) -> None:
        if self._starved and self._frame is not None and not self.closed:
            self._starved = False
            self._resume_reading()
            self._grow_to(min(max(2 * self._filled, self.door.memory.first_step(self._frame_bytes)), self._frame_bytes))

    def _drop_frame(self) -> None:
        own, self._frame = self._frame, None
        self.door.memory.give_back(self, len(own) if own is not None else 0)

    # Requests

    def _request(self, buffer: memoryview, at: int, end: int, own: bytearray | None) -> None:
        found = kernel.single(buffer, at, end)
        if found is not None and (pending := single.stage(self, buffer, found, own)) is not None:
            self.staged.append(pending)
            return
        api_key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(buffer, at)
        if api_key == PRODUCE and version in produce.API.versions:
            # Who the client says it is does not matter; tags, which nobody sends, are for `read_header`.
            body = at + _HEAD.size + max(0, client_id_bytes)
            if version >= FLEXIBLE:
                body = body + 1 if body < end and buffer[body] == 0 else read_header(buffer, at, end).end
            general = produce.stage(self, buffer, body, end, version, correlation_id, own)
            if general is not None:
                self.staged.append(general)
            return
        if api_key == FETCH:
            asked = kernel.single_fetch(buffer, at, end)
            if asked is not None and (fetched := single_fetch.answer(self, asked)) is not None:
                answer = self.place(Answer())
                answer.buffers, answer.ready_bytes = fetched
                self.ready_bytes += answer.ready_bytes
                return
        header = read_header(buffer, at, end)
        if header.api_key == FETCH and fetch.API.handles(header.version):
            fetch.begin(self, buffer, end, header)
        else:
            handling.begin(self, buffer, end, header)

    def done(self, api_key: int, began: float) -> None:
        """A request that was whole at that time has its answer."""
        self.metrics.done(api_key, self.now() - began)

    def block(self) -> None:
        self._blocked = True

    def unblock(self) -> None:
        """The request that waited is answered (or never will be): send, and take what was kept behind it."""
        self._blocked = False
        self.drain_soon()

    def unblock_now(self) -> None:
        """As `unblock`, without gathering what else becomes ready."""
        self._blocked = False
        self._drain()

    # Answers out

    def place(self, answer: Answer) -> Answer:
        """The next in the order of answers."""
        self._answers.append(answer)
        return answer

    def drain_soon(self) -> None:
        """Several answers that become ready together go out together."""
        if not self._draining and not self.closed:
            self._draining = True
            self.door.loop.call_soon(self._drain)

    def finish_turn(self, pending: produce.Pending, began: float) -> None:
        """For a request that had to wait for a log to be opened."""
        self.timing, self.turn_at = True, began
        self.staged.append(pending)
        self.end_turn()

    def end_turn(self) -> None:
        self._draining = True  # below, not by those who ask for it meanwhile
        staged = self.staged
        if staged:
            self.staged = []
            failed = self.broker.flush()
            for pending in staged:
                pending.flushed(failed)
            produced = self.metrics.produced = self.metrics.produced + len(staged)
            if self.timing:
                self._take_times(staged)
            elif self.waiting or not produced & lone.UNTIMED:
                self.timing = True
        self._drain()

    def _take_times(self, staged: list[produce.Pending]) -> None:
        """Of those that are done. Who waits for a sync, takes its own then."""
        if done := sum(not pending.waiting for pending in staged) if self.waiting else len(staged):
            self.metrics.done(PRODUCE, self.now() - self.turn_at, done)
        self.timing = bool(self.waiting)

    def turn_began(self) -> float:
        return self.turn_at if self.timing else self.now()

    def _drain(self) -> None:
        self._draining = False
        answers = self._answers
        if self.closed:
            return
        out: list[Piece] = []
        while answers and (buffers := answers[0].buffers) is not None:
            self.ready_bytes -= answers.popleft().ready_bytes
            out += buffers
        if out:
            send(self, out)
        held = self._held()
        if held or self._backlog:
            self._pause_reading()
            if not held and not self._wanted:
                # A turn of its own, never inside of somebody else's: what a turn stages, it also answers.
                self._wanted = True
                self.door.loop.call_soon(self._take_kept)
        elif not self._starved:
            self._resume_reading()

    def _take_kept(self) -> None:
        self._wanted = False
        if not self.closed:
            kept, self._kept = self._kept, b""
            self._take(memoryview(kept), len(kept))

    def pause_writing(self) -> None:
        self._write_paused = True
        self.door.unsent.slow(self, self.door.loop.time())

    def resume_writing(self) -> None:
        self._write_paused = False
        self.active = True
        self.door.unsent.gone(self)
        self.drain_soon()

    def sends_spans(self, answer: Answer | None = None) -> bool:
        """An answer that is made now goes out at once, with nothing in front of it; it may have its place already."""
        if self.socket == NO_SOCKET or (self._answers and self._answers[0] is not answer):
            return False
        return not self.transport.get_write_buffer_size()

    def unsent_bytes(self) -> int:
        """What was answered and is not in the kernel's hands yet."""
        return self.transport.get_write_buffer_size()

    def _pause_reading(self) -> None:
        if not self._read_paused and not self.closed:
            self._read_paused = True
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if self._read_paused and not self.closed:
            self._read_paused = False
            self.active = True  # how long the client sends nothing is counted from here
            self.transport.resume_reading()

    @property
    def is_waiting_for_frame(self) -> bool:
        """In the middle of a request's bytes, and it is the client who does not go on."""
        if self._starved or self._backlog or self._read_paused:
            return False
        return self._frame is not None or bool(self._kept)

    @property
    def is_busy(self) -> bool:
        """A request is not answered yet, and will be."""
        return bool(self._answers) and not self.closed
