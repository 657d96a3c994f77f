"""A backup of a data directory, brought back into a new one: the same bytes, checked while they are copied.

While it goes on, a file `restoring` stands in the folder, and no node opens it: half a restore is not served. A restore
that was cut short is begun anew by the next. At the end a sync journal is written that is true of what is there, so
that recovery can tell later damage from a torn end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable

from headrace.backup.late import LateFiles, settle
from headrace.backup.manifest import DATA, Manifest, PartitionEntry
from headrace.cluster.quorum import METADATA_LOG_ID
from headrace.errors import BackupDamaged, DirectoryLocked, DiskFull, HeadraceError, NotABackup, NotEmpty
from headrace.log.copied import copy_file, put_file
from headrace.log.files import OsFiles, ReadOnlyFiles
from headrace.log.format import RESTORING, Mark
from headrace.log.journal import Journal
from headrace.log.writing import FULL, explain

LOCK = "lock"


def restore_directory(folder: str, manifest: Manifest, data: str, pace: Callable[[int], None] = lambda _: None) -> None:
    """Blocks. `data` is new or empty, or holds a restore that was cut short."""
    folder, data = os.path.abspath(folder), os.path.abspath(data)
    check_restorable(manifest, folder)
    check_empty(data)
    files = OsFiles()
    try:
        files.make_directory(data)
        try:
            lock = files.lock(f"{data}/{LOCK}")
        except BlockingIOError:
            raise DirectoryLocked(f"another process works in {data}") from None
        try:
            check_empty(data)
            _restore(files, folder, manifest, data, pace)
        finally:
            files.close(lock)
    except OSError as error:
        raise _told(error, data) from error


def check_restorable(manifest: Manifest, folder: str) -> None:
    if manifest.kind != DATA:
        raise NotABackup(f"{folder} holds topics, not a data directory: bring it back into a server (--server)")


def check_empty(data: str) -> None:
    if not os.path.exists(data):
        return
    if not os.path.isdir(data):
        raise NotEmpty(f"{data} is a file: a data directory is a folder")
    names = set(os.listdir(data)) - {LOCK}
    if names and RESTORING not in names:
        raise NotEmpty(f"{data} is not empty: a restore needs a new or an empty folder")


def _restore(files: OsFiles, folder: str, manifest: Manifest, data: str, pace: Callable[[int], None]) -> None:
    put_file(files, f"{data}/{RESTORING}", b"")
    files.sync_directory(data)
    for name in set(os.listdir(data)) - {LOCK, RESTORING}:
        path = f"{data}/{name}"
        shutil.rmtree(path) if os.path.isdir(path) else os.unlink(path)
    source, late = ReadOnlyFiles(), LateFiles()
    for file in manifest.all_files():
        path = f"{data}/{file.path.removeprefix(f'{DATA}/')}"
        late.make_directory(os.path.dirname(path))
        try:
            found = copy_file(source, late, f"{folder}/{file.path}", path, pace)
        except FileNotFoundError:
            raise BackupDamaged(f"{folder}/{file.path} is missing: use another backup") from None
        if found != (file.bytes, file.digest):
            raise BackupDamaged(f"{folder}/{file.path} is not what was written: use another backup")
    journal = Journal(late, f"{data}/synced")
    journal.append(_marks(manifest))
    journal.close()
    settle(data)
    os.unlink(f"{data}/{RESTORING}")
    files.sync_directory(data)


def _marks(manifest: Manifest) -> Iterable[Mark]:
    if manifest.metadata is not None:
        yield from _mark(METADATA_LOG_ID, manifest.metadata)
    for topic in manifest.topics:
        for partition in topic.partitions:
            yield from _mark(bytes.fromhex(topic.topic_id) + partition.partition.to_bytes(4, "big"), partition)


def _mark(log_id: bytes, partition: PartitionEntry) -> Iterable[Mark]:
    if partition.segment >= 0:
        yield Mark(log_id, partition.generation, partition.segment, partition.position, partition.end_offset)


def _told(error: OSError, data: str) -> HeadraceError:
    if error.errno in FULL:
        return DiskFull(f"no space left in {data}: make room and run it again, it begins anew")
    return explain(error, f"bringing a backup back to {data}")
