"""The files in which the original of this protocol kept its messages, read without any file being touched here.

A partition is `<topic>_p<N>.log`: [length u32][frame], again and again, each frame a DATA with the offset as its
sequence number. Beside it lies `<topic>_p<N>.idx`: where each length word is, u32 each. All is big-endian.

What is no such entry is told as a `Fault` with its place. With the index, reading goes on at the next place that it
knows; without, the rest is lost, for nothing says where the next entry begins. A torn last entry is what a crash
leaves, and costs no other. An index that does not agree with the log is told too; the log is what counts.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from struct import Struct
from typing import NamedTuple

from headrace.records.record import Record
from headrace.wire.binary.decoder import MAX_FRAME_BYTES, Decoder
from headrace.wire.binary.frame import HEAD_BYTES, Frame, MalformedFrame, Type
from headrace.wire.binary.messages import record_of

LOG, INDEX = ".log", ".idx"
_LENGTH = Struct(">I")


class Stored(NamedTuple):
    position: int  # of its length word in the file
    offset: int
    frame: Frame

    def record(self) -> Record:
        """As the door would have written it."""
        return record_of(self.frame, self.frame.timestamp_ms)


class Fault(NamedTuple):
    position: int
    why: str
    is_cut: bool = False  # nothing but the beginning of an entry: what a crash leaves at the end of a file


def topic_of(file_name: str) -> tuple[str, int] | None:
    """The topic and its partition; None: no file of messages."""
    topic, mark, partition = file_name.removesuffix(LOG).rpartition("_p")
    if not file_name.endswith(LOG) or not mark or not topic or not (partition.isascii() and partition.isdigit()):
        return None
    return topic, int(partition)


def index_of(log_name: str) -> str:
    """The name of the index beside a log."""
    return log_name.removesuffix(LOG) + INDEX


def entries(chunks: Iterable[bytes], index: bytes | None = None) -> Iterator[Stored | Fault]:
    """Of one log, read in pieces of any size; `index` is the whole file beside it. No more than a piece and an entry
    are held."""
    places = None if index is None else [place for (place,) in _LENGTH.iter_unpack(index[: len(index) & ~3])]
    source, count, next_offset = _Source(chunks), 0, 0
    while source.has(1):
        position = source.position
        entry = _entry(source, next_offset)
        if isinstance(entry, Fault):
            yield entry
            if places is None or not source.skip_to(_after(places, position)):
                return
            count = bisect_right(places, source.position - 1)
            continue
        if places is not None and (count >= len(places) or places[count] != position):
            said = "ends before it" if count >= len(places) else f"says {places[count]}"
            yield Fault(position, f"entry {count} is here, and the index {said}: the log counts")
            places = None
        yield entry
        count, next_offset = count + 1, entry.offset + 1
    if places is not None and len(places) > count:
        yield Fault(source.position, f"the index has {len(places)} entries, the log {count}", is_cut=True)


def _entry(source: _Source, least: int) -> Stored | Fault:
    """The next one, which is then behind us; of a fault, nothing is."""
    position = source.position
    if not source.has(_LENGTH.size):
        return Fault(position, "the file ends within a length: a crash cut it off", is_cut=True)
    (length,) = _LENGTH.unpack(source.peek(_LENGTH.size))
    if not HEAD_BYTES <= length <= MAX_FRAME_BYTES:
        return Fault(position, f"{length} is no length of a frame")
    if not source.has(_LENGTH.size + length):
        if _is_followed(source.rest()):
            return Fault(position, f"{length} is not the length of what is here: entries follow within it")
        return Fault(position, f"the file ends within a frame of {length} bytes: a crash cut it off", is_cut=True)
    data = source.peek(_LENGTH.size + length)[_LENGTH.size :]
    try:
        frames = list(Decoder().feed(data))
    except MalformedFrame as error:
        return Fault(position, str(error))
    if len(frames) != 1 or len(data) != _LENGTH.unpack_from(data)[0]:
        return Fault(position, "the entry and its frame differ in length")
    [frame] = frames
    if frame.type != Type.DATA or frame.sequence < least:
        return Fault(position, f"a frame of type {frame.type} with offset {frame.sequence}, where {least} is due")
    source.take(_LENGTH.size + length)
    return Stored(position, frame.sequence, frame)


def _is_followed(rest: bytes) -> bool:
    """Whether behind the first length an entry begins: its length twice, and that it is data. Looked for where a length
    reaches past the end, since one that was damaged would hide all behind it as a torn one."""
    data = Type.DATA.to_bytes(4, "big")
    at = rest.find(data, 2 * _LENGTH.size + 1)
    while at != -1:
        begin = at - 2 * _LENGTH.size
        if begin > 0 and rest[begin : begin + 4] == rest[begin + 4 : at]:
            (length,) = _LENGTH.unpack_from(rest, begin)
            if HEAD_BYTES <= length <= MAX_FRAME_BYTES:
                return True
        at = rest.find(data, at + 1)
    return False


def _after(places: list[int], position: int) -> int | None:
    at = bisect_right(places, position)
    return places[at] if at < len(places) else None


class _Source:
    """Bytes that come in pieces, looked at from a position on."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)
        self._held = bytearray()
        self._at = 0  # in what is held
        self.position = 0  # in the file

    def has(self, size: int) -> bool:
        while len(self._held) - self._at < size:
            chunk = next(self._chunks, None)
            if chunk is None:
                return False
            del self._held[: self._at]
            self._at = 0
            self._held += chunk
        return True

    def peek(self, size: int) -> bytes:
        return bytes(self._held[self._at : self._at + size])

    def rest(self) -> bytes:
        """All to the end: asked for where that is less than an entry."""
        return bytes(self._held[self._at :])

    def take(self, size: int) -> None:
        self._at += size
        self.position += size

    def skip_to(self, position: int | None) -> bool:
        """False: there is no such place."""
        while position is not None and self.position < position:
            if not self.has(1):
                return False
            self.take(min(position - self.position, len(self._held) - self._at))
        return position is not None and self.has(1)
