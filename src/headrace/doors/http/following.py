"""Following a topic: its records as they come, page by page, without end. What server-sent events and WebSockets share.

Each client reads the log for itself, a page when it took the one before: a slow one falls behind and holds up nobody.
What is on its way counts among the door's answers; when there is no room for it, the client is cut off and comes back
with the place of the last record that it got.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Protocol

from headrace.broker.partition import Partition
from headrace.broker.ranges import fitting
from headrace.broker.topic import Topic
from headrace.doors.http.refusals import BAD, MISSING, Refused
from headrace.doors.http.services import Services
from headrace.doors.http.values import identified
from headrace.doors.http.waiting import Listening
from headrace.errors import OffsetOutOfRange

PAGE_RECORDS, PAGE_BYTES = 250, 32 << 10  # of one piece: what a stalled client holds
MAX_PARTITIONS = 64  # of one client: the place of a record names all of them
QUIET_S = 15.0  # after so long without a record a sign is due that the connection lives
NOTHING = "-1"  # of a partition, had come when the place was made


class Format(Protocol):
    """How records leave."""

    names_partition: bool  # also of a topic that has one
    place_name: str  # what the client knows the place of a record as

    def record(self, place: bytes, shown: bytes) -> bytes: ...

    def lost(self, partition: int, first: int, end: int) -> bytes:
        """Retention has taken them, the end left out."""
        ...


class Following:
    def __init__(self, services: Services, topic: Topic, partition: int | None, form: Format) -> None:
        self._services, self._topic, self._form = services, topic, form
        count = len(topic.partitions)
        if partition is not None and partition >= count:
            raise Refused(MISSING, f"no partition {partition}: topic {topic.name!r} has {count}")
        if partition is None and count > MAX_PARTITIONS:
            raise Refused(BAD, f"partition is required: topic {topic.name!r} has {count}, over {MAX_PARTITIONS}")
        self._partitions = topic.partitions[:] if partition is None else [topic.partitions[partition]]
        self._next: dict[int, int] = {}  # offset by partition, once it is known

    def go_on_after(self, place: str, name: str) -> None:
        """`41`, or `0:41,1:7` where there are several partitions."""
        for part in place.split(",")[: MAX_PARTITIONS + 1]:
            left, colon, right = part.strip().partition(":")
            index, offset = (left, right) if colon else (str(self._partitions[0].index), left)
            if not (_is_number(index) and (offset == NOTHING or _is_number(offset))):
                raise Refused(BAD, f"{name} is the {self._form.place_name} of this stream")
            self._next[int(index)] = int(offset) + 1

    async def begin_at(self, offset: int | None, since_ms: int | None) -> None:
        for partition in self._partitions:
            if offset is not None:
                self._next[partition.index] = offset
            elif since_ms is not None:
                self._next[partition.index] = await self._services.broker.reading.offset_at(partition, since_ms)

    async def opened(self) -> None:
        """From now on nothing is missed: where nothing else was said, it begins at the end."""
        for partition in self._partitions:
            await partition.opened()
            self._next.setdefault(partition.index, partition.last_stable_offset)

    async def pieces(self, client: Listening) -> AsyncGenerator[bytes, None]:
        """Each for when the client took the one before. Empty: a sign of life is due."""
        answers = self._services.answers
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
                    yield b""

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
            return self._form.lost(partition.index, at, error.start)
        page = fitting(page, PAGE_BYTES)
        is_named = self._form.names_partition or len(self._topic.partitions) > 1
        events = []
        for record in page.records:
            self._next[partition.index] = record.offset + 1
            shown = identified(self._topic.name, partition.index, record, names_partition=is_named)
            events.append(self._form.record(self._place(record.offset), shown))
        self._next[partition.index] = page.next_offset
        if len(page.records) == PAGE_RECORDS:
            await asyncio.sleep(0)  # others have their turn
        return b"".join(events)

    def _place(self, offset: int) -> bytes:
        if len(self._partitions) == 1:
            return b"%d" % offset
        places = self._next
        return ",".join(f"{index}:{places[index] - 1}" for index in places).encode()


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 19
