"""The walk over a log that is being opened: what of it is true, what is torn, what is damaged. recovery.py says why."""

from __future__ import annotations

import msgspec

from headrace.log.after_damage import next_batch
from headrace.log.config import LogConfig
from headrace.log.damage import Hole, Holes, cut_holes, load_holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import (
    DAMAGE,
    DELETED,
    INDEX,
    LOG,
    SEGMENT_HEADER_BYTES,
    SNAPSHOT,
    STALE,
    Mark,
    SegmentHeader,
    segment_name,
    segments_of,
)
from headrace.log.index import Index
from headrace.log.indexing import saved_index
from headrace.log.mending import cut_file
from headrace.log.overlap import last_in_doubt
from headrace.log.patient import PatientReader
from headrace.log.reader import UNREADABLE
from headrace.log.recovered import Origin, Recovered
from headrace.log.revisions import choose, read_segment_header
from headrace.log.segment import Segment
from headrace.log.snapshot import SegmentState, Snapshot, encode_snapshot, load_snapshot, save_snapshot
from headrace.log.walk import Fetch, Scanned, Walk
from headrace.records.control import decode_marker
from headrace.records.header import CONTROL, MAX_SEQUENCE


class Rescan:
    def __init__(self, origin: Origin, config: LogConfig, mark: Mark | None, now_ms: int, names: list[str]) -> None:
        self.origin, self.files, self.config, self.now_ms = origin, origin.files, config, now_ms
        self.folder, self.names = origin.folder, names
        self.found = Recovered(config)
        self.snapshot = load_snapshot(self.files, self.folder) if SNAPSHOT in names else None
        if self.snapshot is None and SNAPSHOT in names:
            origin.on_event("log.snapshot-lost", {"folder": self.folder})
        if self.snapshot is not None and mark is not None and mark.generation != self.snapshot.generation:
            mark = None
        self.proof = _newest_proof(origin.log_id, self.snapshot, mark)
        self.holes = Holes(load_holes(self.files, self.folder, names))
        if self.snapshot is not None and self.snapshot.cutting:
            last = self.snapshot.segments[-1].base if self.snapshot.segments else -1
            self.holes = cut_holes(self.files, self.folder, self.holes, self.snapshot.next_offset, last)
        self.new_holes = False
        self.revisions, self.made, self.stale = choose(
            self.files, self.folder, names, self.snapshot, origin.log_id, origin.patience
        )
        self.bases = sorted(self.revisions)
        self.proven = max([self.proof.next_offset, *(hole.next_offset for hole in self.holes)])
        if self.snapshot is None and SNAPSHOT in names and self.bases:
            # There was a snapshot and it is not one any more: it proved the segments before the last, maybe more.
            self.proven = max(self.proven, self.bases[-1])
        self.proven = max([self.proven, *(made.next_offset for made in self.made.values())])
        self.expected = 0
        self.scanned: list[Segment] = []
        self.resync = False  # names came or went

    def run(self) -> Recovered:
        headers = {base: self._header(base) for base in self._to_scan()}
        if self.snapshot is not None:
            self._start_from(self.snapshot)
        elif SNAPSHOT in self.names and self.bases:
            self.expected = self.found.start_offset = self.bases[0]
        self._let_go()
        self._scan_all(headers)
        found = self.found
        if self.expected < self.proven:
            self._hole(self.expected, self.proven, self._last_base(), 0, 0, "the file is missing or shorter")
            self.expected = self.proven
            found.is_sealed = True
        last = self.holes.at(self.expected - 1)
        if last is not None and self._last_base() < self.expected:  # an earlier life found it: nothing goes on there
            found.is_sealed = True
        found.next_offset = self.expected
        found.start_offset = min(max(found.start_offset, self._deleted_up_to()), found.next_offset)
        found.holes = self.holes.without_before(found.start_offset)
        found.epochs.cut_start(found.start_offset)
        found.producers.transactions.cut_start(found.start_offset)
        return found

    # What the snapshot knows

    def _to_scan(self) -> list[int]:
        """The segments that have to be looked into."""
        if self.snapshot is None or not self.snapshot.segments:
            from_base = self.snapshot.next_offset if self.snapshot else 0
        else:
            from_base = self.snapshot.segments[-1].base
        return [base for base in self.bases if base >= from_base]

    def _start_from(self, snapshot: Snapshot) -> None:
        found = self.found
        found.generation, found.start_offset = snapshot.generation, snapshot.start_offset
        found.epochs = LeaderEpochs(snapshot.epochs)
        found.producers.load(snapshot.producers, snapshot.transactions)
        found.cleaned_offset, found.horizon_ms = snapshot.cleaned_offset, snapshot.horizon_ms
        if snapshot.cutting:
            self._finish_cutting(snapshot)
        first = snapshot.segments[0].base if snapshot.segments else snapshot.next_offset
        for base in [base for base in self.bases if base < first]:
            self._remove(base)
        start = max(snapshot.start_offset, self._deleted_up_to())
        for state in snapshot.segments:
            if state.base in self.bases:
                found.segments.append(self._known(state))
            elif state.next_offset > start:
                self._hole(max(start, state.base), state.next_offset, state.base, 0, 0, "the segment is missing")
        self.expected = snapshot.next_offset

    def _known(self, state: SegmentState) -> Segment:
        segment = Segment(self.folder, state.base, state.created_ms, state.revision)
        segment.next_offset, segment.size, segment.max_timestamp = (
            state.next_offset,
            state.size,
            state.max_timestamp,
        )
        segment.synced = segment.size
        return segment

    def _finish_cutting(self, snapshot: Snapshot) -> None:
        """A truncation that was begun and maybe not ended: ends it."""
        kept = {state.base: state.size for state in snapshot.segments}
        for base in list(self.bases):
            if base not in kept:
                self._remove(base)
            elif base == snapshot.segments[-1].base:
                cut_file(self.files, self._path(base), kept[base])
        self.files.sync_directory(self.folder)
        done = msgspec.structs.replace(snapshot, cutting=False)
        save_snapshot(self.files, self.folder, encode_snapshot(done))

    def _deleted_up_to(self) -> int:
        """Segments that were renamed away are gone on purpose: the log starts after them."""
        deleted = bases_of(self.names, DELETED)
        if not deleted:
            return 0
        return min((base for base in self.bases if base > deleted[-1]), default=self.proven)

    def _let_go(self) -> None:
        start = self._deleted_up_to()
        self.expected = max(self.expected, start)
        self.found.segments = [segment for segment in self.found.segments if segment.next_offset > start]

    # The walk

    def _header(self, base: int) -> SegmentHeader | None:
        """One that does not read can be done without where the segment is proven: elsewhere it would be dropped."""
        patience = self.origin.patience if base < self.proven else None
        return read_segment_header(self.files, self._path(base), patience, self.holes.of_segment(base))

    def _path(self, base: int, ending: str = LOG) -> str:
        return f"{self.folder}/{segment_name(base, ending, self.revisions[base])}"

    def _scan_all(self, headers: dict[int, SegmentHeader | None]) -> None:
        todo = [base for base in headers if base in self.bases]
        for place, base in enumerate(todo):
            following = todo[place + 1] if place + 1 < len(todo) else None
            known = self.found.segments[-1] if self.found.segments and self.found.segments[-1].base == base else None
            if known is None and not self._place(base, headers[base]):
                if base in self.bases:
                    self._drop_all(todo[place:], "what came before it was lost unsynced")
                    return
                continue
            if not self._scan(known or self._new(base, headers[base]), following):
                self._drop_all(todo[place + 1 :], "what came before it was torn")
                return

    def _new(self, base: int, header: SegmentHeader | None) -> Segment:
        if header is None:
            self.origin.on_event("log.header-damaged", {"segment": self._path(base)})
        segment = Segment(self.folder, base, header.created_ms if header else self.now_ms, self.revisions[base])
        segment.size = SEGMENT_HEADER_BYTES
        segment.index = Index()
        segment.indexed_at = SEGMENT_HEADER_BYTES
        self.found.segments.append(segment)
        return segment

    def _place(self, base: int, header: SegmentHeader | None) -> bool:
        """Whether the segment goes on where the log is. Between proven offsets a gap is a hole, and no
        obstacle."""
        if (known := self.holes.at(self.expected)) is not None:
            self.expected = min(known.next_offset, max(base, self.expected))
        true = (base, self.origin.log_id, self.revisions[base])
        foreign = header is not None and (header.base_offset, header.log_id, header.revision) != true
        if base < self.expected or foreign:
            self._set_aside(base, "another log's" if foreign else "older than what is before it")
            return False
        if header is None and base >= self.proven:
            return False
        if base > self.expected:
            if self.expected >= self.proven:
                return False
            self._hole(self.expected, base, self._last_base(), 0, 0, "a segment is missing or shorter")
            self.expected = base
        return True

    def _scan(self, segment: Segment, following: int | None) -> bool:
        """Walks over what is new in a segment. False: the log ends in it."""
        handle = self.files.open(segment.path())
        holes = self.holes.of_segment(segment.base)
        reader = PatientReader(self.files, handle, segment.path(), self.origin.patience, holes)
        reader.insist()
        try:
            size = self.files.size(handle)
            position = segment.size
            if size < position:  # shorter than the snapshot says: what is left of it must be found out
                position, self.expected = SEGMENT_HEADER_BYTES, segment.base
                segment.index, segment.size = Index(), SEGMENT_HEADER_BYTES
            elif segment.index is None:  # one that is lost is built by the first read, so that opening stays bounded
                segment.index = saved_index(self.files, segment)
            segment.indexed_at = segment.index.positions[-1] if segment.index is not None else position
            self.scanned.append(segment)
            self.found.is_sealed = False
            end = max(size, position, self.made[segment.base].size if segment.base in self.made else 0)
            return self._walk(segment, reader, position, end, following)
        finally:
            self.files.close(handle)

    def _walk(self, segment: Segment, reader: PatientReader, position: int, end: int, following: int | None) -> bool:
        fetch = reader.fetch
        self.found.scanned_bytes += end - position
        while True:
            walk = Walk(fetch, position, end, self.expected, check_crc=True, has_gaps=segment.has_gaps)
            last = self._note_all(segment, walk, fetch, end, self._bound(segment, following))
            position, self.expected = walk.position, walk.expected
            if walk.why is None and segment.base in self.made:
                self.expected = max(self.expected, self.made[segment.base].next_offset)
            segment.size, segment.next_offset = position, self.expected
            if walk.why is None:
                return True
            known = self.holes.at(self.expected)
            if known is not None and known.segment == segment.base:
                position, self.expected = max(known.end_position, position), known.next_offset
            elif self.expected >= self.proven:
                if (refusal := reader.refusal_behind(position)) is not None:  # no torn tail: it may be acknowledged
                    raise refusal
                return self._cut(segment, position, end, walk.why) or following == self.expected
            else:
                why = UNREADABLE if reader.refusal_behind(position) is not None else walk.why
                position = self._damage(segment, reader, position, last, end, following, why)
            segment.size, segment.next_offset = position, self.expected
            if position >= end:
                self.found.is_sealed = True
                return True

    def _bound(self, segment: Segment, following: int | None) -> int:
        """What no offset of a segment can reach, if it has gaps: else the walk sees to that."""
        if segment.base in self.made:
            return self.made[segment.base].next_offset
        return following if following is not None else self.proven

    def _note_all(self, segment: Segment, walk: Walk, fetch: Fetch, end: int, bound: int) -> int:
        """What can be believed of a walk, which then has come no further. Gives where the last batch is that stopped
        it: where there are gaps there may be two."""
        last: tuple[int, Scanned] | None = None
        before, expected = walk.expected, walk.expected
        for at, batch in walk.batches():
            if segment.has_gaps and batch[3] > bound:
                walk.why = f"offset {batch[2]} where all are below {bound}"
                break
            if last is not None:
                self._note(segment, *last, fetch)
            last, before, expected = (at, batch), expected, batch[3]
        if last is None:
            return walk.position
        doubt = None
        if segment.has_gaps and walk.why is not None:
            first = last[0], last[1][2], last[1][3]
            doubt = last_in_doubt(fetch, end, bound, before, first, walk.position)
        if doubt is None:
            self._note(segment, *last, fetch)
            return walk.position
        walk.position, walk.expected = last[0], before
        return doubt

    def _damage(
        self,
        segment: Segment,
        reader: PatientReader,
        position: int,
        last: int,
        end: int,
        following: int | None,
        why: str,
    ) -> int:
        """Notes a hole from here to the next true batch behind the one at `last`; gives where that is."""
        known_offset = following if following is not None else self.proven
        found = next_batch(reader.fetch, last, end, self.expected, known_offset, segment.has_gaps)
        proven = self._proven_up_to(segment, end)
        refusal = reader.refusal_behind(proven) if found is None and following is None and proven < end else None
        if refusal is not None:  # what lies behind it may be acknowledged
            raise refusal
        at, next_offset = found or (end, known_offset)
        if next_offset > self.expected:
            self._hole(self.expected, next_offset, segment.base, position, at, why)
        self.expected = next_offset
        return at

    def _proven_up_to(self, segment: Segment, end: int) -> int:
        """The position in a segment from which on nothing says what offsets there are."""
        if segment.base < self.proof.segment:
            return end
        known = self.proof.position if segment.base == self.proof.segment else 0
        return max([known, *(hole.end_position for hole in self.holes.of_segment(segment.base))])

    def _note(self, segment: Segment, at: int, batch: Scanned, fetch: Fetch) -> None:
        (
            _,
            size,
            base_offset,
            next_offset,
            max_timestamp,
            leader_epoch,
            producer_id,
            epoch,
            sequence,
            attributes,
        ) = batch
        segment.note(base_offset, at, max_timestamp, self.config.index_interval_bytes)
        if self.snapshot is not None and base_offset < self.snapshot.next_offset:
            return
        self.found.epochs.wrote(leader_epoch, base_offset)
        if producer_id >= 0:
            last = (sequence + next_offset - base_offset - 1) & MAX_SEQUENCE
            remembered = (sequence, last, base_offset, next_offset - 1, max_timestamp)
            marker = decode_marker(fetch(size, at)) if attributes & CONTROL else None
            self.found.producers.note(producer_id, epoch, attributes, remembered, self.now_ms, marker)

    # What is not true

    def _cut(self, segment: Segment, position: int, end: int, why: str) -> bool:
        details = {"segment": segment.path(), "position": position, "bytes": end - position, "why": why}
        self.origin.on_event("log.torn", details | {"offset": self.expected})
        cut_file(self.files, segment.path(), position)
        return False

    def _drop_all(self, bases: list[int], why: str) -> None:
        """Segments behind the end. Were there none before them, they are put aside: that is too strange to delete."""
        for base in bases:
            if not self.found.segments:
                self._set_aside(base, why)
                continue
            self.origin.on_event("log.torn", {"segment": self._path(base), "why": why})
            self._remove(base)

    def _remove(self, base: int) -> None:
        self.files.remove(self._path(base))
        for name in (segment_name(base, INDEX, self.revisions[base]), segment_name(base, DAMAGE)):
            if name in self.names:
                self.files.remove(f"{self.folder}/{name}")
        self.bases.remove(base)
        self.resync = True

    def _set_aside(self, base: int, why: str) -> None:
        path = self._path(base)
        self.origin.on_event("log.stale", {"segment": path, "why": why})
        self.files.rename(path, path + STALE)
        self.bases.remove(base)
        self.resync = True

    def _hole(self, offset: int, next_offset: int, base: int, position: int, end_position: int, why: str) -> None:
        if self.holes.at(offset) is not None:
            return
        hole = Hole(offset, next_offset, base, position, end_position, why)
        self.holes = self.holes.with_hole(hole)
        self.new_holes = True
        self.origin.on_event(
            "log.damage", {"folder": self.folder, "offset": offset, "next_offset": next_offset, "why": why}
        )

    def _last_base(self) -> int:
        return self.found.segments[-1].base if self.found.segments else self.expected


def bases_of(names: list[str], ending: str) -> list[int]:
    return [base for base, _ in segments_of(names, ending)]


def _newest_proof(log_id: bytes, snapshot: Snapshot | None, mark: Mark | None) -> Mark:
    proofs = [mark] if mark is not None else []
    if snapshot is not None:
        last = snapshot.segments[-1] if snapshot.segments else None
        segment, position = (last.base, last.size) if last else (snapshot.next_offset, 0)
        proofs.append(Mark(log_id, snapshot.generation, segment, position, snapshot.next_offset))
    nothing = Mark(log_id, 0, 0, 0, 0)
    return max(proofs, key=lambda proof: (proof.next_offset, proof.segment, proof.position), default=nothing)
