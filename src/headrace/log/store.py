"""A data directory and the logs in it.

    format      the version of all that is here; a newer one than ours is refused before anything is touched
    lock        held while a process works here
    synced      the sync journal
    restoring   only while a backup is brought back: what is here is not whole, and is not opened
    .../        folders of logs, wherever the caller wants them below the root

`open_log` blocks, because opening is recovering; it may run in the background, and several at once: what it shares
with the loop's thread is in services.py. Everything else belongs to the loop's thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable

import msgspec

from headrace.errors import DirectoryLocked, DirectoryUnusable, HeadraceError, StorageFailed
from headrace.log import deletion
from headrace.log.config import LogConfig, OnEvent, StoreLimits, ignore_event
from headrace.log.format import DELETED, LOG_ID_BYTES, NEW, RESTORING, VERSION, check_version
from headrace.log.journal import Journal
from headrace.log.log import CLOSE_BYTES, Log
from headrace.log.memory import MemoryLog
from headrace.log.recovered import Origin
from headrace.log.recovery import recover
from headrace.log.services import Services
from headrace.log.writing import explain, read_whole, replace_file
from headrace.ports import Background, Clock, Files

# The way to it is wrong, not the disk.
UNUSABLE = {errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR, errno.EEXIST, errno.ENAMETOOLONG, errno.EISDIR}


class FormatFile(msgspec.Struct, frozen=True):
    format: int
    created_ms: int


class LogStore:
    def __init__(self, services: Services, lock: int, on_event: OnEvent = ignore_event) -> None:
        self.services = services
        self.on_event = on_event  # what concerns no open log
        self.root = services.root
        self._lock = lock
        self._is_closed = False

    @property
    def path(self) -> str:
        """The directory, as people name it."""
        return os.path.abspath(self.root)

    def is_in_place(self) -> bool:
        """Off the loop. False: somebody has taken the directory away, or put another in its place."""
        return self.services.files.holds(self._lock, f"{self.root}/lock")

    @classmethod
    def open(
        cls,
        root: str,
        files: Files,
        clock: Clock,
        background: Background,
        limits: StoreLimits | None = None,
        on_event: OnEvent = ignore_event,
        sync_background: Background | None = None,
    ) -> LogStore:
        """`sync_background`: for the rounds of syncs alone, so that no acknowledgement waits behind housekeeping."""
        root = root.rstrip("/")
        try:
            files.make_directory(root)
            _check_strangers(files, root)
            lock = files.lock(f"{root}/lock")
        except BlockingIOError:
            raise DirectoryLocked(f"another process works in {root}: stop it, or choose another directory") from None
        except OSError as error:
            if error.errno in UNUSABLE:
                raise DirectoryUnusable(f"{root} cannot be a data directory: {error.strerror}") from error
            raise explain(error, f"opening {root}") from error
        try:
            _check_restored(files, root)
            _check_format(files, root, clock)
            journal = Journal(files, f"{root}/synced")
            services = Services(
                root, files, clock, background, limits or StoreLimits(), journal, sync_background or background
            )
            store = cls(services, lock, on_event)
        except OSError as error:
            files.close(lock)
            raise explain(error, f"opening {root}") from error
        except HeadraceError:
            files.close(lock)
            raise
        background.run(store._sweep, _ignore)
        return store

    def open_log(
        self, folder: str, log_id: bytes, config: LogConfig | None = None, on_event: OnEvent = ignore_event
    ) -> Log:
        """Recovers what is in the folder. A log that failed can be opened anew once it is closed."""
        services, config = self.services, config or LogConfig()
        if len(log_id) != LOG_ID_BYTES:
            raise ValueError(f"a log's id has {LOG_ID_BYTES} bytes, not {len(log_id)}")
        if folder in services.logs or folder in services.noting:
            raise StorageFailed(f"the log in {folder} is open, or still closing")
        parents = services.parents(folder)
        began = services.clock.monotonic()
        try:
            origin = Origin(services.files, folder, log_id, parents, on_event, services.patience)
            found = recover(origin, config, services.journal.mark(log_id), services.clock.now_ms())
        except OSError as error:
            raise explain(error, f"recovering {folder}") from error
        if found.mark is not None:
            services.journal.later(found.mark)
        if found.segments:
            services.note_made(folder)
        log = Log(services, folder, log_id, config, found, on_event)
        log.recovery_s = services.clock.monotonic() - began
        if services.logs.setdefault(folder, log) is not log:
            raise StorageFailed(f"the log in {folder} was opened twice at once")
        return log

    def open_memory_log(self, config: LogConfig | None = None) -> MemoryLog:
        """A log that shares nothing with the directory but the store's limits."""
        return MemoryLog(config or LogConfig(), self.services.clock, self.services.rings)

    def delete_folder(self, folder: str, done: Callable[[HeadraceError | None], None] | None = None) -> None:
        """A log's folder, or one that holds several. They are closed at once; their files go in the
        background. Without `done` a failure is an event; the folder then goes at a later start."""
        services = self.services
        files, journal = services.files, services.journal
        inside = services.logs_within(folder)
        on_event = inside[0].on_event if inside else self.on_event
        for log in inside:
            log.release()
        journal.forget(sorted(log.log_id for log in inside))
        services.forget_made(folder)

        def go(log_ids: set[bytes] | None, _: BaseException | None) -> None:
            if self._is_closed:  # there is no background any more: the next start removes what nobody knows
                return
            journal.forget(sorted(log_ids or ()))
            services.background.run(lambda: deletion.delete_folder(files, journal, folder), finish)

        def finish(_: object, error: BaseException | None) -> None:
            reason = explain(error, f"deleting {folder}") if error is not None else None
            if done is not None:
                done(reason)
            elif reason is not None:
                on_event("log.not-deleted", {"folder": folder, "why": str(reason)})

        services.background.run(lambda: deletion.log_ids(files, folder), go)

    def strange_folders(self, parent_folder: str, known: set[str]) -> list[str]:
        """The names of those below the folder that are not `known`, and not on their way out."""
        files, found = self.services.files, list[str]()
        for name in files.list(parent_folder) if files.exists(parent_folder) else ():
            if name not in known and not name.endswith(DELETED) and not _is_of_the_file_system(name):
                with contextlib.suppress(OSError):  # not a folder, so not ours
                    files.list(f"{parent_folder}/{name}")
                    found.append(name)
        return found

    def tick(self) -> None:
        """Once a second: logs that could not be synced for want of file handles try again, snapshots that are due are
        written. And what the journal proves is made to outlive a power loss; in the background, since no
        acknowledgement depends on it."""
        self.services.sync.retry()
        self.services.overdue.tick()
        self.services.journal.keep(self.services.background)

    def drain(self, done: Callable[[], None]) -> None:
        """Syncs all that is written, and saves what a restart would have to walk over; then `done`. For a
        clean stop."""
        self.services.sync.is_ending = True
        left = 1

        def one_done(_: HeadraceError | None) -> None:
            nonlocal left
            left -= 1
            if not left:
                done()

        for log in self.services.logs.copy().values():
            left += 1
            if log.since_snapshot >= CLOSE_BYTES and not log.broken:
                log.checkpoint.request(one_done)
            else:
                log.after_sync(one_done)
        one_done(None)

    def close(self) -> None:
        """Blocks while it syncs what `drain` has not. What the background still does is left to recovery."""
        self._is_closed = True
        for log in self.services.logs.copy().values():
            log.sync_now()
            log.release()
        self.services.journal.close()
        self.services.files.close(self._lock)

    def _sweep(self) -> None:
        """Removes what an earlier life was about to remove."""
        files = self.services.files
        for name in files.list(self.root):
            try:
                below = files.list(f"{self.root}/{name}")
            except NotADirectoryError:
                continue
            for entry in below:
                if entry.endswith(DELETED):
                    deletion.remove_tree(files, f"{self.root}/{name}/{entry}")


OURS = ("lock", "metadata", RESTORING, "synced", "topics")


def _check_restored(files: Files, root: str) -> None:
    if files.exists(f"{root}/{RESTORING}"):
        raise DirectoryUnusable(
            f"a restore into {root} was begun and not finished: run it again, or remove the folder and all in it"
        )


def _check_strangers(files: Files, root: str) -> None:
    """Before anything is put beside them."""
    strangers = [name for name in files.list(root) if not _may_be_in_a_new_one(name)]
    if strangers and not files.exists(f"{root}/format"):
        raise DirectoryUnusable(
            f"{root} holds other things ({', '.join(strangers[:3])}{', …' if len(strangers) > 3 else ''}) and is no"
            " data directory: name a new or an empty one"
        )


def _check_format(files: Files, root: str, clock: Clock) -> None:
    path = f"{root}/format"
    if not files.exists(path):
        _sync_ancestors(files, root)
        replace_file(files, path, msgspec.json.encode(FormatFile(VERSION, clock.now_ms())), durable=True)
        return
    read_format(files, root)


def _may_be_in_a_new_one(name: str) -> bool:
    """Ours, what a start that was cut short leaves, what file systems put at their root, and what nobody sees."""
    return name in (*OURS, f"format{NEW}") or _is_of_the_file_system(name)


def _is_of_the_file_system(name: str) -> bool:
    return name == "lost+found" or name.startswith(".")


def read_format(files: Files, root: str) -> FormatFile:
    """Of a data directory that is there. FormatTooNew before anything else in it is looked at."""
    path = f"{root}/format"
    try:
        found = msgspec.json.decode(read_whole(files, path), type=FormatFile)
    except msgspec.MsgspecError as error:
        raise StorageFailed(f'{path} does not read ({error}): restore it, it holds {{"format": {VERSION}}}') from error
    check_version(found.format, root)
    return found


# Of a directory that cannot be synced: nobody has made it just now, on a file system that cannot be written to or not
# by us.
NOT_OURS = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.EINVAL, errno.ENOTSUP})


def _sync_ancestors(files: Files, root: str) -> None:
    """The directory's own name, and those above it, which may all be new: a power loss could take them, and
    everything in them. Before the format file, whose presence then says that this was done."""
    path = os.path.dirname(os.path.abspath(root))
    while True:
        try:
            files.sync_directory(path)
        except OSError as error:
            if error.errno not in NOT_OURS:
                raise
        above = os.path.dirname(path)
        if above == path:
            return
        path = above


def _ignore(_: object, error: BaseException | None) -> None:
    """What could not be swept now will be at the next start."""
