"""One connection of a lines client: a line is a command, and each is answered, in their order.

PUBs wait for the disk side by side; those of one read that follow each other are one run (publishing.py). Every other
command that looks at topics or changes what the client gets is alone: SUB, then PUB on one connection delivers what
was published; PUB, then HISTORY shows it.

A long history goes out page by page as the client takes it. A subscriber that is full waits for room and reads on from
the log; nobody waits for it.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.topic import check_readable
from headrace.doors.lines import history, shown
from headrace.doors.lines.publishing import PublishRun, gathered, publish
from headrace.doors.lines.subscriber import LinesSubscriber
from headrace.doors.tcp.answers import Answer
from headrace.doors.tcp.connection import TcpConnection
from headrace.doors.tcp.pipeline import Pipeline
from headrace.errors import HeadraceError
from headrace.wire.lines import messages
from headrace.wire.lines.commands import (
    Acknowledge,
    Command,
    History,
    Ping,
    Quit,
    Range,
    Refused,
    Since,
    Subscribe,
)
from headrace.wire.lines.framing import Lines

if TYPE_CHECKING:
    from headrace.doors.lines.door import LinesDoor

Work = Command | PublishRun | None
_OVERLONG = None  # in the place of a command: the line is too long to be one
_TOGETHER = frozenset((PublishRun, Ping, Refused, Acknowledge))


class LinesConnection(TcpConnection):
    def __init__(self, door: LinesDoor) -> None:
        super().__init__(door)
        self.door, self.broker = door, door.broker
        self._lines = Lines(door.limits.max_frame_bytes)
        self._pipeline: Pipeline[Work] = Pipeline(self, self._take, _is_alone, _count, self._read)
        self._subscriber = LinesSubscriber(self, self.broker)
        self._room: asyncio.Future[None] | None = None  # a history waits for it

    # Hooks

    def opened(self) -> None:
        self.send_soon(messages.GREETING)

    def received(self, data: memoryview) -> None:
        self._pipeline.received(data)

    def eof_received(self) -> bool:
        if not self.closed:
            self._pipeline.put(gathered(self._lines.end()))
        return super().eof_received()

    def has_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        self._pipeline.resume()
        self._subscriber.resume()

    def gone(self) -> None:
        self._subscriber.close()

    @property
    def unfinished_bytes(self) -> int:
        return self._lines.unfinished_bytes + self._pipeline.unread_bytes

    def words_when_refused(self, why: str) -> bytes:
        return f"ERR {why}\n".encode()

    # For its subscriber

    def deliver(self, lines: bytes, records: int) -> bool:
        """False: there is no room for more now."""
        self._metrics.delivered += records
        if lines:
            self.send_soon(lines)
        return not self.is_full

    def count_error(self) -> None:
        self._metrics.errors += 1

    # Commands

    def _read(self, data: memoryview) -> list[Work]:
        found: list[Work] = list(gathered(self._lines.take(data)))
        if self._lines.is_overlong:
            found.append(_OVERLONG)
        return found

    def _take(self, command: Work, answer: Answer) -> None:
        self._metrics.requests += answer.count
        match command:
            case PublishRun():
                publish(self.broker, command, partial(self._published, command.topic, answer))
            case Ping():
                self._pipeline.give(answer, messages.PONG)
            case Refused(reply):
                self._metrics.errors += 1
                self._pipeline.give(answer, f"{reply}\n".encode())
            case Acknowledge(message_id):
                self._subscriber.acknowledge(message_id, partial(self._pipeline.give, answer))
            case Subscribe(topic, None):
                self._pipeline.give(answer, self._subscriber.subscribe(topic))
            case Subscribe():
                self.tcp.spawn(self._join(command, answer), self)
            case History() | Range() | Since():
                self.tcp.spawn(self._tell(command, answer), self)
            case Quit():
                self._pipeline.give(answer, messages.BYE)
                self.close("quit")
            case _:
                self.close("malformed", f"a line is over {self._limits.max_frame_bytes} bytes")

    def _published(self, topic: str, answer: Answer, replies: bytes, errors: int) -> None:
        self._metrics.errors += errors
        self._metrics.published += answer.count - errors
        if self._subscriber.is_in_groups:
            self._subscriber.when_sent(topic, partial(self._pipeline.give, answer, replies))
        else:
            self._pipeline.give(answer, replies)

    async def _join(self, command: Subscribe, answer: Answer) -> None:
        self._pipeline.give(answer, await self._subscriber.join(command))

    async def _tell(self, command: History | Range | Since, answer: Answer) -> None:
        """An unknown topic holds nothing."""
        end = messages.HISTORY_END
        topic = self.broker.topic(command.topic)
        try:
            check_readable(command.topic)
            if topic is not None:
                async for rows in history.pages(self.broker, topic, command):
                    self.send(shown.lines(messages.HISTORY, topic.name, rows))
                    await self._has_room()
        except HeadraceError as error:
            self._metrics.errors += 1
            end = messages.failed(error)
        self._pipeline.give(answer, end)

    async def _has_room(self) -> None:
        while self.is_full and not self.closed:
            self._room = self.tcp.loop.create_future()
            await self._room


def _is_alone(command: Work) -> bool:
    return type(command) not in _TOGETHER


def _count(command: Work) -> int:
    return len(command.texts) if isinstance(command, PublishRun) else 1
