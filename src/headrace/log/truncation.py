"""Cutting the end of a log off, as a follower does whose leader has another history. Rare, and it blocks.

A snapshot of the shorter log goes first, with the word that it is being cut and a new generation: from then
on a restart finishes the cut, and proofs of what was synced before prove nothing about what will be written
instead. Then the files are cut and synced, and the snapshot written once more without that word.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING

import msgspec

from headrace.errors import HeadraceError, StorageFailed
from headrace.log.checkpoint import capture
from headrace.log.config import Done
from headrace.log.damage import cut_holes
from headrace.log.epochs import LeaderEpochs
from headrace.log.format import LOG, SEGMENT_HEADER_BYTES, SIDE_FILES
from headrace.log.mending import cut_file
from headrace.log.producers import Producers
from headrace.log.reader import load_index
from headrace.log.recovered import segment_state
from headrace.log.segment import Segment
from headrace.log.snapshot import Snapshot, encode_snapshot, load_snapshot, save_snapshot
from headrace.log.walk import Walk
from headrace.log.writing import explain
from headrace.ports import Files

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
            refused = _truncate(log, max(offset, log.start_offset))
        except OSError as error:
            refused = StorageFailed(str(explain(error, f"cutting off the end of {log.folder}")))
            log.fail(refused)
        done(log.failed or refused)


def _truncate(log: Log, offset: int) -> HeadraceError | None:
    """Why it was not even begun, if so; OSError when it was begun and could not be ended."""
    if not log.sync_now():
        return log.failed or StorageFailed(f"{log.folder} could not be synced before its end is cut off")
    files = log.services.files
    place = max(0, bisect_right([segment.base for segment in log.segments], offset) - 1)
    last = log.segments[place]
    try:
        position, boundary = _boundary(log, last, offset)
    except OSError as error:
        return explain(error, f"cutting off the end of {log.folder}")
    states = [segment_state(segment) for segment in log.segments[:place]]
    offset = max(boundary, log.start_offset)
    if offset == boundary:  # else not one whole batch is left
        states.append(msgspec.structs.replace(segment_state(last), size=position, next_offset=offset))
    epochs, producers = LeaderEpochs(log.epochs.entries()), Producers(log.config.producer_expiry_ms)
    epochs.cut_end(offset)
    producers.load(log.producers.save())
    producers.cut_end(offset)
    cutting = Snapshot(
        log.generation + 1, log.start_offset, offset, states, epochs.entries(), producers.save(), cutting=True
    )
    try:
        save_snapshot(files, log.folder, encode_snapshot(cutting))
    except OSError as error:
        found = load_snapshot(files, log.folder)
        if found is not None and found.cutting:
            raise
        return explain(error, f"cutting off the end of {log.folder}")
    log.generation = cutting.generation
    if len(states) > place:
        cut_file(files, last.path(), position)
        log.size_bytes -= last.size - position
        last.size = last.synced = position
        last.next_offset = offset
        if last.index is not None:
            last.index = last.index.before(position)
            last.indexed_at, last.index_saved = last.index.positions[-1], False
    for segment in log.forget_segments(len(states), len(log.segments)):
        _remove(files, segment)
    files.sync_directory(log.folder)
    log.epochs.cut_end(offset)
    log.producers.cut_end(offset)
    log.holes = cut_holes(files, log.folder, log.holes, offset, last.base)
    log.restart_at(offset)
    save_snapshot(files, log.folder, encode_snapshot(capture(log, log.segments)))
    return None


def _remove(files: Files, segment: Segment) -> None:
    for ending in (LOG, *SIDE_FILES):
        if files.exists(segment.path(ending)):
            files.remove(segment.path(ending))


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
