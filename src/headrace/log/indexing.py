"""Where a segment's index comes from when it is not in memory: from its file, or, where that is missing or damaged,
from the segment itself."""

from __future__ import annotations

from headrace.log.damage import Holes
from headrace.log.format import INDEX, SEGMENT_HEADER_BYTES
from headrace.log.index import NO_TIMESTAMP, Index, decode_index
from headrace.log.segment import Segment
from headrace.log.walk import Fetch, Walk
from headrace.log.writing import read_whole
from headrace.ports import Files


def load_index(files: Files, segment: Segment, fetch: Fetch, holes: Holes, interval_bytes: int) -> Index:
    """From its file, else from the segment itself."""
    return saved_index(files, segment) or build_index(segment, fetch, holes, interval_bytes)


def saved_index(files: Files, segment: Segment) -> Index | None:
    path = segment.path(INDEX)
    try:
        index = decode_index(read_whole(files, path), segment.base, segment.size, path)
    except OSError:
        return None
    return index.before(segment.size) if index is not None else None


def build_index(segment: Segment, fetch: Fetch, holes: Holes, interval_bytes: int) -> Index:
    """By a walk over the headers; past holes that are known, up to one that is not."""
    index, indexed_at, max_timestamp = Index(), SEGMENT_HEADER_BYTES, NO_TIMESTAMP
    position, expected = SEGMENT_HEADER_BYTES, segment.base
    while True:
        hole = holes.at(expected)
        if hole is not None and hole.segment == segment.base:
            position, expected = hole.end_position, hole.next_offset
        walk = Walk(fetch, position, segment.size, expected, check_crc=False, has_gaps=segment.has_gaps)
        due: tuple[int, int, int] | None = None  # once the next one goes on from it: else it may be what lies
        for at, batch in walk.batches():
            if due is not None:
                index.add(*due)
                due = None
            if at - indexed_at >= interval_bytes:
                due, indexed_at = (batch[2] - segment.base, at, max_timestamp), at
            max_timestamp = max(max_timestamp, batch[4])
        if due is not None and walk.why is None:
            index.add(*due)
        if walk.position == position:
            return index
        position, expected = walk.position, walk.expected
