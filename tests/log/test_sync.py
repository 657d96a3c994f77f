"""Group sync and the budget of open files: who is synced with whom, and what may be closed."""

from __future__ import annotations

import pytest

from headrace.errors import HeadraceError, StorageFailed
from headrace.log.config import LogConfig, StoreLimits
from headrace.log.segment import CLOSED
from headrace.log.store import LogStore
from headrace.log.sync import ROUND_LOGS, SYNC_LANES
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, Clock, Steps, World, append, batch, fill, read_all


def syncs(world: World, name: str) -> int:
    return sum(line.startswith("sync") and line.endswith(".log") and f"/{name}/" in line for line in world.disk.trace)


def test_many_waiters_share_one_sync():
    world = World()
    log = world.log()
    told: list[HeadraceError | None] = []
    append(log, batch())
    log.when_synced(1, told.append)
    for number in range(2, 100):
        append(log, batch())
        log.when_synced(number, told.append)
    world.background.drain()
    assert told == [None] * 99
    assert syncs(world, "a") == 2, "one for the first, one for all that came meanwhile"


def test_rounds_are_few_and_full_and_a_log_is_in_one_of_them():
    world = World()
    logs = [world.log(f"t{number}") for number in range(100)]
    told: list[HeadraceError | None] = []
    for log in logs:
        append(log, batch())
        log.when_synced(1, told.append)
        append(log, batch())
        log.when_synced(2, told.append)
    assert len(world.background.waiting) == SYNC_LANES
    assert sum(log.in_round for log in logs) == SYNC_LANES
    world.background.step()
    assert sum(log.in_round for log in logs) == SYNC_LANES - 1 + ROUND_LOGS
    world.background.drain()
    assert told == [None] * 200
    assert all(syncs(world, f"t{number}") == (2 if number < SYNC_LANES else 1) for number in range(100))


def test_an_acknowledgement_does_not_wait_behind_deletions_and_snapshots():
    disk, housekeeping, syncs = SimulatedDisk(), Steps(), Steps()
    store = LogStore.open("/data", disk, Clock(), housekeeping, sync_background=syncs)
    logs = [store.open_log(f"/data/topics/{number}/0", bytes((number,)) * 20) for number in range(17)]
    for log in logs:
        fill(log, 1)
        log.snapshot()
    syncs.drain()
    for log in logs[1:]:
        store.delete_folder(log.folder)
    told: list[HeadraceError | None] = []
    fill(logs[0], 1)
    logs[0].when_synced(2, told.append)
    syncs.drain()
    assert told == [None]
    assert len(housekeeping.waiting) > len(logs), "nothing of it was done meanwhile"


def test_a_new_folder_is_synced_up_to_the_root_once():
    world = World()
    log = world.log()
    fill(log, 1)
    assert world.sync(log) is None
    folders = [line for line in world.disk.trace if line.startswith("sync") and not line.endswith((".log", ".new"))]
    for path in (world.folder(), f"{world.root}/topics/a", f"{world.root}/topics", world.root):
        assert f"sync {path}" in folders
    count = len(folders)
    fill(log, 1)
    assert world.sync(log) is None
    folders = [line for line in world.disk.trace if line.startswith("sync") and not line.endswith((".log", ".new"))]
    assert len(folders) == count, "no new name, no sync of a directory"


def test_a_log_syncs_by_itself_after_so_many_records_or_so_much_time():
    world = World()
    log = world.log(config=LogConfig(flush_messages=3, flush_ms=1000))
    fill(log, 2)
    world.background.drain()
    assert log.synced_offset == 0
    fill(log, 1)
    world.background.drain()
    assert log.synced_offset == 3
    append(log, batch(), now_ms=START_MS + 100)
    log.maintain(START_MS + 1000)
    world.background.drain()
    assert log.synced_offset == 3
    log.maintain(START_MS + 1100)
    world.background.drain()
    assert log.synced_offset == 4


def test_a_file_with_unsynced_bytes_is_not_closed_for_another():
    world = World(limits=StoreLimits(open_files=8))
    logs = [world.log(f"t{number}") for number in range(9)]
    for log in logs[:8]:
        fill(log, 1)
    fill(logs[8], 1)
    assert all(log.segments[0].handle != CLOSED for log in logs), "over the limit rather than closed dirty"
    world.background.drain()
    for log in logs:
        fill(log, 1)
        world.background.drain()
    assert len(world.store.services.budget) <= 8 * 1.25


def test_at_the_hard_limit_the_oldest_is_synced_on_the_spot():
    world = World(limits=StoreLimits(open_files=8))
    logs = [world.log(f"t{number}") for number in range(30)]
    for log in logs:
        fill(log, 1)  # and the background never gets its turn
    held = sum(log.in_round for log in logs)
    assert len(world.store.services.budget) <= 8 * 1.25 + held
    world.background.drain()
    for log in logs:
        assert len(read_all(log))
    assert all(log.failed is None for log in logs)


def test_a_sync_on_the_spot_that_fails_fails_its_log_and_tells_its_waiters():
    world = World(limits=StoreLimits(open_files=2))
    logs = [world.log(f"t{number}") for number in range(9)]
    for log in logs[:3]:
        fill(log, 1)
    world.disk.fail_syncs(1, "/t")
    told: list[HeadraceError | None] = []
    for log in logs[3:]:
        fill(log, 1)
    failed = [log for log in logs if log.failed is not None]
    assert len(failed) == 1
    failed[0].when_synced(1, told.append)
    world.background.drain()
    assert told == [failed[0].failed]
    assert world.kinds() == ["log.failed"]


def test_a_round_whose_log_broke_meanwhile_proves_nothing():
    world = World()
    log = world.log()
    fill(log, 3)
    assert world.sync(log) is None
    fill(log, 1)
    told: list[HeadraceError | None] = []
    log.when_synced(4, told.append)
    log.snapshot(told.append)
    before = world.disk.contents(f"{world.root}/synced")
    world.disk.fail_writes(1, ".log")
    with pytest.raises(StorageFailed):
        fill(log, 1)
    world.background.drain()
    assert len(told) == 2
    assert None not in told
    assert log.synced_offset == 3
    assert world.disk.contents(f"{world.root}/synced") == before, "no mark"
    assert not world.disk.exists(f"{log.folder}/snapshot")


def test_a_log_that_broke_is_not_opened_anew_while_a_round_is_at_its_files():
    config = LogConfig(segment_bytes=1500, index_interval_bytes=300, tail_bytes=0)
    world = World(limits=StoreLimits(open_files=2), config=config)
    log = world.log("a")
    fill(log, 3)
    told: list[HeadraceError | None] = []
    log.when_synced(3, told.append)
    (round_under_way,) = world.background.waiting
    append(log, batch(b"y" * 1000))
    assert (log.in_round, len(log.segments)) == (True, 2)
    world.disk.fail_syncs(1, log.segments[1].path())
    for name in ("b", "c"):
        append(world.log(name), batch())  # files run short: the second segment is synced on the spot, and fails
    assert log.broken
    log.close()
    while len(world.background.waiting) > 1:
        world.background.step_beside(round_under_way)
    assert isinstance(told[0], StorageFailed), "whoever waits need not wait for the round"
    assert log.in_round and not log.is_released
    with pytest.raises(HeadraceError, match="is open, or still closing"):
        world.log("a")
    world.background.drain()
    assert world.log("a").written_offset >= 3


def test_a_handle_in_a_round_survives_closing_and_deletion():
    world = World()
    log = world.log()
    fill(log, 1)
    told: list[HeadraceError | None] = []
    log.when_synced(1, told.append)
    assert log.in_round
    world.store.delete_folder(f"{world.root}/topics/a")
    assert log.segments[0].handle != CLOSED, "the sync is still at it"
    world.background.drain()
    assert log.segments[0].handle == CLOSED
    assert len(told) == 1


def test_the_same_seed_gives_the_same_trace():
    def run(seed: int) -> list[str]:
        disk = SimulatedDisk(seed, short_writes=0.3, waits=0.3)
        world = World(disk)
        for name in "ab":
            fill(world.log(name, LogConfig(segment_bytes=1024)), 20)
        world.background.drain()
        world.power_loss("some")
        for name in "ab":
            read_all(world.log(name))
        return [*disk.trace, *(str(event) for event in world.events)]

    assert run(5) == run(5)
    assert run(5) != run(6)
