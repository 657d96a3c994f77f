"""Which file is which segment, when compaction has left several that tell of the same offsets.

A compacted segment is written whole and synced under a name of its own. A snapshot then names it instead of those that
it was made from, and only after that do they go. So the snapshot decides: what it does not name, though it could, is
from a compaction that was not finished, or from before one that was. Without a snapshot that reads, the compacted
segments themselves say up to which offset they take the place of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from headrace.log.damage import Hole
from headrace.log.format import (
    LOG,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    decode_segment_header,
    segment_name,
    segments_of,
)
from headrace.log.patient import Patience, PatientReader
from headrace.log.snapshot import Snapshot
from headrace.ports import Files


class Made(NamedTuple):
    """What a compacted segment says of itself."""

    size: int
    next_offset: int


class Revisions(NamedTuple):
    by_base: dict[int, int]  # the revision that counts
    made: dict[int, Made]  # of those that are compacted
    stale: list[str]  # names of files that others have taken the place of


def read_segment_header(
    files: Files, path: str, patience: Patience | None = None, holes: Sequence[Hole] = ()
) -> SegmentHeader | None:
    """None: it is not one any more. With patience one that does not read becomes that, with time."""
    handle = files.open(path)
    try:
        reader = PatientReader(files, handle, path, patience, holes)
        reader.insist()
        return decode_segment_header(reader.fetch(SEGMENT_HEADER_BYTES, 0), path)
    finally:
        files.close(handle)


def choose(
    files: Files,
    folder: str,
    names: Iterable[str],
    snapshot: Snapshot | None,
    log_id: bytes,
    patience: Patience | None = None,
) -> Revisions:
    found = segments_of(names, LOG)
    if snapshot is not None:
        return _by_snapshot(found, snapshot)
    return _by_headers(files, folder, found, log_id, patience)


def _by_snapshot(found: list[tuple[int, int]], snapshot: Snapshot) -> Revisions:
    named = {state.base: state for state in snapshot.segments}
    ranges = [(state.base, state.next_offset) for state in snapshot.segments if state.revision]
    by_base: dict[int, int] = {}
    stale: list[str] = []
    for base, revision in found:
        state = named.get(base)
        is_replaced = any(start <= base < end for start, end in ranges)
        if state.revision == revision if state is not None else not revision and not is_replaced:
            by_base[base] = revision
        else:
            stale.append(segment_name(base, LOG, revision))
    made = {
        state.base: Made(state.size, state.next_offset)
        for state in snapshot.segments
        if state.revision and state.base in by_base
    }
    return Revisions(by_base, made, stale)


def _by_headers(
    files: Files, folder: str, found: list[tuple[int, int]], log_id: bytes, patience: Patience | None
) -> Revisions:
    made: dict[tuple[int, int], Made] = {}
    bases = [base for base, _ in found]
    for base, revision in found:
        # One that does not read can be done without where no other of its base would take its place, and it go.
        may_be_lost = bases.count(base) == 1
        path = f"{folder}/{segment_name(base, LOG, revision)}"
        header = read_segment_header(files, path, patience if may_be_lost else None) if revision else None
        if header is not None and header[:1] + header[2:4] == (base, log_id, revision):
            made[base, revision] = Made(header.size, header.next_offset)
    by_base: dict[int, int] = {}
    stale: list[str] = []
    for base, revision in found:
        newer = [
            other
            for other, said in made.items()
            if other[0] <= base < said.next_offset and (other[1], -other[0]) > (revision, -base)
        ]
        has_other = any(other[0] == base and other != (base, revision) for other in found)
        if newer or (revision and (base, revision) not in made and has_other):
            stale.append(segment_name(base, LOG, revision))
        else:
            by_base[base] = revision
    return Revisions(by_base, {base: made[base, r] for base, r in by_base.items() if (base, r) in made}, stale)
