"""`GET /topics/{topic}/stream`: records as they come, as server-sent events.

An event's `id` says where it was: a browser that lost the connection sends it back (`Last-Event-ID`) and misses
nothing. Each client reads the log for itself, a page when it took the one before: a slow one falls behind and holds
up nobody. What is on its way counts among the door's answers; when there is no room for it the stream is cut, and the
client comes back.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query, Response

from headrace.broker.partition import Partition
from headrace.broker.topic import Topic
from headrace.doors.http.ranges import fitting, time_ms
from headrace.doors.http.refusals import BAD, MISSING, NOT_FOUND, Refused
from headrace.doors.http.services import Services
from headrace.doors.http.shapes.base import MAX_OFFSET, Documented, refusals
from headrace.doors.http.streaming import Streamed
from headrace.doors.http.values import encoded
from headrace.doors.http.waiting import Client
from headrace.errors import OffsetOutOfRange

SSE = "text/event-stream"
PAGE_RECORDS, PAGE_BYTES = 250, 32 << 10  # of one piece: what a stalled client holds
MAX_PARTITIONS = 64  # of one stream: an event's id names all of them
QUIET_S = 15.0  # after so long without a record a comment shows that the connection lives
BEGIN = b"retry: 1000\n\n"
NOTHING = "-1"  # of a partition, had come when the event was made
SIGN = b":\n\n"
EXAMPLE = 'id: 41\ndata: {"offset":41,"ts_ms":1760000000000,"key":null,"value":"hello","headers":{}}\n\n'
_EVENTS: Documented = {200: {"content": {SSE: {"schema": {"type": "string"}, "example": EXAMPLE}}}}


def router(services: Services) -> APIRouter:
    routes = APIRouter(tags=["records"], responses=refusals(_400="Last-Event-ID is the id of an event", _404=NOT_FOUND))

    @routes.get("/topics/{topic:path}/stream", responses=_EVENTS, response_class=Response)
    async def stream(
        topic: str,
        from_: Annotated[int | None, Query(alias="from", ge=0, le=MAX_OFFSET, description="First offset.")] = None,
        since: Annotated[str | None, Query(description="First record at or after that time.")] = None,
        partition: Annotated[int | None, Query(ge=0, lt=1 << 31, description="Else all.")] = None,
        last_event_id: Annotated[str | None, Header(description="The id of the last event that came.")] = None,
    ) -> Response:
        """Records as they come, without end; from now on, unless the request says from where."""
        events = Events(services, services.topic(topic), partition)
        since_ms = time_ms(since, "since")
        if last_event_id:
            events.go_on_after(last_event_id)
        elif from_ is not None or since_ms is not None:
            await events.begin_at(from_, since_ms)
        return Streamed(events.pieces, SSE, {"cache-control": "no-cache", "x-accel-buffering": "no"})

    return routes


class Events:
    def __init__(self, services: Services, topic: Topic, partition: int | None) -> None:
        self._services, self._topic = services, topic
        count = len(topic.partitions)
        if partition is not None and partition >= count:
            raise Refused(MISSING, f"no partition {partition}: topic {topic.name!r} has {count}")
        if partition is None and count > MAX_PARTITIONS:
            raise Refused(BAD, f"partition is required: topic {topic.name!r} has {count}, over {MAX_PARTITIONS}")
        self._partitions = topic.partitions[:] if partition is None else [topic.partitions[partition]]
        self._next: dict[int, int] = {}  # offset by partition, once it is known

    def go_on_after(self, event_id: str) -> None:
        """`41`, or `0:41,1:7` where there are several partitions."""
        for part in event_id.split(",")[: MAX_PARTITIONS + 1]:
            left, colon, right = part.strip().partition(":")
            index, offset = (left, right) if colon else (str(self._partitions[0].index), left)
            if not (_is_number(index) and (offset == NOTHING or _is_number(offset))):
                raise Refused(BAD, "Last-Event-ID is the id of an event of this stream")
            self._next[int(index)] = int(offset) + 1

    async def begin_at(self, offset: int | None, since_ms: int | None) -> None:
        for partition in self._partitions:
            if offset is not None:
                self._next[partition.index] = offset
            elif since_ms is not None:
                self._next[partition.index] = await self._services.broker.reading.offset_at(partition, since_ms)

    async def pieces(self, client: Client) -> AsyncGenerator[bytes, None]:
        answers = self._services.answers
        for partition in self._partitions:
            await partition.opened()
            self._next.setdefault(partition.index, partition.last_stable_offset)
        yield BEGIN
        with self._services.waiting.watching(self._partitions, client) as watching:
            while not watching.is_stopping:
                is_quiet = True
                for partition in self._partitions:
                    piece = await self._piece(partition)
                    if piece:
                        is_quiet = False
                        size = min(len(piece), answers.limit)  # a record that is larger goes alone
                        answers.take(size)
                        try:
                            yield piece
                        finally:
                            answers.give_back(size)
                if is_quiet and not await watching.wait(QUIET_S) and not watching.is_stopping:
                    yield SIGN

    async def _piece(self, partition: Partition) -> bytes:
        at = self._next[partition.index]
        if partition.log is not None and partition.start_offset <= at and at >= partition.last_stable_offset:
            return b""
        try:
            async with self._services.streams_reading:
                page = await self._services.broker.reading.page(
                    partition, at, max_records=PAGE_RECORDS, max_bytes=PAGE_BYTES
                )
        except OffsetOutOfRange as error:
            if at >= error.start:
                return b""  # yet to come
            self._next[partition.index] = error.start
            lost = b'event: lost\ndata: {"partition":%d,"from":%d,"to":%d}\n\n'
            return lost % (partition.index, at, error.start)
        page = fitting(page, PAGE_BYTES)
        several = len(self._topic.partitions) > 1
        events = []
        for record, shown in zip(
            page.records, encoded(page.records, partition.index if several else msgspec.UNSET), strict=True
        ):
            self._next[partition.index] = record.offset + 1
            events.append(b"id: %s\ndata: %s\n\n" % (self._id(record.offset), bytes(shown)))
        self._next[partition.index] = page.next_offset
        if len(page.records) == PAGE_RECORDS:
            await asyncio.sleep(0)  # others have their turn
        return b"".join(events)

    def _id(self, offset: int) -> bytes:
        if len(self._partitions) == 1:
            return b"%d" % offset
        places = self._next
        return ",".join(f"{index}:{places[index] - 1}" for index in places).encode()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19
