"""The disk under a data directory: can it be written, is there room, how long does a sync take.

Each is tried, not deduced: permission bits say nothing to root, and a disk with free blocks can be out of inodes or
over a quota. What is tried leaves nothing behind. The sync is the node's own (`fdatasync`, after an append), because an
acknowledgement with acks=all waits for exactly that.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Iterator

from headrace.cli.doctor.finding import Finding, failed, ok, unknown, warning
from headrace.cli.parsing import show_size
from headrace.log.files import OsFiles

MIB = 1 << 20
LEAST_FREE_BYTES = 64 * MIB  # below this a node stops taking batches within moments
GOOD_FREE_BYTES = 1 << 30  # a segment of the default size
GOOD_FREE_SHARE = 0.05
LEAST_FREE_INODES = 1000  # a partition needs a folder and a handful of files

PROBE_BYTES = 4096  # an append of about a page, as small batches are
MAX_SYNCS = 100
SYNC_TIME_S = 2.0  # a slow disk is known after fewer
GOOD_SYNC_P99_MS = 20.0

_NOT_ON_A_DISK = {"tmpfs", "ramfs"}
_OVER_A_NETWORK = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}

WRITABLE, SPACE, SYNC, FILESYSTEM = "data directory writable", "disk space", "disk sync", "file system"


def check(data: str) -> Iterator[Finding]:
    """`data` need not be there yet: what counts then is the folder that it would be made in."""
    folder = nearest_folder(data)
    yield space(folder)
    trial = writable(folder, data)
    yield trial
    yield filesystem(folder)
    if trial.result == "ok":
        yield sync_speed(folder)


def nearest_folder(path: str) -> str:
    path = os.path.abspath(path)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path


def writable(folder: str, data: str) -> Finding:
    required = "files can be made and synced"
    try:
        with _probe_file(folder) as handle:
            os.pwrite(handle, bytes(PROBE_BYTES), 0)
            OsFiles().datasync(handle)
    except OSError as error:
        return failed(WRITABLE, required, f"{os.strerror(error.errno or 0)}: {folder}", _not_writable(error, folder))
    found = "yes" if os.path.abspath(data) == folder else f"yes; {data} would be made in {folder}"
    return ok(WRITABLE, required, found)


def space(folder: str) -> Finding:
    required = f"{show_size(GOOD_FREE_BYTES)} free, {GOOD_FREE_SHARE:.0%}"
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        return unknown(SPACE, required, str(error.strerror))
    free, total = disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize
    found = f"{show_size(free)} of {show_size(total)} free"
    if free < LEAST_FREE_BYTES:
        advice = f"the disk of {folder} is full: free space, shorten retention.ms or retention.bytes, or move --data"
        return failed(SPACE, required, found, advice)
    if disk.f_files and disk.f_favail < LEAST_FREE_INODES:
        advice = f"the disk of {folder} is out of inodes: it holds too many small files, whatever its free bytes"
        return failed(SPACE, required, f"{disk.f_favail} inodes free", advice)
    if free < GOOD_FREE_BYTES or free < total * GOOD_FREE_SHARE:
        return warning(SPACE, required, found, "writes are refused once it is full: plan for space, or less retention")
    return ok(SPACE, required, found)


def filesystem(folder: str) -> Finding:
    required = "a local disk"
    kind, options = mount_of(folder)
    if kind is None:
        return unknown(FILESYSTEM, required, "this system does not say")
    found = f"{kind} ({', '.join(sorted(options & {'ro', 'rw'}))})"
    if kind in _NOT_ON_A_DISK:
        return warning(FILESYSTEM, required, found, "memory, not a disk: everything is lost with the power")
    if kind in _OVER_A_NETWORK:
        return warning(FILESYSTEM, required, found, "locks and syncs over a network are slow and not always true")
    return ok(FILESYSTEM, required, found)


def sync_speed(folder: str) -> Finding:
    required = f"p99 <= {GOOD_SYNC_P99_MS:.0f} ms"
    try:
        took_ms = sorted(sync_times_ms(folder))
    except OSError as error:
        return failed(SYNC, required, os.strerror(error.errno or 0), _not_writable(error, folder))
    p50, p99 = took_ms[len(took_ms) // 2], took_ms[len(took_ms) * 99 // 100]
    found = f"p50 {p50:.2f} ms, p99 {p99:.2f} ms ({len(took_ms)} syncs)"
    if p99 > GOOD_SYNC_P99_MS:
        return warning(
            SYNC, required, found, "acks=all waits for this: a busy, slow or remote disk; acks=1 does not wait"
        )
    return ok(SYNC, required, found)


def sync_times_ms(folder: str) -> list[float]:
    times: list[float] = []
    files, page = OsFiles(), os.urandom(PROBE_BYTES)
    with _probe_file(folder) as handle:
        ends = time.monotonic() + SYNC_TIME_S
        while len(times) < MAX_SYNCS and (time.monotonic() < ends or not times):
            begin = time.perf_counter()
            os.pwrite(handle, page, len(times) * PROBE_BYTES)
            files.datasync(handle)
            times.append((time.perf_counter() - begin) * 1000)
    return times


def mount_of(folder: str) -> tuple[str | None, set[str]]:
    """Kind and options of the file system that holds this folder."""
    folder, best = os.path.realpath(folder), ""
    kind: str | None = None
    options: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/self/mounts") as file:
        for line in file:
            _, at, its_kind, its_options, *_ = line.split()
            at = at.replace("\\040", " ")
            inside = folder == at or folder.startswith(at.rstrip("/") + "/")
            if inside and len(at) >= len(best):
                best, kind, options = at, its_kind, set(its_options.split(","))
    return kind, options


@contextlib.contextmanager
def _probe_file(folder: str) -> Iterator[int]:
    path = os.path.join(folder, f"doctor-{os.getpid()}.probe")
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        yield handle
    finally:
        os.close(handle)
        os.unlink(path)


def _not_writable(error: OSError, folder: str) -> str:
    if error.errno == errno.EROFS:
        return f"{folder} is on a file system that is mounted read-only: mount it read-write, or move --data"
    if error.errno in (errno.EACCES, errno.EPERM):
        owner = os.stat(folder).st_uid
        if owner == os.geteuid():
            return f"{folder} is this user's own and may not be written to: chmod u+rwx {folder}, or move --data"
        return f"{folder} belongs to user id {owner}, and this is user id {os.geteuid()}: chown it, or run as its owner"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"the disk of {folder} is full, or a quota is: free space, shorten retention, or move --data"
    if error.errno == errno.ENOTDIR:
        return f"{folder} is a file, not a folder: name another --data"
    return f"the disk of {folder} fails: look at the system's log (dmesg), and keep a backup"
