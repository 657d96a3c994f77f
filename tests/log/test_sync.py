"""Group sync and the budget of open files: who is synced with whom, and what may be closed."""

from __future__ import annotations

from headrace.errors import HeadraceError
from headrace.log.config import LogConfig, StoreLimits
from headrace.log.segment import CLOSED
from headrace.log.sync import ROUND_LOGS, SYNC_LANES
from headrace.testing.disk import SimulatedDisk
from tests.log.kit import START_MS, World, append, batch, fill, read_all


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
