"""The store: what is deleted, what is told of it, and opening beside everything else."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from headrace.errors import DirectoryUnusable, HeadraceError, StorageFailed
from headrace.log.config import LogConfig
from headrace.log.files import OsFiles
from headrace.log.format import CLOCK, segment_name
from headrace.log.store import LogStore
from tests.log.kit import ROOT, START_MS, Clock, Steps, World, append, batch, fill

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


def test_folders_that_nobody_knows_are_removed_at_the_start():
    world = World()
    for name in "abc":
        fill(world.log(name), 1)
    world.background.drain()
    world.stop()
    world.start()
    touch(world, f"{ROOT}/topics/note")
    opened = world.log("c")
    world.store.remove_unknown(f"{ROOT}/topics", {"a"})
    world.disk.make_directory(f"{ROOT}/topics/new")  # made after the call
    world.background.drain()
    assert world.disk.list(f"{ROOT}/topics") == ["a", "c", "new", "note"]
    assert opened.failed is None
    world.store.remove_unknown(f"{ROOT}/nowhere", set())


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


def test_a_folder_with_other_things_in_it_is_not_taken_over(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(DirectoryUnusable, match=r"thesis\.txt.*new or an empty one"):
        World(OsFiles(), str(tmp_path))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["lock", "thesis.txt"]


def test_what_file_systems_and_a_start_cut_short_leave_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    (tmp_path / ".snapshots").mkdir()
    (tmp_path / "lock").touch()
    (tmp_path / "format.new").write_text("half")
    World(OsFiles(), str(tmp_path)).stop()
