"""Cutting the end of a log off, as a follower does whose leader has another history. Rare, and it blocks.

A snapshot of the shorter log goes first, with the word that it is being cut and a new generation: from then
on a restart finishes the cut, and proofs of what was synced before prove nothing about what will be written
instead. Then the files are cut and synced, and the snapshot written once more without that word.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from headrace.errors import StorageFailed
from headrace.log.checkpoint import capture
from headrace.log.config import Done
from headrace.log.damage import Holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import INDEX, SEGMENT_HEADER_BYTES
from headrace.log.mending import cut_file
from headrace.log.producers import Producers
from headrace.log.reader import load_index
from headrace.log.recovery import segment_state
from headrace.log.segment import Segment
from headrace.log.snapshot import Snapshot, encode_snapshot, save_snapshot
from headrace.log.walk import Walk
from headrace.log.writing import explain

if TYPE_CHECKING:
    from headrace.log.log import Log


def truncate(log: Log, offset: int, done: Done) -> None:
    if log.failed is not None:
        done(log.failed)
    elif log.has_staged:
        raise ValueError("flush before the end is cut off")
    elif offset >= log.written_offset:
        done(None)
    elif log.checkpoint.is_busy:
        log.checkpoint.request(lambda _: truncate(log, offset, done))
    elif log.in_round:
        log.after_sync(lambda _: truncate(log, offset, done))
    else:
        try:
            _truncate(log, max(offset, log.start_offset))
        except OSError as error:
            log.fail(StorageFailed(str(explain(error, f"cutting off the end of {log.folder}"))))
        done(log.failed)


def _truncate(log: Log, offset: int) -> None:
    if not log.sync_now():
        return
    files = log.services.files
    place = max(0, bisect_right([segment.base for segment in log.segments], offset) - 1)
    last = log.segments[place]
    position, offset = _boundary(log, last, offset)
    epochs, producers = LeaderEpochs(log.epochs.entries()), Producers(log.config.producer_expiry_ms)
    epochs.cut_end(offset)
    producers.load(log.producers.save())
    producers.cut_end(offset)
    state = msgspec.structs.replace(segment_state(last), size=position, next_offset=offset)
    snapshot = Snapshot(
        log.generation + 1,
        log.start_offset,
        offset,
        [*(segment_state(segment) for segment in log.segments[:place]), state],
        epochs.entries(),
        producers.save(),
        cutting=True,
    )
    save_snapshot(files, log.folder, encode_snapshot(snapshot))
    log.generation = snapshot.generation
    cut_file(files, last.path(), position)
    for segment in log.forget_segments(place + 1, len(log.segments)):
        if segment.size:
            files.remove(segment.path())
        if files.exists(segment.path(INDEX)):
            files.remove(segment.path(INDEX))
    files.sync_directory(log.folder)
    log.size_bytes -= last.size - position
    last.size = last.synced = position
    last.next_offset = offset
    if last.index is not None:
        last.index.cut(position)
        last.indexed_at, last.index_saved = last.index.positions[-1], False
    log.epochs.cut_end(offset)
    log.producers.cut_end(offset)
    log.holes = Holes(hole for hole in log.holes if hole.next_offset <= offset)
    log.restart_at(offset)
    save_snapshot(files, log.folder, encode_snapshot(capture(log, log.segments)))


def _boundary(log: Log, segment: Segment, offset: int) -> tuple[int, int]:
    """Where the batch that holds `offset` starts: (position, its offset)."""
    if offset <= segment.base:
        return SEGMENT_HEADER_BYTES, segment.base
    files = log.services.files
    handle = files.open(segment.path())
    try:

        def fetch(size: int, position: int) -> bytes:
            return files.pread(handle, size, position)

        if segment.index is None:
            segment.index = load_index(files, segment, fetch, log.holes, log.config.index_interval_bytes)
        relative, start = segment.index.find(offset - segment.base)
        start, expected = log.holes.skip(segment.base, start, offset) or (start, segment.base + relative)
        walk = Walk(fetch, start, segment.size, expected, check_crc=False)
        for position, batch in walk.batches():
            if batch[3] > offset:
                return position, batch[2]
        return walk.position, walk.expected
    finally:
        files.close(handle)
