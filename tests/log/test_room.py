"""Room ahead of the end: asked for as a segment grows, given back when it does not grow any more."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.errors import DiskFull
from headrace.log.appending import RESERVE_FROM_BYTES, RESERVE_MAX_BYTES
from headrace.log.config import LogConfig
from headrace.log.files import OsFiles
from headrace.log.log import Log
from headrace.ports import Buffer
from tests.log.kit import World, append, batch, fill, read_all

MIB = 1 << 20
BLOCK_BYTES = 512  # what st_blocks counts in
SLACK_BYTES = 64 << 10  # a file system's own rounding


class CountingFiles(OsFiles):
    """A file system that reserves, whatever the real one can; or one that does not."""

    def __init__(self, can: bool = True) -> None:
        self.can = can
        self.asked: list[tuple[int, int]] = []
        self.is_full = self.takes_no_name = False

    def pwritev(self, handle: int, buffers: Sequence[Buffer], position: int) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "no space left")
        return super().pwritev(handle, buffers, position)

    def open(self, path: str, *, create: bool = False) -> int:
        if self.takes_no_name and create and not self.exists(path):
            raise OSError(errno.ENOSPC, "no space left")
        return super().open(path, create=create)

    def reserve(self, handle: int, position: int, size: int) -> bool:
        self.asked.append((position, size))
        return self.can and super().reserve(handle, position, size)


def segments(log: Log) -> list[os.stat_result]:
    return [os.stat(segment.path()) for segment in log.segments]


def surplus_bytes(stat: os.stat_result) -> int:
    return stat.st_blocks * BLOCK_BYTES - stat.st_size


@pytest.fixture
def reserving(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "probe"), create=True)
    had = files.reserve(handle, 0, MIB)
    assert files.size(handle) == 0, "room is not size"
    files.close(handle)
    if not had:
        pytest.skip("this file system has no room to reserve")


def test_a_small_log_asks_for_no_room(tmp_path: Path) -> None:
    files = CountingFiles()
    fill(World(files, str(tmp_path)).log(), 3, size=MIB)
    assert files.asked == []


def test_a_growing_segment_asks_for_a_quarter_of_what_it_holds_and_never_past_its_end(tmp_path: Path) -> None:
    files = CountingFiles()
    log = World(files, str(tmp_path), config=LogConfig(segment_bytes=24 * MIB)).log()
    fill(log, 20, size=MIB)
    assert files.asked
    for position, size in files.asked:
        assert position >= RESERVE_FROM_BYTES
        assert size <= min(position // 4, RESERVE_MAX_BYTES)
        assert position + size <= 24 * MIB
    ends = [position + size for position, size in files.asked]
    assert all(position > end for (position, _), end in zip(files.asked[1:], ends, strict=False)), "only when used up"


@pytest.mark.usefixtures("reserving")
def test_room_is_given_back_when_the_segment_is_full_and_when_the_log_closes(tmp_path: Path) -> None:
    world = World(OsFiles(), str(tmp_path / "data"), config=LogConfig(segment_bytes=10 * MIB))
    log = world.log()
    written = fill(log, 6, size=MIB)
    assert surplus_bytes(segments(log)[0]) > MIB // 2
    written += fill(log, 10, size=MIB)
    first, _ = segments(log)
    assert surplus_bytes(first) <= SLACK_BYTES
    world.stop()
    assert surplus_bytes(os.stat(log.segments[-1].path())) <= SLACK_BYTES
    world.start()
    assert read_all(world.log(), 4 * MIB) == b"".join(written)


@pytest.mark.usefixtures("reserving")
def test_room_that_a_crash_left_behind_is_given_back_by_the_next_write(tmp_path: Path) -> None:
    world = World(OsFiles(), str(tmp_path / "a"))
    log = world.log()
    written = fill(log, 6, size=MIB)
    path = log.segments[-1].path()
    world.stop()
    files = OsFiles()
    handle = files.open(path)
    assert files.reserve(handle, os.stat(path).st_size, 8 * MIB)
    files.close(handle)
    assert surplus_bytes(os.stat(path)) > 7 * MIB
    world.start()
    log = world.log()
    data = batch()
    append(log, data)
    assert surplus_bytes(os.stat(path)) <= 2 * MIB + SLACK_BYTES
    assert read_all(log, 4 * MIB) == b"".join(written) + bytes(data)


@pytest.mark.usefixtures("reserving")
@pytest.mark.parametrize("what", ["is_full", "takes_no_name"])
def test_room_is_given_back_when_the_disk_refuses_a_write_or_a_file_of_another_log(tmp_path: Path, what: str) -> None:
    files = CountingFiles()
    world = World(files, str(tmp_path / "data"))
    large, small = world.log("large"), world.log("small")
    fill(large, 6, size=MIB)
    assert surplus_bytes(segments(large)[0]) > MIB // 2
    setattr(files, what, True)
    with pytest.raises(DiskFull):
        append(small, batch())
    assert surplus_bytes(segments(large)[0]) <= SLACK_BYTES
    setattr(files, what, False)
    asked = len(files.asked)
    fill(large, 6, size=MIB)
    append(small, batch())
    assert len(files.asked) == asked, "what was given back is not taken away again"


def test_a_file_system_without_room_to_reserve_is_not_asked_at_every_write(tmp_path: Path) -> None:
    files = CountingFiles(can=False)
    log = World(files, str(tmp_path)).log()
    written = fill(log, 12, size=MIB)
    assert len(files.asked) == 1
    assert read_all(log, 4 * MIB) == b"".join(written)


def test_bytes_that_nobody_counted_are_never_released(tmp_path: Path) -> None:
    files = OsFiles()
    handle = files.open(str(tmp_path / "file"), create=True)
    files.pwritev(handle, [b"0123456789"], 0)
    files.release(handle, 4)
    assert files.size(handle) == 10
    files.close(handle)
