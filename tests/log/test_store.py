"""The store: what is deleted, what is told of it, and opening beside everything else."""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import headrace.log.files as files_module
from headrace.errors import DirectoryUnusable, HeadraceError, StorageFailed
from headrace.log.config import LogConfig
from headrace.log.files import OsFiles
from headrace.log.format import CLOCK, segment_name
from headrace.log.journal import load_marks
from headrace.log.log import Log
from headrace.log.store import LogStore
from tests.log.kit import ROOT, START_MS, Clock, Steps, World, append, batch, fill, read_all

SMALL = LogConfig(segment_bytes=1024, index_interval_bytes=300)


def touch(world: World, path: str) -> None:
    world.disk.close(world.disk.open(path, create=True))


def test_whoever_waits_for_a_sync_is_told_at_once_when_the_log_is_deleted():
    world = World()
    log = world.log()
    told: list[tuple[str, HeadraceError | None]] = []
    fill(log, 1)
    log.when_synced(1, lambda error: told.append(("first", error)))
    fill(log, 1)
    log.when_synced(2, lambda error: told.append(("second", error)))
    log.after_sync(lambda error: told.append(("after", error)))
    world.store.delete_folder(f"{ROOT}/topics/a")
    assert sorted(name for name, _ in told) == ["after", "first", "second"]
    assert all(isinstance(error, StorageFailed) for _, error in told)
    log.when_synced(2, lambda error: told.append(("late", error)))
    assert told[-1] == ("late", log.failed)
    world.background.drain()
    assert len(told) == 4
    assert world.kinds() == []


def test_a_log_that_has_failed_is_opened_anew_once_it_is_closed():
    world = World()
    log = world.log()
    fill(log, 1)
    log.fail(StorageFailed("a test"))
    with pytest.raises(StorageFailed, match="open"):
        world.store.open_log(log.folder, log.log_id)
    log.close()
    assert world.store.open_log(log.folder, log.log_id).written_offset == 1


def fail_and_close(world: World, log: Log) -> None:
    world.disk.fail_writes(1, ".log")
    with pytest.raises(StorageFailed):
        append(log, batch())
    log.close()


def test_a_log_that_has_failed_is_not_opened_anew_while_its_snapshot_is_written():
    world = World()
    log = world.log()
    fill(log, 10)
    log.snapshot()
    world.background.step()
    assert not log.in_round and world.background.waiting
    fail_and_close(world, log)
    with pytest.raises(StorageFailed, match="still closing"):
        world.log()
    world.background.drain()
    log = world.log()
    log.delete_records(8)
    world.background.drain()
    world.crash()
    assert world.log().start_offset == 8


def test_a_log_that_has_failed_is_not_opened_anew_while_its_segments_are_let_go():
    world = World(config=SMALL)
    log = world.log()
    fill(log, 40)
    assert world.sync(log) is None
    start = log.segments[2].base
    log.delete_records(start)
    fail_and_close(world, log)
    with pytest.raises(StorageFailed, match="still closing"):
        world.log()
    world.background.drain()
    log = world.log()
    assert (log.start_offset, log.written_offset) == (start, 40)
    assert read_all(log)
    assert "log.damage" not in world.kinds()


def test_an_id_of_another_length_is_a_mistake():
    with pytest.raises(ValueError, match="20 bytes"):
        World().store.open_log(f"{ROOT}/topics/a/0", b"short")


def test_logs_are_opened_by_threads_while_the_loop_deletes(tmp_path):
    store = LogStore.open(str(tmp_path), OsFiles(), Clock(), Steps())
    stopped = threading.Event()

    def open_many(thread: int) -> None:
        number = 0
        while not stopped.is_set():
            log_id = bytes([thread]) * 16 + number.to_bytes(4, "big")
            store.open_log(f"{tmp_path}/topics/t{thread}/{number}", log_id)
            store.services.note_made(f"{tmp_path}/topics/t{thread}/{number}")
            number += 1

    with ThreadPoolExecutor(4) as pool:
        openings = [pool.submit(open_many, thread) for thread in range(4)]
        try:
            until = time.monotonic() + 1.0
            while time.monotonic() < until:
                store.delete_folder(f"{tmp_path}/topics/none")
        finally:
            stopped.set()
        for opening in openings:
            opening.result()
    assert len(store.services.logs) > 100
    store.drain(lambda: None)
    store.close()


def test_folders_that_nobody_knows_are_named():
    world = World()
    for name in "abcd":
        fill(world.log(name), 1)
    world.background.drain()
    touch(world, f"{ROOT}/topics/note")
    world.disk.rename(f"{ROOT}/topics/d", f"{ROOT}/topics/d.deleted")
    assert world.store.strange_folders(f"{ROOT}/topics", {"a"}) == ["b", "c"]
    assert world.store.strange_folders(f"{ROOT}/nowhere", set()) == []


def test_the_journal_forgets_logs_that_were_not_open_when_they_were_deleted():
    world = World()
    for name in "abc":
        log = world.log(name)
        fill(log, 1)
        assert world.sync(log) is None
    world.restart()
    kept = b"b".ljust(16, b"-") + bytes(4)
    assert len(load_marks(world.disk, f"{ROOT}/synced")) == 3
    world.store.delete_folder(f"{ROOT}/topics/a")
    world.store.delete_folder(f"{ROOT}/topics/c")
    world.background.drain()
    assert list(load_marks(world.disk, f"{ROOT}/synced")) == [kept]
    assert world.disk.list(f"{ROOT}/topics") == ["b"]
    world.power_loss("none")
    assert list(load_marks(world.disk, f"{ROOT}/synced")) == [kept]


def test_the_journal_forgets_a_log_that_is_deleted_as_soon_as_it_is_opened():
    world = World()
    log = world.log()
    fill(log, 1)
    assert world.sync(log) is None
    world.stop()
    world.disk.remove(f"{ROOT}/synced")
    world.start()
    world.log()
    world.store.delete_folder(f"{ROOT}/topics/a")
    world.background.drain()
    world.restart()
    assert load_marks(world.disk, f"{ROOT}/synced") == {}


def test_a_deletion_that_a_stop_comes_between_is_finished_by_the_next_start():
    world = World()
    fill(world.log("a"), 1)
    world.background.drain()
    world.store.delete_folder(f"{ROOT}/topics/a")
    world.background.work()
    world.store.close()
    world.background.tell()
    assert not world.background.waiting, "its threads have ended"
    world.start()
    world.store.delete_folder(f"{ROOT}/topics/a")  # again, by who knows that it was begun
    world.background.drain()
    assert world.disk.list(f"{ROOT}/topics") == []


def test_a_deletion_that_fails_is_an_event_unless_somebody_waits_for_it():
    world = World()
    fill(world.log("a"), 1)
    fill(world.log("b"), 1)
    world.background.drain()
    told: list[HeadraceError | None] = []
    world.disk.fail_syncs(1, "synced")
    world.store.delete_folder(f"{ROOT}/topics/a", told.append)
    world.background.drain()
    assert isinstance(told[0], StorageFailed)
    assert world.kinds() == []
    world.disk.fail_syncs(1, "synced")
    world.store.delete_folder(f"{ROOT}/topics/b")
    world.background.drain()
    assert world.kinds() == ["log.not-deleted"]
    world.store.on_event = world.on_event
    world.disk.fail_syncs(1, "synced")
    world.store.delete_folder(f"{ROOT}/topics/b")
    world.background.drain()
    assert world.kinds() == ["log.not-deleted"] * 2


@pytest.mark.parametrize("how", ["retention", "truncation", "recovery"])
def test_the_clocks_side_files_go_with_their_segments(how):
    world = World(config=SMALL)
    log = world.log()
    fill(log, 30)
    world.background.drain()
    bases = [segment.base for segment in log.segments]
    assert len(bases) > 3
    for base in bases:
        touch(world, f"{log.folder}/{segment_name(base, CLOCK)}")
    left = bases
    if how == "retention":
        log.delete_records(bases[-1])
        left = bases[-1:]
    elif how == "truncation":
        log.truncate(bases[1])
        left = bases[:2]
    else:
        log.snapshot()
        world.background.drain()
        world.crash()
        touch(world, f"{log.folder}/{segment_name(999_999, CLOCK)}")
        world.log()
    world.background.drain()
    clocks = [name for name in world.disk.list(log.folder) if name.endswith(CLOCK)]
    assert clocks == [segment_name(base, CLOCK) for base in left]


@pytest.mark.parametrize("is_crash", [False, True])
def test_damage_in_what_was_cut_off_is_forgotten(is_crash):
    world = World(config=LogConfig(segment_bytes=1 << 20, index_interval_bytes=300, tail_bytes=0))
    log = world.log()
    fill(log, 20)
    assert world.sync(log) is None
    world.disk.flip_bit(log.segments[0].path(), log.segments[0].size - 30)
    with pytest.raises(HeadraceError):
        log.read(19, 100).run()  # type: ignore[union-attr]
    assert log.holes
    log.truncate(10)
    world.background.drain()
    assert log.written_offset == 10
    append(log, batch(b"instead"), now_ms=START_MS)
    assert world.sync(log) is None
    if is_crash:
        world.crash()
    else:
        world.restart()
    again = world.log()
    assert again.written_offset == 11
    assert not again.holes


class NotAboveUs(OsFiles):
    """Directories above the data are on a file system that does not sync them, as one that is only read."""

    def __init__(self, root: Path, number: int) -> None:
        self._root, self._number = root, number

    def sync_directory(self, path: str) -> None:
        if not path.startswith(str(self._root)):
            raise OSError(self._number, "not here")
        super().sync_directory(path)


@pytest.mark.parametrize("number", [errno.EINVAL, errno.EROFS, errno.EACCES])
def test_directories_above_that_cannot_be_synced_are_passed_over(tmp_path: Path, number: int) -> None:
    root = tmp_path / "data"
    LogStore.open(str(root), NotAboveUs(root, number), Clock(), Steps()).close()
    assert (root / "format").exists()


def test_a_directory_above_whose_sync_fails_is_no_place_for_data(tmp_path: Path) -> None:
    root = tmp_path / "data"
    with pytest.raises(StorageFailed):
        LogStore.open(str(root), NotAboveUs(root, errno.EIO), Clock(), Steps())


def test_without_fdatasync_files_and_names_are_synced_through_the_devices_own_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where `fsync` stops at the device's door."""
    monkeypatch.delattr(os, "fdatasync")
    spec = importlib.util.spec_from_file_location("files_without_fdatasync", files_module.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    commands: list[int] = []
    monkeypatch.setattr(fcntl, "fcntl", lambda _, command: commands.append(command))
    files = module.OsFiles()
    handle = files.open(str(tmp_path / "file"), create=True)
    files.datasync(handle)
    files.close(handle)
    files.sync_directory(str(tmp_path))
    assert commands == [getattr(fcntl, "F_FULLFSYNC", 51)] * 2


def test_a_folder_with_other_things_in_it_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DirectoryUnusable, match=r"thesis\.txt.*new or an empty one"):
        World(OsFiles(), str(tmp_path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["thesis.txt"]


def test_a_restore_that_was_cut_short_is_told_as_that_however_little_it_had_done(tmp_path: Path) -> None:
    (tmp_path / "lock").touch()
    (tmp_path / "restoring").touch()
    (tmp_path / "topics").mkdir()
    with pytest.raises(DirectoryUnusable, match=r"a restore .* was begun and not finished"):
        World(OsFiles(), str(tmp_path))


def test_what_file_systems_and_a_start_cut_short_leave_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshots").mkdir()
    (tmp_path / "lock").touch()
    (tmp_path / "format.new").write_text("half")
    World(OsFiles(), str(tmp_path)).stop()


def test_the_journal_is_synced_when_it_has_something_new():
    world = World()
    log = world.log()

    def syncs_of_a_look() -> int:
        seen = len(world.disk.trace)
        world.store.tick()
        world.store.tick()  # one is on its way already
        world.background.drain()
        return sum(line.startswith("sync") and line.endswith("/synced") for line in world.disk.trace[seen:])

    assert syncs_of_a_look() == 0
    fill(log, 1)
    assert world.sync(log) is None
    assert syncs_of_a_look() == 1
    assert syncs_of_a_look() == 0
