"""One connection of a json client: one request, its reply, and the end; or, begun with a newline, one a line.

Publishes wait for the disk side by side; a consume is alone, so that it sees what was published before it on the same
connection. Replies come in the order of requests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.publishing.published import Published
from headrace.doors.json import reading, topics
from headrace.doors.tcp.answers import Answer
from headrace.doors.tcp.connection import TcpConnection
from headrace.doors.tcp.paging import Paged
from headrace.doors.tcp.pipeline import Pipeline
from headrace.errors import HeadraceError
from headrace.records.record import Record
from headrace.wire import content
from headrace.wire.json import ranges, replies, requests
from headrace.wire.json.framing import Broken, Event, Requests
from headrace.wire.json.requests import Consume, CreateTopic, Publish, Refused, Request
from headrace.wire.ranges import Range

if TYPE_CHECKING:
    from headrace.doors.json.door import JsonDoor

MALFORMED = "malformed"
DONE = "done"  # the one request of a connection is answered


class JsonConnection(TcpConnection):
    def __init__(self, door: JsonDoor) -> None:
        super().__init__(door)
        self.door, self.broker = door, door.broker
        self._requests = Requests(door.limits.max_frame_bytes)
        self._pipeline: Pipeline[Request | Broken] = Pipeline(self, self._take, self._is_alone, read=self._read)

    # Hooks

    def received(self, data: memoryview) -> None:
        self._pipeline.received(data)

    def eof_received(self) -> bool:
        if not self.closed:
            self._pipeline.put(map(_parsed, self._requests.end()))
        return super().eof_received()

    def has_room(self) -> None:
        self._pipeline.resume()

    @property
    def unfinished_bytes(self) -> int:
        return self._requests.unfinished_bytes + self._pipeline.unread_bytes

    def words_when_refused(self, why: str) -> bytes:
        return replies.failed(why)

    # Requests

    def _read(self, data: memoryview) -> list[Request | Broken]:
        return [_parsed(event) for event in self._requests.take(data)]

    def _is_alone(self, request: Request | Broken) -> bool:
        return not isinstance(request, Publish) or topics.is_missing(self.broker, request)

    def _take(self, request: Request | Broken, answer: Answer) -> None:
        self._metrics.requests += 1
        match request:
            case Publish():
                if topics.is_missing(self.broker, request):
                    self.tcp.spawn(self._make_and_publish(request, answer), self)
                else:
                    self._publish(request, answer)
            case Consume():
                self.tcp.spawn(self._consume(request, answer), self)
            case Range():
                self.tcp.spawn(self._consume_range(request, answer), self)
            case CreateTopic():
                self.tcp.spawn(self._create(request, answer), self)
            case Refused(why):
                self._fail(answer, why)
            case Broken(why):
                self._fail(answer, why)
                self.close(MALFORMED, why)

    def _publish(self, request: Publish, answer: Answer) -> None:
        self.broker.publishing.publish(
            request.topic,
            Record(None, request.value),
            partial(self._published, request, answer),
            partition=request.partition,
            acks=request.acks,
        )

    def _published(self, request: Publish, answer: Answer, published: Published | HeadraceError) -> None:
        if isinstance(published, HeadraceError):
            self._fail(answer, str(published))
        else:
            self._metrics.published += 1
            self._give(answer, replies.published(request, published.offset))

    async def _make_and_publish(self, request: Publish, answer: Answer) -> None:
        try:
            await topics.make(self.broker, request)
        except HeadraceError as error:
            self._fail(answer, str(error))
        else:
            self._publish(request, answer)

    async def _consume(self, request: Consume, answer: Answer) -> None:
        try:
            record = await reading.find(self.broker, request)
        except HeadraceError as error:
            self._fail(answer, str(error))
            return
        if record is None:
            self._give(answer, replies.NO_MESSAGE)
        else:
            self._metrics.delivered += 1
            self._give(
                answer, replies.consumed(content.value_of(record), record.offset if request.with_offset else None)
            )

    async def _consume_range(self, request: Range, answer: Answer) -> None:
        try:
            paged = await reading.find_page(self.door, request)
        except HeadraceError as error:
            self._fail(answer, str(error))
            return
        match paged:
            case None:
                self._give(answer, replies.NO_MESSAGE)
            case Refused(why):
                self._fail(answer, why)
            case Paged(pieces, next_place):
                self._metrics.delivered += len(pieces)
                self._give(answer, ranges.page(pieces, next_place))

    async def _create(self, request: CreateTopic, answer: Answer) -> None:
        try:
            await topics.create(self.broker, request)
        except HeadraceError as error:
            self._fail(answer, str(error))
        else:
            self._give(answer, replies.created(request.topic, request.partitions))

    # Replies

    def _fail(self, answer: Answer, why: str) -> None:
        self._metrics.errors += 1
        self._give(answer, replies.failed(why))

    def _give(self, answer: Answer, reply: bytes) -> None:
        if self._requests.is_lines:  # in which a line end can only stand between the parts of a large value
            self._pipeline.give(answer, reply.replace(b"\n", b" ") + b"\n")
        else:
            self._pipeline.give(answer, reply)
            self.close(DONE)


def _parsed(event: Event) -> Request | Broken:
    return event if isinstance(event, Broken) else requests.parse(event.data)
