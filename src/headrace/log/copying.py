"""A copy of a log while another process writes to it: a prefix of the log, whole batches, that opens as it is.

It works by reading alone, and takes no lock: the log does not know. What makes that safe is the order of things:

1. `survey` looks at everything once: the snapshot first, then the names, the snapshot again, then the sizes. So the
   snapshot tells of nothing that the sizes do not have, what it names is there or was let go since, and a segment that
   has a successor is complete. From here on it is fixed where the copy ends, however long copying takes.
2. `copy` takes the bytes, the newest segment first. A segment that retention lets go meanwhile takes all older ones
   with it: the copy then starts later, as the log does. Batches are checked on the way, so that damage is found when
   there is still an original to look at.
3. The copy is then opened by recovery's own walk, in the target: it cuts off the batch that was being written, knows
   holes from torn ends by the same proofs, and tells what a new snapshot has to say.
4. A segment that compaction replaces meanwhile is gone without its successor having been surveyed: the snapshot that is
   there by then says so, and the survey is made again. What was copied by then is not copied twice.
5. `is_settled` looks at the original again. A write that the disk refused half-way is taken back by its writer, and a
   log's end can be cut off: what was copied may then not be what the log holds, and is copied anew.

Nothing that was copied before is ever written to in place: the same bytes may belong to an older backup as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from headrace.errors import BackupUnsettled
from headrace.log.config import LogConfig
from headrace.log.copied import CopiedFile, Through, digest_of, digest_of_file, put_file
from headrace.log.damage import Holes, load_holes, save_holes
from headrace.log.format import (
    DAMAGE,
    DELETED,
    INDEX,
    LOG,
    NEW,
    SEGMENT_HEADER_BYTES,
    SNAPSHOT,
    Mark,
    segment_name,
)
from headrace.log.recovered import Origin, Recovered
from headrace.log.rescan import Rescan, bases_of
from headrace.log.revisions import choose
from headrace.log.snapshot import Snapshot, decode_snapshot, encode_snapshot, save_snapshot
from headrace.log.walk import Walk
from headrace.log.writing import read_whole
from headrace.ports import Files

LOOKS = 20  # a snapshot is written with each segment, or a second after 64 MiB
SETTLED_BYTES = 4096  # of the copy's end, compared with the original: the last batch's header is in it, or its body

Pace = Callable[[int], None]  # told of every so many bytes; it may wait


class SegmentKey(NamedTuple):
    """Whose bytes: those of a complete segment never change within a generation."""

    log_id: bytes
    generation: int
    base: int
    revision: int = 0


class Earlier(Protocol):
    """Segments that were copied before."""

    def take(self, key: SegmentKey, size: int, path: str) -> str | None:
        """Puts the file at `path` and gives its digest, if there is one of that size."""
        ...

    def note(self, key: SegmentKey, file: CopiedFile, path: str) -> None:
        """A complete segment was copied to `path`, and synced."""
        ...


class Survey(NamedTuple):
    folder: str
    log_id: bytes
    snapshot: bytes  # empty: there is none
    generation: int
    sizes: dict[int, int]  # of the segments, by base
    revisions: dict[int, int]
    damage: dict[str, bytes]
    deleted: list[int]  # bases of segments on their way out
    mark: Mark | None


class CopiedLog(NamedTuple):
    start_offset: int = 0
    next_offset: int = 0
    mark: Mark | None = None  # what a journal beside the copy may say: all of it is synced
    last_name: str = ""  # the file of the last segment
    files: tuple[CopiedFile, ...] = ()
    reused_bytes: int = 0
    holes: int = 0
    damage: tuple[str, ...] = ()  # that nobody knew of before


def survey(files: Files, folder: str, log_id: bytes, mark: Mark | None) -> Survey:
    """`mark` is the newest in the journal, which was read before."""
    try:
        return _survey(files, folder, log_id, mark)
    except FileNotFoundError as error:
        raise BackupUnsettled(f"{folder} is being deleted, or let go of in part, at this moment") from error


def _survey(files: Files, folder: str, log_id: bytes, mark: Mark | None) -> Survey:
    for _ in range(LOOKS):
        raw = _read(files, f"{folder}/{SNAPSHOT}")
        names = files.list(folder) if files.exists(folder) else []
        if _read(files, f"{folder}/{SNAPSHOT}") == raw:
            break  # so the names are from the snapshot's time: what it names is here, or on its way out
    else:
        raise BackupUnsettled(f"{folder} changes all the time")
    snapshot = decode_snapshot(raw, folder) if raw else None
    if snapshot is not None and snapshot.cutting:
        raise BackupUnsettled(f"the end of {folder} is being cut off at this moment")
    revisions, _, _ = choose(files, folder, names, snapshot, log_id)
    bases = sorted(revisions)
    paths = {base: f"{folder}/{segment_name(base, LOG, revision)}" for base, revision in revisions.items()}
    sizes = {base: _size(files, paths[base]) for base in bases}
    short = [base for base, size in sizes.items() if size < SEGMENT_HEADER_BYTES]
    let_go = [base for base in short if not files.exists(paths[base])]
    _refuse_replaced(files, folder, snapshot, let_go)
    if let_go and let_go[-1] == bases[-1]:
        raise BackupUnsettled(f"all of {folder} is being let go at this moment")
    return Survey(
        folder,
        log_id,
        raw if snapshot is not None else b"",
        snapshot.generation if snapshot is not None else 0,
        {base: size for base, size in sizes.items() if base not in short},  # the others: begun a moment ago
        revisions,
        {name: _read(files, f"{folder}/{name}") for name in names if name.endswith(DAMAGE)},
        sorted([*bases_of(names, DELETED), *let_go]),
        mark,
    )


def _refuse_replaced(files: Files, folder: str, known: Snapshot | None, missing: list[int]) -> None:
    """BackupUnsettled if segments that are missing were not let go, but compacted."""
    if not missing:
        return
    raw = _read(files, f"{folder}/{SNAPSHOT}")
    snapshot = decode_snapshot(raw, folder) if raw else None
    before = known.segments if known is not None else []
    replaced = [state for state in snapshot.segments if state not in before] if snapshot is not None else []
    if any(state.base <= base < state.next_offset and state.revision for state in replaced for base in missing):
        raise BackupUnsettled(f"{folder} was compacted while it was copied")


class LogCopier:
    def __init__(self, source: Files, target: Files, earlier: Earlier, pace: Pace) -> None:
        self._source, self._target, self._earlier, self._pace = source, target, earlier, pace

    def copy(self, found: Survey, folder: str, now_ms: int) -> CopiedLog:
        """Blocks. BackupUnsettled: the log has changed too much since the survey, which has to be made again."""
        if not found.sizes and not found.snapshot and found.mark is None:
            return CopiedLog()
        return _LogCopy(self._source, self._target, self._earlier, self._pace, found, folder).run(now_ms)

    def is_settled(self, found: Survey, copied: CopiedLog, folder: str) -> bool:
        """Whether the original still begins with what was copied."""
        raw = _read(self._source, f"{found.folder}/{SNAPSHOT}")
        snapshot = decode_snapshot(raw, found.folder) if raw else None
        if snapshot is not None and (snapshot.cutting or snapshot.generation != found.generation):
            return False
        if copied.mark is None:
            return True
        name, end = copied.last_name, copied.mark.position
        begin = max(0, end - SETTLED_BYTES)
        original = _read_part(self._source, f"{found.folder}/{name}", begin, end)
        if original is None or (len(original) < end - begin and not self._source.exists(f"{found.folder}/{name}")):
            return True  # let go since
        return original == _read_part(self._target, f"{folder}/{name}", begin, end)


class _LogCopy:
    """One log on its way."""

    def __init__(self, source: Files, target: Files, earlier: Earlier, pace: Pace, found: Survey, folder: str) -> None:
        self._source, self._target, self._earlier, self._pace = source, target, earlier, pace
        self._found, self._folder = found, folder
        self._digests: dict[str, CopiedFile] = {}
        self._damage: list[str] = []
        self._reused_bytes = 0
        # Segments below this are complete by the snapshot's word: recovery's walk, which may cut, never looks at them.
        self._snapshot = snapshot = decode_snapshot(found.snapshot, folder) if found.snapshot else None
        self._proven = snapshot.segments[-1].base if snapshot is not None and snapshot.segments else 0

    def run(self, now_ms: int) -> CopiedLog:
        found, target = self._found, self._target
        target.make_directory(self._folder)
        for name, data in found.damage.items():
            put_file(target, f"{self._folder}/{name}", data)
        holes = Holes(load_holes(target, self._folder, found.damage))
        gone = found.deleted[-1] if found.deleted else None
        last = max(found.sizes, default=-1)
        for base in sorted(found.sizes, reverse=True):
            if not self._copy_segment(base, holes, is_last=base == last):
                gone = base if gone is None else max(gone, base)
                break
            self._copy_index(base)
        if found.sizes and last == gone:
            raise BackupUnsettled(f"all of {found.folder} was let go while it was copied")
        if found.snapshot:
            put_file(target, f"{self._folder}/{SNAPSHOT}", found.snapshot)
        if gone is not None:  # recovery then knows that what is missing went on purpose
            put_file(target, f"{self._folder}/{segment_name(gone, DELETED)}", b"")
        self._remove_others(gone)
        return self._open(now_ms)

    def _copy_segment(self, base: int, holes: Holes, *, is_last: bool) -> bool:
        """False: it was let go."""
        found, name = self._found, self._name(base)
        size, path = found.sizes[base], f"{self._folder}/{name}"
        key = SegmentKey(found.log_id, found.generation, base, found.revisions[base])
        if base < self._proven and (digest := self._earlier.take(key, size, path)) is not None:
            self._digests[name] = CopiedFile(name, size, digest)
            self._reused_bytes += size
            return True
        original = f"{found.folder}/{name}"
        try:
            through = Through(self._source, self._target, original, path, self._pace)
        except FileNotFoundError:
            _refuse_replaced(self._source, found.folder, self._snapshot, [base])
            return False
        try:
            if not is_last:
                self._check(through, base, size, holes)
            through.rest(size)
            if through.copied < size and not self._source.exists(original):
                _refuse_replaced(self._source, found.folder, self._snapshot, [base])
                return False
            self._target.datasync(through.written)
        finally:
            through.close()
        self._digests[name] = CopiedFile(name, through.copied, through.digest())
        if base < self._proven:
            self._earlier.note(key, self._digests[name], path)
        return True

    def _name(self, base: int, ending: str = LOG) -> str:
        return segment_name(base, ending, self._found.revisions[base])

    def _check(self, through: Through, base: int, size: int, holes: Holes) -> None:
        """A walk over the batches that reads through the copy. It stops at damage that nobody knew of."""
        through.fetch(SEGMENT_HEADER_BYTES, 0)
        position, expected = SEGMENT_HEADER_BYTES, base
        while through.copied >= position:  # else it was emptied: retention has let it go
            has_gaps = self._found.revisions[base] > 0
            walk = Walk(through.fetch, position, size, expected, check_crc=True, has_gaps=has_gaps)
            for _ in walk.batches():
                pass
            if walk.why is None:
                return
            hole = holes.at(walk.expected)
            if hole is None or hole.segment != base or hole.end_position <= walk.position:
                path = f"{self._found.folder}/{self._name(base)}"
                if self._source.exists(path) and hole is None:
                    self._damage.append(f"{path}, byte {walk.position}, offset {walk.expected}: {walk.why}")
                return
            position, expected = hole.end_position, hole.next_offset
            through.rest(min(position, size))

    def _copy_index(self, base: int) -> None:
        name = self._name(base, INDEX)
        data = _read(self._source, f"{self._found.folder}/{name}")
        if data:
            put_file(self._target, f"{self._folder}/{name}", data)
            self._digests[name] = CopiedFile(name, len(data), digest_of(data))

    def _remove_others(self, gone: int | None) -> None:
        """What an attempt before this one left, and what is older than a segment that was let go."""
        kept = {SNAPSHOT} if self._found.snapshot else set()
        kept |= set(self._found.damage)
        for base in self._found.sizes:
            if gone is None or base > gone:
                kept |= {self._name(base, LOG), self._name(base, INDEX)}
        if gone is not None:
            kept.add(segment_name(gone, DELETED))
        for name in set(self._target.list(self._folder)) - kept:
            self._target.remove(f"{self._folder}/{name}")

    def _open(self, now_ms: int) -> CopiedLog:
        target, folder = self._target, self._folder

        def on_event(kind: str, details: dict[str, object]) -> None:
            if kind == "log.damage":
                before = f"{details['offset']} to {details['next_offset']}"
                self._damage.append(f"{self._found.folder}, offsets {before}: {details['why']}")

        names = target.list(folder)
        origin = Origin(target, folder, self._found.log_id, (), on_event)
        scan = Rescan(origin, LogConfig(), self._found.mark, now_ms, names)
        log = scan.run()
        if scan.new_holes:
            for base in {hole.segment for hole in scan.holes}:
                save_holes(target, folder, base, scan.holes.of_segment(base))
        active = log.segments[-1] if log.segments else None
        if active is not None and active.index is not None:
            put_file(target, active.path(INDEX), active.index.encode(active.base, active.size))
        save_snapshot(target, folder, encode_snapshot(log.snapshot()))
        for name in target.list(folder):
            if name.endswith((DELETED, NEW)):
                target.remove(f"{folder}/{name}")
        target.sync_directory(folder)
        return self._copied(log)

    def _copied(self, log: Recovered) -> CopiedLog:
        target, files = self._target, []
        for name in target.list(self._folder):
            path = f"{self._folder}/{name}"
            known, size = self._digests.get(name), _size(target, path)
            is_same = known is not None and known.size == size and name.endswith(LOG)
            files.append(
                known if known is not None and is_same else CopiedFile(name, size, digest_of_file(target, path))
            )
        active = log.segments[-1] if log.segments else None
        mark = None
        if active is not None:
            mark = Mark(self._found.log_id, log.generation, active.base, active.size, log.next_offset)
        holes = sum(1 for _ in log.holes)
        last_name = active.name() if active is not None else ""
        return CopiedLog(
            log.start_offset,
            log.next_offset,
            mark,
            last_name,
            tuple(files),
            self._reused_bytes,
            holes,
            tuple(self._damage),
        )


def _read(files: Files, path: str) -> bytes:
    """Empty when it is not there, or no longer."""
    try:
        return read_whole(files, path)
    except FileNotFoundError:
        return b""


def _read_part(files: Files, path: str, begin: int, end: int) -> bytes | None:
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return files.pread(handle, end - begin, begin)
    finally:
        files.close(handle)


def _size(files: Files, path: str) -> int:
    try:
        handle = files.open(path)
    except FileNotFoundError:
        return 0
    try:
        return files.size(handle)
    finally:
        files.close(handle)
