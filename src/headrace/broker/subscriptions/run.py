"""A run: a stretch of one partition's records on its way to subscribers.

Everybody who is at the same position gets the same run, so that it is decoded once and encoded once for each form that
a door sends. It holds committed records only: no control batches, nothing of aborted transactions. So a run may be
empty. A batch that does not decode is left out, and told of: it cannot be delivered to anybody.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from headrace.broker.topic import Topic
from headrace.errors import CorruptBatch
from headrace.ports import Buffer
from headrace.records import codec, kernel
from headrace.records.header import BatchHeader
from headrace.records.record import Record

# Producer id, offset of its transaction's first batch, offset of the marker that aborted it.
Aborted = tuple[int, int, int]
OnUnreadable = Callable[[int, str], None]  # the offset of the batch, and why


class Run:
    __slots__ = (
        "_aborted",
        "_count",
        "_forms",
        "_on_unreadable",
        "_pieces",
        "_records",
        "first_offset",
        "next_offset",
        "partition",
        "topic",
    )

    def __init__(
        self,
        topic: Topic,
        partition: int,
        first_offset: int,
        next_offset: int,
        pieces: Sequence[Buffer],
        aborted: Sequence[Aborted] = (),
        on_unreadable: OnUnreadable | None = None,
    ) -> None:
        self.topic, self.partition, self.first_offset, self.next_offset = topic, partition, first_offset, next_offset
        self._pieces, self._aborted, self._on_unreadable = pieces, aborted, on_unreadable
        self._records: list[Record] | None = None
        self._count: int | None = None
        self._forms: dict[str, bytes] = {}

    def __repr__(self) -> str:
        return f"<run {self.topic.name}/{self.partition} {self.first_offset}..{self.next_offset - 1}>"

    @property
    def records(self) -> list[Record]:
        """From `first_offset` on, in order. Offsets may have gaps."""
        if self._records is None:
            self._records = list(self._decoded())
        return self._records

    @property
    def count(self) -> int:
        """Of its records."""
        if self._count is None:
            self._count = len(self.records)
        return self._count

    @count.setter
    def count(self, count: int) -> None:
        """Who encoded it without decoding has counted."""
        self._count = count

    def batches(self) -> Iterator[tuple[BatchHeader, Buffer]]:
        """For who needs no records: each batch of it with the records' bytes, without compression. The first may begin
        before `first_offset`."""
        for piece in self._pieces:
            for header, body in codec.split(piece, check_crc=False):
                if header.is_control or not header.record_count or self._is_aborted(header):
                    continue
                try:
                    yield header, codec.records_bytes(header, body)
                except CorruptBatch as error:
                    self.leave_out(header, error)

    def leave_out(self, header: BatchHeader, error: CorruptBatch) -> None:
        """A batch that does not decode."""
        if self._on_unreadable is not None:
            self._on_unreadable(header.base_offset, str(error))

    def encoded(self, form: str, encode: Callable[[Run], bytes]) -> bytes:
        """The run in a door's form, made once for all of its subscribers. `form` names it among all doors."""
        found = self._forms.get(form)
        if found is None:
            found = self._forms[form] = encode(self)
        return found

    def is_encoded(self, form: str) -> bool:
        return form in self._forms

    def give(self, form: str, encoded: bytes) -> None:
        """Who brought the records had this form at hand: there is one for each offset."""
        self._forms[form] = encoded
        self._count = self.next_offset - self.first_offset

    def _decoded(self) -> Iterator[Record]:
        for header, body in self.batches():
            try:
                records = _records(header, body)
            except CorruptBatch as error:
                self.leave_out(header, error)
                continue
            if header.base_offset < self.first_offset:
                records = [record for record in records if record.offset >= self.first_offset]
            yield from records

    def _is_aborted(self, header: BatchHeader) -> bool:
        return header.is_transactional and any(
            producer_id == header.producer_id and first <= header.base_offset < marker
            for producer_id, first, marker in self._aborted
        )


def _records(header: BatchHeader, body: Buffer) -> list[Record]:
    return kernel.decode_records(
        body,
        header.record_count,
        header.base_offset,
        header.base_timestamp,
        header.max_timestamp if header.is_log_append_time else None,
    )
