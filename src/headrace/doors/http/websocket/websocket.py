"""One WebSocket: the driver of framing.py, with the connection that an exchange has left to it.

- Records leave as a topic is followed (following.py): a page when the client took the one before.
- What the client sends is published as it comes, MAX_OWED at a time, and answered in its order.
- Nothing is read while so many are under way, or while the client does not take what is for it: then it is the client
  who waits. What is read and not done counts among the door's bodies, from when it came: when there is no room for
  it, nothing of it is published, and the client is told to come again.
- It is the client's turn (the door closes who lets it pass) when it has begun a text, when it was pinged, and when we
  have closed.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import NamedTuple

from websockets.frames import CloseCode

from headrace.broker.publishing import Published
from headrace.broker.topic import Topic
from headrace.doors.http.following import Following
from headrace.doors.http.refusals import Refused, words_of
from headrace.doors.http.services import Services
from headrace.doors.http.waiting import ClientLeft
from headrace.doors.http.websocket import texts
from headrace.doors.http.websocket.framing import Framing
from headrace.doors.http.websocket.owed import Debt, Owed
from headrace.errors import HeadraceError, UnknownTopic

MAX_OWED = 256  # records of one client that are being published: some batches' worth
FRAME_BYTES = 4 << 10  # what a record may have around it
SLICE_BYTES = 4 << 10  # of what was read, at a time: so many frames at most are more than was looked for
STOPPING, NO_TOPIC, FAULT = "the node is stopping", "Topic not found", "a fault of ours; the log of the node has it"
TOPIC_GONE = 4404  # a code of our own, for what HTTP calls 404


class Wish(NamedTuple):
    """What the request said about publishing."""

    topic: Topic
    partition: int | None
    acks: str | None


class WebSocket:
    def __init__(self, services: Services, wish: Wish, loop: asyncio.AbstractEventLoop) -> None:
        self._services, self._wish, self._loop = services, wish, loop
        # Base64 and escapes take room: a record of the largest size fits, and what unpacks to more is refused by name.
        size = FRAME_BYTES + 2 * wish.topic.config.max_message_bytes
        self._framing = Framing(min(size, services.limits.body_bytes))
        self._owed = Owed()
        self._unread = memoryview(b"")
        self._held_bytes = 0  # of the door's bodies
        self._left: asyncio.Future[None] = loop.create_future()
        self._drained: asyncio.Future[None] | None = None
        self._is_reading, self._is_write_paused, self._is_stopping, self._is_lost = True, False, False, False
        self._text_since: float | None = None  # when it began
        self._ping_since: float | None = None
        self._close_since: float | None = None

    def begin(self, transport: asyncio.Transport, is_write_paused: bool) -> None:
        self._transport, self._is_write_paused = transport, is_write_paused

    async def run(self, following: Following) -> None:
        """Records, until one side ends it."""
        try:
            async with aclosing(following.pieces(self)) as pieces:
                async for piece in pieces:
                    if self._left.done():
                        return
                    if piece:
                        self._transport.write(piece)
                        await self._when_taken()
                    else:
                        self._ping()
            self.shutdown()  # only a stop ends them
        except ClientLeft:
            pass
        except UnknownTopic:
            self._close(TOPIC_GONE, NO_TOPIC)
        except Refused as error:  # no memory is left for answers
            self._close(CloseCode.TRY_AGAIN_LATER, str(error.detail))
        except HeadraceError as error:
            self._close(CloseCode.INTERNAL_ERROR, words_of(error))
        except Exception:
            self._close(CloseCode.INTERNAL_ERROR, FAULT)
            raise

    def listen(self) -> asyncio.Future[None]:
        """Done when nothing more can be told."""
        return self._left

    # What comes

    def data_received(self, data: bytes) -> None:
        try:
            self._services.bodies.take(len(data))
        except Refused as error:
            self._unread = memoryview(b"")
            self._framing.fail(CloseCode.TRY_AGAIN_LATER, str(error.detail))
            self._account()
            self._send()
            return
        self._held_bytes += len(data)
        self._unread = memoryview(bytes(self._unread) + data) if self._unread else memoryview(data)
        self._read()

    def _read(self) -> None:
        """As much as may be; the rest waits, and with it the client."""
        while self._unread and self._may_read:
            piece, self._unread = self._unread[:SLICE_BYTES], self._unread[SLICE_BYTES:]
            frames, whole = self._framing.frames, self._framing.texts
            came = self._framing.receive(piece)
            if not self._is_stopping:
                for text, debt in [(text, self._owed.add(len(text))) for text in came]:  # all held before one is let go
                    self._publish(text, debt)
            if self._framing.frames > frames:
                self._ping_since = None
            if not self._framing.is_partial:
                self._text_since = None
            elif self._text_since is None or self._framing.texts > whole:
                self._text_since = self._loop.time()
            self._account()
            self._send()
        self._read_or_pause()

    @property
    def _may_read(self) -> bool:
        return len(self._owed) < MAX_OWED and not self._is_write_paused and not self._is_lost

    def _read_or_pause(self) -> None:
        if self._transport.is_closing() or self._may_read is self._is_reading:
            return
        self._is_reading = self._may_read
        if self._is_reading:
            now = self._loop.time()  # it was we who did not listen
            self._text_since = None if self._text_since is None else now
            self._ping_since = None if self._ping_since is None else now
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def _account(self) -> None:
        """What is no longer held here is given back. It is never more than what came."""
        held = self._framing.held_bytes + self._owed.held_bytes + len(self._unread)
        self._services.bodies.give_back(self._held_bytes - held)
        self._held_bytes = held

    # Publishing

    def _publish(self, text: bytes, debt: Debt) -> None:
        try:
            said, record = texts.read(text)
        except texts.Unfit as error:
            self._answer(self._owed.settle(debt, texts.unfit(error)))
            return
        wish = self._wish

        def done(outcome: Published | HeadraceError) -> None:
            if isinstance(outcome, HeadraceError):
                answer = texts.refusal(said.ref, outcome)
            else:
                answer = texts.ack(said.ref, outcome)
            self._answer(self._owed.settle(debt, answer))

        self._services.broker.publishing.publish(
            wish.topic.name,
            record,
            done,
            partition=wish.partition if said.partition is None else said.partition,
            acks=wish.acks,
            create=False,
            message_id=said.id,
        )

    def _answer(self, frames: bytes) -> None:
        if self._is_lost:
            return
        if frames and self._framing.is_open:
            self._transport.write(frames)
        self._account()
        if self._is_stopping and not self._owed:
            self._close(CloseCode.GOING_AWAY, STOPPING)
        if self._may_read and not self._is_reading:
            self._loop.call_soon(self._read)  # not from inside of what is told here

    # What leaves

    def _send(self) -> None:
        data, is_last = self._framing.to_send()
        if not self._transport.is_closing():
            if data:
                self._transport.write(data)
            if is_last:
                self._transport.write_eof()
        if not self._framing.is_open and self._close_since is None:
            self._close_since = self._loop.time()
            self._end()

    def _ping(self) -> None:
        if self._ping_since is None:
            self._ping_since = self._loop.time()
            self._framing.ping()
            self._send()

    def _close(self, code: int, reason: str) -> None:
        self._framing.close(code, reason)
        self._send()

    def _end(self) -> None:
        if not self._left.done():
            self._left.set_result(None)
        self._wake()

    async def _when_taken(self) -> None:
        while self._is_write_paused and not self._left.done():
            self._drained = self._loop.create_future()
            await self._drained

    def _wake(self) -> None:
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    # For the connection, as an exchange

    @property
    def clients_turn_since(self) -> float | None:
        since = [] if self._close_since is None else [self._close_since]
        if self._is_reading:
            since += [begun for begun in (self._text_since, self._ping_since) if begun is not None]
        return min(since, default=None)

    @property
    def is_answering(self) -> bool:
        return not self._framing.is_ended

    def pause_writing(self) -> None:
        self._is_write_paused = True
        self._read_or_pause()

    def resume_writing(self) -> None:
        self._is_write_paused = False
        self._wake()
        self._read()

    def connection_lost(self, error: Exception | None) -> None:
        self._services.bodies.give_back(self._held_bytes)
        self._held_bytes, self._unread, self._is_lost = 0, memoryview(b""), True
        self._end()

    def shutdown(self) -> None:
        """What was taken is answered."""
        self._is_stopping = True
        if not self._owed:
            self._close(CloseCode.GOING_AWAY, STOPPING)
