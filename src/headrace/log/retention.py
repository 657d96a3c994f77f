"""Letting go of the oldest segments: those too old, too many, or wholly before the log's start.

The order of things makes every moment safe, on a full disk too, where a snapshot can not be written but a
name can be changed:

1. the start offset moves, in memory: nobody finds the segments any more;
2. their files are renamed to `.deleted` and the directory is synced. From here on recovery knows that they
   went on purpose;
3. they are emptied, which gives the space back;
4. a snapshot is written that no longer names them; then the empty files go.

The last segment stays, unless it is too old as a whole: then an empty one, synced, first takes its place, so
that the next offset is never forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from headrace.errors import HeadraceError
from headrace.log.config import LogConfig
from headrace.log.format import DELETED, SEGMENT_HEADER_BYTES, SIDE_FILES
from headrace.log.segment import Part, Segment
from headrace.ports import Files

if TYPE_CHECKING:
    from headrace.log.log import Log


def on_disk(segments: list[Segment]) -> list[Segment]:
    """Without one that was begun and has no byte yet: its file could not tell a restart where the log goes on."""
    return segments[:-1] if segments and not segments[-1].size else segments


def expired(segments: Sequence[Part], start_offset: int, config: LogConfig, now_ms: int) -> int:
    """How many from the front are to go."""
    count, size_bytes = 0, sum(segment.size for segment in segments)
    for place, segment in enumerate(segments):
        is_last = place == len(segments) - 1
        newest_ms = segment.max_timestamp if segment.max_timestamp >= 0 else segment.created_ms
        is_old = config.retention_ms >= 0 and newest_ms + config.retention_ms < now_ms
        is_too_much = config.retention_bytes >= 0 and size_bytes - segment.size >= config.retention_bytes
        is_before = segment.next_offset <= start_offset
        if is_last and (not is_old or segment.size <= SEGMENT_HEADER_BYTES):
            break
        if not (is_old or is_too_much or is_before):
            break
        count, size_bytes = count + 1, size_bytes - segment.size
    return count


def apply(log: Log, now_ms: int) -> int:
    segments = on_disk(log.segments)
    count = expired(segments, log.start_offset, log.config, now_ms)
    if count and count == len(segments) and not log.start_empty_segment(now_ms):
        count -= 1
    if count:
        _drop(log, count)
    return count


def move_start(log: Log, start_offset: int) -> None:
    """Nothing before it can be read. Segments that lie wholly before it go, but for the last one."""
    log.start_offset = start_offset
    log.epochs.cut_start(start_offset)
    log.cut_transactions(start_offset)
    log.holes = log.holes.without_before(start_offset)
    count = sum(segment.next_offset <= start_offset for segment in on_disk(log.segments)[:-1])
    if count:
        _drop(log, count)


def _drop(log: Log, count: int) -> None:
    gone = log.forget_segments(0, count)
    metrics = log.services.metrics
    metrics.deleted_segments += count
    metrics.deleted_bytes += sum(segment.size for segment in gone)
    start_offset = max(log.start_offset, log.segments[0].base)
    log.start_offset = start_offset
    log.epochs.cut_start(start_offset)
    log.cut_transactions(start_offset)
    log.holes = log.holes.without_before(start_offset)

    def synced(error: HeadraceError | None) -> None:
        if error is None:
            log.run(lambda: let_go(log.services.files, log.folder, gone), renamed)

    def renamed(_: object, error: BaseException | None) -> None:
        if error is not None:
            log.on_event("log.not-deleted", {"folder": log.folder, "why": str(error)})
            return
        log.leftovers += [segment.name(DELETED) for segment in gone]
        log.checkpoint.request()

    log.after_sync(synced)


def let_go(files: Files, folder: str, gone: list[Segment]) -> None:
    """Off the loop."""
    names = set(files.list(folder))
    for segment in gone:
        if segment.name() in names:
            files.rename(segment.path(), segment.path(DELETED))
        for ending in SIDE_FILES:
            if segment.name(ending) in names:
                files.remove(segment.path(ending))
    files.sync_directory(folder)
    for segment in gone:
        if files.exists(segment.path(DELETED)):
            handle = files.open(segment.path(DELETED))
            try:
                files.truncate(handle, 0)
            finally:
                files.close(handle)
