"""The disk that forgets, held to each of its own promises: a fault that it no longer makes is a fault nobody tests."""

import contextlib
import errno

import pytest

from headrace.testing.disk import PowerLoss, SimulatedDisk
from headrace.testing.platter import PAGE_BYTES, Keep

PATH = "/f"
OLD, NEW = b"o" * PAGE_BYTES, b"n" * PAGE_BYTES
PAGES = range(0, 20 * PAGE_BYTES, PAGE_BYTES)
SEEDS = range(60)
CALLS = {
    "create": lambda disk, handle: disk.open("/made", create=True),
    "open": lambda disk, handle: disk.open(PATH),
    "close": lambda disk, handle: disk.close(handle),
    "pwritev": lambda disk, handle: disk.pwritev(handle, [NEW], 0),
    "pread": lambda disk, handle: disk.pread(handle, 1, 0),
    "pread_nowait": lambda disk, handle: disk.pread_nowait(handle, 1, 0),
    "datasync": lambda disk, handle: disk.datasync(handle),
    "truncate": lambda disk, handle: disk.truncate(handle, 1),
    "reserve": lambda disk, handle: disk.reserve(handle, 0, 2 * PAGE_BYTES),
    "release": lambda disk, handle: disk.release(handle, PAGE_BYTES),
    "size": lambda disk, handle: disk.size(handle),
    "rename": lambda disk, handle: disk.rename(PATH, "/other"),
    "remove": lambda disk, handle: disk.remove(PATH),
    "remove_directory": lambda disk, handle: disk.remove_directory("/empty"),
    "make_directory": lambda disk, handle: disk.make_directory("/made"),
    "sync_directory": lambda disk, handle: disk.sync_directory("/"),
    "list": lambda disk, handle: disk.list("/"),
    "exists": lambda disk, handle: disk.exists(PATH),
    "lock": lambda disk, handle: disk.lock("/lock"),
}


def synced(data: bytes = OLD, seed: int = 0, **chances: float) -> tuple[SimulatedDisk, int]:
    """A file that the platter has, name and all."""
    disk = SimulatedDisk(seed, **chances)
    handle = disk.open(PATH, create=True)
    disk.pwritev(handle, [data], 0)
    disk.datasync(handle)
    disk.sync_directory("/")
    return disk, handle


def kept_of_new(page: bytes) -> int:
    """How much of the page is new; all behind that is old."""
    kept = page.count(b"n")
    assert page == NEW[:kept] + OLD[kept:]
    return kept


def errors(code: int) -> pytest.RaisesExc[OSError]:
    return pytest.raises(OSError, check=lambda error: error.errno == code)


def test_written_bytes_outlive_the_process_but_not_the_power() -> None:
    disk, handle = synced()
    disk.pwritev(handle, [NEW[:100], NEW[100:]], 0)
    disk.crash()
    assert disk.contents(PATH) == NEW
    disk.power_loss("none")
    assert disk.contents(PATH) == OLD


def test_synced_bytes_outlive_the_power_and_those_of_another_file_do_not() -> None:
    disk, handle = synced()
    other = disk.open("/other", create=True)
    disk.sync_directory("/")
    for one in (handle, other):
        disk.pwritev(one, [NEW], 0)
    disk.datasync(handle)
    disk.power_loss("none")
    assert (disk.contents(PATH), disk.contents("/other")) == (NEW, b"")


def test_a_power_loss_that_keeps_all_keeps_what_was_never_synced() -> None:
    disk, handle = synced()
    disk.pwritev(handle, [NEW * 3], 0)
    disk.open("/other", create=True)
    for keep in ("all", "none"):  # what the first has left, the second does not take
        disk.power_loss(keep)
        assert disk.contents(PATH) == NEW * 3
        assert disk.list("/") == ["f", "other"]


@pytest.mark.parametrize("size", [100, 2 * PAGE_BYTES])
def test_a_new_size_needs_a_sync_as_bytes_do(size: int) -> None:
    for is_synced in (False, True):
        disk, handle = synced()
        disk.truncate(handle, size)
        assert disk.size(handle) == size
        if is_synced:
            disk.datasync(handle)
        disk.power_loss("none")
        expected = OLD[:size].ljust(size, b"\0") if is_synced else OLD
        assert disk.contents(PATH) == expected


@pytest.mark.parametrize(
    ("change", "after"),
    [("create", ["f", "made"]), ("make_directory", ["f", "made"]), ("rename", ["other"]), ("remove", [])],
)
def test_names_need_a_sync_of_their_directory(change: str, after: list[str]) -> None:
    for is_synced in (False, True):
        disk, handle = synced()
        CALLS[change](disk, handle)
        assert disk.list("/") == after
        disk.datasync(handle)
        if is_synced:
            disk.sync_directory("/")
        disk.power_loss("none")
        assert disk.list("/") == (after if is_synced else ["f"])


@pytest.mark.parametrize(("keep", "left"), [("none", ["f", "inner"]), ("all", ["b", "f", "inner"])])
def test_a_sync_of_one_directory_leaves_the_changes_of_another_pending(keep: Keep, left: list[str]) -> None:
    disk, _ = synced()
    disk.make_directory("/inner")
    disk.sync_directory("/")
    for path in ("/inner/a", "/b"):
        disk.open(path, create=True)
    disk.sync_directory("/inner")
    disk.power_loss(keep)
    assert (disk.list("/inner"), disk.list("/")) == (["a"], left)


def test_a_file_that_took_anothers_place_gives_it_back_without_a_sync_of_the_directory() -> None:
    disk, _ = synced()
    other = disk.open("/new", create=True)
    disk.pwritev(other, [NEW], 0)
    disk.datasync(other)
    disk.sync_directory("/")
    disk.rename("/new", PATH)
    assert disk.contents(PATH) == NEW
    disk.power_loss("none")
    assert (disk.contents(PATH), disk.contents("/new")) == (OLD, NEW)


def test_a_power_loss_leaves_pages_old_new_and_torn() -> None:
    kept = []
    for seed in SEEDS:
        disk, handle = synced(seed=seed)
        disk.pwritev(handle, [NEW], 0)
        disk.power_loss()
        kept.append(kept_of_new(disk.contents(PATH)))
    assert {0, PAGE_BYTES} < set(kept)
    assert len([size for size in kept if 0 < size < PAGE_BYTES]) >= 3


def test_each_page_has_a_fate_of_its_own() -> None:
    disk, handle = synced(OLD * 20)
    disk.pwritev(handle, [NEW * 20], 0)
    disk.power_loss()
    assert {0, PAGE_BYTES} < {kept_of_new(disk.contents(PATH)[at:][:PAGE_BYTES]) for at in PAGES}


def test_a_file_that_grew_may_have_its_new_size_without_its_new_bytes() -> None:
    left = set()
    for seed in SEEDS:
        disk, handle = synced(seed=seed)
        disk.pwritev(handle, [NEW], PAGE_BYTES)
        disk.power_loss()
        left.add(disk.contents(PATH))
    assert {OLD, OLD + NEW, OLD + bytes(PAGE_BYTES)} < left


def test_each_change_of_a_name_is_kept_or_not_by_the_seed() -> None:
    left = set()
    for seed in SEEDS:
        disk, _ = synced(seed=seed)
        for path in ("/a", "/b"):
            disk.open(path, create=True)
        disk.power_loss()
        left.add(tuple(disk.list("/")))
    assert left == {("f",), ("a", "f"), ("b", "f"), ("a", "b", "f")}


@pytest.mark.parametrize("ending", [SimulatedDisk.crash, lambda disk: disk.power_loss("all")])
def test_the_write_in_whose_middle_the_power_goes_is_there_in_part(ending) -> None:
    kept = []
    for seed in range(20):
        disk, handle = synced(seed=seed)
        disk.stop_at(disk.changes + 1)
        with pytest.raises(PowerLoss):
            disk.pwritev(handle, [NEW], 0)
        ending(disk)
        kept.append(kept_of_new(disk.contents(PATH)))
    assert len({size for size in kept if 0 < size < PAGE_BYTES}) > 5


def test_the_plug_is_pulled_in_front_of_the_change_that_was_named() -> None:
    for before, change, left in ((2, CALLS["rename"], NEW), (1, CALLS["datasync"], OLD)):
        disk, handle = synced()
        disk.stop_at(disk.changes + before + 1)
        for call in ("pwritev", "datasync")[:before]:
            CALLS[call](disk, handle)
        assert not disk.is_off
        with pytest.raises(PowerLoss):
            change(disk, handle)
        assert disk.is_off
        disk.power_loss("none")
        assert (disk.list("/"), disk.contents(PATH)) == (["f"], left)


@pytest.mark.parametrize("name", CALLS)
def test_without_power_nothing_answers_until_the_next_life(name: str) -> None:
    disk, handle = synced()
    disk.make_directory("/empty")
    disk.stop_at(disk.changes + 1)
    with pytest.raises(PowerLoss):
        disk.open("/more", create=True)
    with pytest.raises(PowerLoss):
        CALLS[name](disk, handle)
    disk.crash()
    CALLS[name](disk, disk.open(PATH))


@pytest.mark.parametrize("ending", [SimulatedDisk.crash, SimulatedDisk.power_loss])
def test_handles_and_locks_die_with_the_process(ending) -> None:
    disk, handle = synced()
    lock = disk.lock("/lock")
    with pytest.raises(BlockingIOError):
        disk.lock("/lock")
    ending(disk)
    with errors(errno.EBADF):
        disk.pread(handle, 1, 0)
    with errors(errno.EBADF):
        disk.close(lock)
    disk.close(disk.lock("/lock"))
    disk.lock("/lock")


def test_what_a_failed_sync_called_clean_only_a_new_write_brings_to_the_platter() -> None:
    for written_again, left in ((False, OLD * 2), (True, OLD + NEW)):
        disk, handle = synced(OLD * 2)
        disk.pwritev(handle, [NEW * 2], 0)
        disk.fail_syncs()
        with errors(errno.EIO):
            disk.datasync(handle)
        assert disk.contents(PATH) == NEW * 2
        if written_again:
            disk.pwritev(handle, [NEW], PAGE_BYTES)
        disk.datasync(handle)
        disk.power_loss("all")
        assert disk.contents(PATH) == left


@pytest.mark.parametrize(("share", "expected"), [(0.0, {NEW}), (0.5, {OLD, NEW}), (1.0, {OLD})])
def test_of_the_pages_of_a_failed_sync_a_share_reads_as_it_was(share: float, expected: set[bytes]) -> None:
    disk, handle = synced(OLD * 20, forgets=share)
    disk.pwritev(handle, [NEW * 20], 0)
    disk.fail_syncs()
    with errors(errno.EIO):
        disk.datasync(handle)
    assert {disk.pread(handle, PAGE_BYTES, at) for at in PAGES} == expected


def test_names_stay_pending_when_the_sync_of_their_directory_fails() -> None:
    disk, _ = synced()
    disk.remove(PATH)
    disk.fail_syncs()
    with errors(errno.EIO):
        disk.sync_directory("/")
    disk.power_loss("none")
    assert disk.list("/") == ["f"]


FAULTS = {
    "sync": (SimulatedDisk.fail_syncs, CALLS["datasync"]),
    "read": (SimulatedDisk.fail_reads, CALLS["pread"]),
    "write": (SimulatedDisk.fail_writes, CALLS["pwritev"]),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_as_many_calls_fail_as_were_asked_to_where_they_were_unless_mended_before(kind: str) -> None:
    fail, call = FAULTS[kind]
    disk, handle = synced()
    other = disk.open("/other", create=True)
    disk.pwritev(other, [OLD], 0)
    fail(disk, 2, PATH)
    call(disk, other)
    for _ in range(2):
        with errors(errno.EIO):
            call(disk, handle)
    assert disk.contents(PATH) == OLD
    call(disk, handle)
    for mend in (disk.mend, disk.crash):
        fail(disk)
        mend()
        call(disk, disk.open(PATH))


def test_a_spoiled_page_ends_the_read_before_it_and_fails_the_one_in_it_until_it_is_written_again() -> None:
    disk, _ = synced(OLD * 3)
    disk.spoil(PATH, PAGE_BYTES + 7)
    for _ in range(2):
        handle = disk.open(PATH)
        assert disk.pread(handle, 3 * PAGE_BYTES, 0) == OLD
        assert disk.pread(handle, PAGE_BYTES, 2 * PAGE_BYTES) == OLD
        with errors(errno.EIO):
            disk.pread(handle, 1, PAGE_BYTES + 100)
        disk.power_loss()
    handle = disk.open(PATH)
    disk.pwritev(handle, [NEW], PAGE_BYTES)
    assert disk.pread(handle, 3 * PAGE_BYTES, 0) == OLD + NEW + OLD


def test_a_full_disk_takes_what_there_is_room_for_until_it_has_more() -> None:
    disk, handle = synced()
    disk.fill(10)
    assert disk.pwritev(handle, [NEW], PAGE_BYTES) == 10
    with errors(errno.ENOSPC):
        disk.pwritev(handle, [NEW], PAGE_BYTES + 10)
    assert disk.contents(PATH) == OLD + NEW[:10]
    assert disk.pwritev(handle, [NEW], 0) == PAGE_BYTES
    disk.truncate(handle, PAGE_BYTES + 3)
    assert disk.pwritev(handle, [NEW], PAGE_BYTES + 3) == 7
    disk.empty()
    assert disk.pwritev(handle, [NEW], PAGE_BYTES) == PAGE_BYTES


def test_a_flipped_bit_is_flipped_in_memory_and_on_the_platter() -> None:
    disk, handle = synced()
    disk.flip_bit(PATH, 100, bit=3)
    flipped = OLD[:100] + bytes([OLD[100] ^ 8]) + OLD[101:]
    assert disk.pread(handle, PAGE_BYTES, 0) == flipped
    disk.power_loss("none")
    assert disk.contents(PATH) == flipped


def test_a_short_write_writes_a_part_and_says_how_much() -> None:
    disk = SimulatedDisk(short_writes=1.0)
    handle = disk.open(PATH, create=True)
    sizes = set()
    for _ in range(20):
        disk.truncate(handle, 0)
        size = disk.pwritev(handle, [NEW], 0)
        assert disk.contents(PATH) == NEW[:size]
        sizes.add(size)
    assert len(sizes) > 5 and min(sizes) > 0 and max(sizes) < PAGE_BYTES


def test_a_read_that_would_wait_is_answered_with_nothing_or_a_part() -> None:
    disk, handle = synced(waits=0.5)
    answers = [disk.pread_nowait(handle, PAGE_BYTES, 0) for _ in range(40)]
    assert None in answers and OLD in answers
    parts = [data for data in answers if data is not None]
    assert any(0 < len(data) < PAGE_BYTES for data in parts)
    assert all(OLD.startswith(data) for data in parts)
    assert disk.pread(handle, PAGE_BYTES, 0) == OLD


def test_the_trace_lists_every_change() -> None:
    disk, handle = synced(b"123")
    disk.pread(handle, 3, 0)
    disk.fail_writes()
    with errors(errno.EIO):
        disk.pwritev(handle, [b"45"], 3)
    disk.truncate(handle, 1)
    disk.make_directory("/d")
    disk.rename(PATH, "/g")
    disk.remove("/g")
    disk.remove_directory("/d")
    disk.crash()
    disk.power_loss("none")
    assert disk.trace == [
        *("create /f", "write /f 0 3", "sync /f", "sync /"),
        *("write /f 3 2", "failed write /f"),
        *("truncate /f 1", "directory /d", "rename /f g", "remove /g", "remove /d"),
        *("crash", "power loss, keeping none"),
    ]
    assert disk.changes == 10


def a_life(seed: int) -> tuple[list[str], dict[str, bytes]]:
    disk = SimulatedDisk(seed, short_writes=0.3, forgets=0.5)
    disk.fail_syncs(path="b")
    for path in ("/a", "/b", "/c", "/d"):
        handle, at = disk.open(path, create=True), 0
        while at < 8 * PAGE_BYTES:
            at += disk.pwritev(handle, [NEW], at)
        with contextlib.suppress(OSError):
            disk.datasync(handle)
        disk.pwritev(handle, [OLD * 8], 0)
    disk.stop_at(disk.changes + 1)
    with pytest.raises(PowerLoss):
        disk.pwritev(handle, [NEW], 0)
    disk.power_loss()
    return disk.trace, {name: disk.contents(f"/{name}") for name in disk.list("/")}


def test_one_seed_is_one_life_and_another_seed_another() -> None:
    assert a_life(1) == a_life(1)
    assert a_life(1)[1] != a_life(2)[1]
