"""Opening a log: finding out what of it is true.

Opening reads the snapshot and walks, with checksums, over what was written after it. Where the walk meets
bytes that are not the next batch, the newest proof of a sync (snapshot or mark) decides:

- all that was proven lies before: a torn tail, never acknowledged as synced. It is cut there, and segments
  after it go.
- proven bytes are missing: damage. Nothing is cut. The walk goes on at the next true batch, and what lies
  between is a hole. Offsets that were proven are never given out again.

What was accepted beyond the proof is then written again, the same bytes in the same place, and synced: after
a failed sync the operating system may show bytes that the disk never got, and only a new write makes it try
once more. So after opening all of a log is synced.
"""

from __future__ import annotations

from headrace.log.config import LogConfig
from headrace.log.damage import save_holes
from headrace.log.format import CLOCK, DELETED, INDEX, NEW, Mark, segment_name, segments_of
from headrace.log.mending import save_index, write_again
from headrace.log.recovered import Origin, Recovered
from headrace.log.rescan import Rescan
from headrace.log.snapshot import encode_snapshot, save_snapshot

SCANNED_BYTES = 1 << 20  # walked again at the next opening rather than saved now: some milliseconds


def recover(origin: Origin, config: LogConfig, mark: Mark | None, now_ms: int) -> Recovered:
    """Blocks. Raises FormatTooNew before anything is touched, OSError when the disk refuses."""
    names = origin.files.list(origin.folder) if origin.files.exists(origin.folder) else []
    if not names and mark is None:
        return Recovered(config)
    scan = Rescan(origin, config, mark, now_ms, names)
    found = scan.run()
    _make_durable(scan)
    _save(scan)
    if origin.patience is not None:
        for segment in scan.scanned:
            for hole in scan.holes.of_segment(segment.base):
                origin.patience.found(segment.path(), hole, segment.size)
    return found


def _make_durable(scan: Rescan) -> None:
    proof = scan.proof
    for segment in scan.scanned:
        known = proof.position if segment.base == proof.segment else 0
        if segment.base < proof.segment:
            known = segment.size
        if segment.size > known:
            holes = [hole for hole in scan.holes if hole.segment == segment.base]
            write_again(scan.files, segment, known, holes)
            scan.resync = scan.resync or segment.base != proof.segment or proof.position == 0
        segment.synced = segment.size
    if scan.resync and scan.files.exists(scan.folder):
        for directory in (scan.folder, *scan.origin.parents):
            scan.files.sync_directory(directory)
    active = scan.found.segments[-1] if scan.found.segments else None
    if active is not None:
        mark = Mark(scan.origin.log_id, scan.found.generation, active.base, active.size, scan.found.next_offset)
        scan.found.mark = mark if mark != proof else None


def _save(scan: Rescan) -> None:
    """Only saves work at the next opening; a full disk can do without."""
    leftovers = [name for name in scan.names if name.endswith((DELETED, NEW))] + scan.stale
    for ending in (INDEX, CLOCK):  # not DAMAGE: it may be all that tells of a segment that is missing
        kept = {(base, scan.revisions[base]) for base in scan.bases}
        orphans = set(segments_of(scan.names, ending)) - kept
        leftovers += [segment_name(base, ending, revision) for base, revision in sorted(orphans)]
    try:
        if scan.new_holes:
            scan.files.make_directory(scan.folder)
            for base in {hole.segment for hole in scan.holes}:
                save_holes(scan.files, scan.folder, base, scan.holes.of_segment(base))
        if scan.new_holes or leftovers or scan.found.scanned_bytes >= SCANNED_BYTES:
            _save_snapshot(scan)
        for name in leftovers:
            if scan.files.exists(f"{scan.folder}/{name}"):
                scan.files.remove(f"{scan.folder}/{name}")
    except OSError as error:
        scan.origin.on_event("log.not-saved", {"folder": scan.folder, "why": str(error)})


def _save_snapshot(scan: Rescan) -> None:
    active = scan.found.segments[-1] if scan.found.segments else None
    if active is not None and active.index is not None:
        save_index(scan.files, active, active.index.encode(active.base, active.size))
    save_snapshot(scan.files, scan.folder, encode_snapshot(scan.found.snapshot()))
    scan.found.scanned_bytes = 0
