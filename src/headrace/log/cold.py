"""Whether time has something to do in a log that nobody opened: what its snapshot says, without opening it.

A log without a snapshot is a small one that was never closed with much in it: there, when its last segment was begun is
all that is looked at. Where this is wrong, a log is opened for nothing, or at the next look.
"""

from __future__ import annotations

from headrace.log.config import LogConfig
from headrace.log.dirt import judge
from headrace.log.format import LOG, SEGMENT_HEADER_BYTES, segment_name, segments_of
from headrace.log.retention import expired
from headrace.log.revisions import read_segment_header
from headrace.log.snapshot import load_snapshot
from headrace.ports import Files


def is_due(files: Files, folder: str, config: LogConfig, now_ms: int) -> bool:
    """Off the loop. OSError: the disk does not say."""
    return files.exists(folder) and _is_due(files, folder, config, now_ms)


def _is_due(files: Files, folder: str, config: LogConfig, now_ms: int) -> bool:
    snapshot = load_snapshot(files, folder)
    if snapshot is None:
        return _is_old(files, folder, config, now_ms)
    segments = snapshot.segments
    if expired(segments, snapshot.start_offset, config, now_ms):
        return True
    last_is_empty = bool(segments) and segments[-1].size <= SEGMENT_HEADER_BYTES
    sealed = segments if last_is_empty else segments[:-1]
    return judge(sealed, snapshot.cleaned_offset, snapshot.horizon_ms, config, now_ms).is_due


def _is_old(files: Files, folder: str, config: LogConfig, now_ms: int) -> bool:
    found = segments_of(files.list(folder), LOG)
    if not found or config.retention_ms < 0:
        return False
    header = read_segment_header(files, f"{folder}/{segment_name(found[-1][0], LOG, found[-1][1])}")
    return header is not None and header.created_ms + config.retention_ms < now_ms
