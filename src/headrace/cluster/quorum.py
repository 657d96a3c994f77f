"""The metadata log of a quorum of one: it appends, syncs and thereby commits by itself.

The format is the one that several nodes will share, so that a lone node can be joined without a reformat:
- an entry is (term, index, data), kept in the same log that every partition uses: index = offset + 1, term = the
  batch's leader epoch, data = the value of the batch's one record, a list of metadata records that commit together;
- `state` holds the hard state (term, vote, commit), replaced whole and synced before it is relied on;
- `image` holds a snapshot of the image at (term, index), replaced whole; the log before it is then let go;
- `reserve` is room for the next start, which has to write on a full disk too.

Law: an entry is applied, and its proposer told, only after it was synced. One proposal is on its way at a time; the
next is made from the image that has the one before it.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TypeVar

import msgspec

from headrace.cluster import records
from headrace.cluster.image import Image
from headrace.cluster.records import MetadataRecord
from headrace.cluster.reserve import Reserve
from headrace.errors import (
    CorruptBatch,
    DamagedRange,
    DiskFull,
    FormatTooNew,
    HeadraceError,
    OffsetOutOfRange,
    StorageFailed,
)
from headrace.log.config import LogConfig, OnEvent, ignore_event
from headrace.log.log import Log
from headrace.log.reader import FileRead
from headrace.log.store import LogStore
from headrace.log.writing import explain, read_whole, replace_file
from headrace.ports import Background, Clock, Files
from headrace.records import batch, codec, kernel

METADATA_LOG_ID = b"headrace-metadat" + bytes(4)
SNAPSHOT_ENTRIES = 1000  # replayed at start: a few milliseconds
READ_BYTES = 1 << 20
SEGMENT_BYTES = 64 << 20  # snapshots let go of whole segments
_MAGIC = b"HRMETA01"
_KIND_BYTES = 6  # of it; two digits of a version follow

_Saveable = TypeVar("_Saveable", bound=msgspec.Struct)
Decide = Callable[[Image], list[MetadataRecord]]
Done = Callable[[HeadraceError | None], None]


class HardState(msgspec.Struct, frozen=True):
    term: int = 0
    vote: int = -1
    commit: int = 0


class SavedImage(msgspec.Struct, frozen=True):
    term: int
    index: int
    image: bytes


class Quorum:
    def __init__(
        self, store: LogStore, files: Files, clock: Clock, node_id: int, on_event: OnEvent = ignore_event
    ) -> None:
        """Blocks: reads what is there and begins a new term."""
        self._store, self._files, self._clock, self._on_event = store, files, clock, on_event
        self._folder = f"{store.root}/metadata"
        self._waiting: deque[tuple[Decide, Done, bool]] = deque()
        self._busy = self._recovering = self._saving = False
        self.on_apply: Callable[[list[MetadataRecord]], None] = lambda _: None
        try:
            self._start(node_id)
        except OSError as error:
            raise explain(error, f"reading {self._folder}") from error

    def _start(self, node_id: int) -> None:
        self._files.make_directory(self._folder)
        self._files.sync_directory(self._store.root)
        self._reserve = Reserve(self._files, f"{self._folder}/reserve")
        self._reserve.give_up()
        self._log = self._open_log()
        self.image, self._snapshot_index = self._load_image()
        self._applied = self._snapshot_index
        self._replay(self._log)
        saved = load_saved(self._files, f"{self._folder}/state", HardState) or HardState()
        # A quorum of one elects itself: a new term each start tells this run's entries from the last one's.
        self.hard_state = HardState(max(saved.term, self._log.epochs.latest) + 1, node_id, self._applied)
        self._save(f"{self._folder}/state", self.hard_state)

    def _open_log(self) -> Log:
        config = LogConfig(retention_ms=-1, retention_bytes=-1, segment_bytes=SEGMENT_BYTES)
        return self._store.open_log(f"{self._folder}/log", METADATA_LOG_ID, config, self._on_event)

    @property
    def index(self) -> int:
        """The last applied entry."""
        return self._applied

    @property
    def is_usable(self) -> bool:
        """Entries can be added."""
        return self._log.failed is None

    @property
    def term(self) -> int:
        return self.hard_state.term

    def propose(self, decide: Decide, done: Done, *, is_vital: bool = False) -> None:
        """`decide` is called with the image when its turn comes; its records are appended, synced, applied; then
        `done`. Without what is vital, a node on a full disk could not even let go of what retention says may go: it
        may use the room that is set aside."""
        self._waiting.append((decide, done, is_vital))
        self._next()

    def recover(self, background: Background) -> None:
        """After a failed sync, now and then until it works: opens the log anew. What is in it counts from then on,
        whatever its proposer was told."""
        if self._log.failed is None or self._recovering:
            return
        self._recovering = True
        self._log.close()
        background.run(self._open_log, self._recovered)

    def _recovered(self, log: Log | None, error: BaseException | None) -> None:
        self._recovering = False
        if log is not None:
            try:
                self._replay(log)
            except HeadraceError as damage:
                error = damage
                log.close()
        if log is None or error is not None:
            self._on_event("metadata.not-recovered", {"error": str(error)})
            return
        self._log = log
        self._next()

    def close(self) -> None:
        self._log.close()
        # The next start finds the commit by itself; a full disk must not hinder a stop.
        with contextlib.suppress(OSError):
            self._save(f"{self._folder}/state", msgspec.structs.replace(self.hard_state, commit=self._applied))

    def _next(self) -> None:
        while self._waiting and not self._busy:
            decide, done, is_vital = self._waiting.popleft()
            try:
                made = decide(self.image)
                if made:
                    self._append(made, is_vital)
            except HeadraceError as error:
                done(error)
                continue
            if not made:
                done(None)
                continue
            self._busy = True
            self._log.when_synced(self._log.written_offset, partial(self._synced, made, done))

    def _synced(self, made: list[MetadataRecord], done: Done, error: HeadraceError | None) -> None:
        self._busy = False
        if error is None:
            self._commit(made)
        done(error)
        self._next()

    def _append(self, made: list[MetadataRecord], is_vital: bool) -> None:
        try:
            self._write(made)
        except DiskFull:
            if not is_vital:
                raise
            with contextlib.suppress(OSError):  # what is wrong with the disk, the write tells
                self._reserve.give_up()
            self._write(made)

    def _write(self, made: list[MetadataRecord]) -> None:
        now_ms = self._clock.now_ms()
        data = bytearray(codec.encode([codec.Record(key=None, value=records.encode(made), timestamp_ms=now_ms)]))
        self._log.stage(data, batch.read_header(data), now_ms, self.hard_state.term)
        self._log.flush()

    def _commit(self, made: list[MetadataRecord]) -> None:
        self._apply(made)
        self._reserve.set_aside()
        if self._applied - self._snapshot_index >= SNAPSHOT_ENTRIES and not self._saving:
            self._snapshot()

    def _apply(self, made: list[MetadataRecord]) -> None:
        self._applied += 1
        for record in made:
            self.image.apply(record)
        self.on_apply(made)

    def _snapshot(self) -> None:
        """Only bounds the replay at the next start: when the disk refuses it, the entry after this one tries again."""
        self._saving = True
        saved = SavedImage(self.hard_state.term, self._applied, self.image.save())
        save = partial(self._save, f"{self._folder}/image", saved)
        self._store.services.background.run(save, partial(self._snapshot_saved, saved.index))

    def _snapshot_saved(self, index: int, _: object, error: BaseException | None) -> None:
        self._saving = False
        if error is None:
            self._snapshot_index = index
            if self._log.failed is None:  # else it is closed, or opened anew: the next snapshot lets go of these
                self._log.delete_records(index)

    def _load_image(self) -> tuple[Image, int]:
        saved = load_saved(self._files, f"{self._folder}/image", SavedImage)
        return (Image.load(saved.image), saved.index) if saved else (Image(), 0)

    def _replay(self, log: Log) -> None:
        try:
            while self._applied < log.written_offset:
                read = log.read(self._applied, READ_BYTES)
                found = read.run() if isinstance(read, FileRead) else read
                for piece in found.pieces:
                    for entry in codec.decode(piece):
                        if entry.offset < self._applied:
                            continue
                        assert entry.value is not None
                        self._apply(records.decode(entry.value))
        except (DamagedRange, OffsetOutOfRange, CorruptBatch) as error:
            raise StorageFailed(
                f"{self._folder}/log is damaged at entry {self._applied + 1}, and without it nobody knows what topics "
                f"there are: restore the data directory from a backup"
            ) from error

    def _save(self, path: str, value: msgspec.Struct) -> None:
        body = msgspec.msgpack.encode(value)
        replace_file(self._files, path, _MAGIC + kernel.crc32c(body).to_bytes(4, "big") + body, durable=True)


def load_saved(files: Files, path: str, kind: type[_Saveable]) -> _Saveable | None:
    """`state` or `image` of a metadata folder; None when there is none."""
    if not files.exists(path):
        return None
    data = read_whole(files, path)
    body = data[len(_MAGIC) + 4 :]
    magic, checksum = data[: len(_MAGIC)], data[len(_MAGIC) : len(_MAGIC) + 4]
    if magic != _MAGIC and magic[:_KIND_BYTES] == _MAGIC[:_KIND_BYTES] and magic[_KIND_BYTES:].isdigit():
        raise FormatTooNew(f"{path} is not in a format that this version reads")
    if magic != _MAGIC or int.from_bytes(checksum, "big") != kernel.crc32c(body):
        raise StorageFailed(f"{path} is damaged: restore it from a backup or from another node")
    return msgspec.msgpack.decode(body, type=kind)
