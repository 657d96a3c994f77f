"""Spans: what may be sent without being looked at, and what may not."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.log.config import LogConfig
from headrace.log.files import OsFiles
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.log import Log
from headrace.log.segment import Segment
from headrace.log.span import AHEAD_BYTES, SPAN_BYTES, Span
from headrace.ports import Buffer
from tests.log.kit import START_MS, World, append, batch, fill, joined, read_all, read_now

KIB = 1 << 10
MIB = 1 << 20
PAGE = 4 * KIB


class Residents(OsFiles):
    """All is in memory, unless the test says otherwise: whether the kernel can tell is not what is tested."""

    is_gone = False

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return not self.is_gone

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        return self.pread(handle, size, position)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(Residents(), str(tmp_path), config=LogConfig(tail_bytes=0))


@contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """That does not wait: where it is filled, and where it is emptied."""
    out, into = os.pipe2(os.O_NONBLOCK)
    try:
        yield into, out
    finally:
        os.close(into)
        os.close(out)


def poured(span: Span) -> bytes:
    """What arrives of it at the other end of a pipe."""
    with pipe() as (into, out):
        done, data = 0, b""
        while done < len(span):
            with suppress(BlockingIOError):
                done += span.pour(into, done)
            while len(data) < done:
                data += os.read(out, MIB)
    return data


def cold(world: World) -> Log:
    """The log as a process finds it that has just been started."""
    world.restart()
    return world.log()


def test_what_this_process_wrote_is_sent_from_where_it_is(world: World) -> None:
    log = world.log()
    written = b"".join(fill(log, 300, 1000))
    span = log.span(0, MIB)
    assert span is not None
    assert (len(span), span.next_offset) == (len(written), 300)
    assert poured(span) == written
    assert span.rest(0) == written
    assert span.rest(1000) == written[1000:]


def test_spans_one_after_the_other_are_the_log(world: World) -> None:
    log = world.log()
    written = b"".join(fill(log, 500, 1000))
    data, offset, spans = b"", 0, 0
    while offset < log.written_offset:
        span = log.span(offset, 100 * KIB)
        if span is None:
            assert log.written_offset - offset < 100, "only what is too little is not a span"
            found = read_now(log, offset)
            data, offset = data + joined(found), found.next_offset
        else:
            assert SPAN_BYTES <= len(span) <= 100 * KIB
            data, offset, spans = data + poured(span), span.next_offset, spans + 1
    assert data == written
    assert spans >= 5


def test_small_reads_and_reads_in_the_middle_of_an_index_entry_are_no_spans(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    assert log.span(0, SPAN_BYTES - 1) is None
    assert log.span(1, MIB) is None
    found = read_now(log, 1, 128 * KIB)
    assert log.span(found.next_offset, 128 * KIB) is not None, "a read ends where a span can go on"


def test_no_batch_from_the_given_offset_on_is_in_a_span(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    span = log.span(0, MIB, 200)
    assert span is not None
    assert 150 < span.next_offset <= 200
    assert log.span(0, MIB, 20) is None
    assert log.span(300, MIB) is None
    assert log.span(-1, MIB) is None


def test_a_limit_before_the_segment_that_is_asked_for_gives_nothing_of_it(world: World) -> None:
    log = world.log(config=LogConfig(tail_bytes=0, segment_bytes=200 * KIB))
    fill(log, 900, 1000)
    assert len(log.segments) > 4
    for segment in log.segments[1:]:
        for up_to in (0, 1, segment.base - 1, segment.base):
            assert log.span(segment.base, MIB, up_to) is None
    for offset in range(0, 900, 7):
        for up_to in range(0, 900, 61):
            span = log.span(offset, MIB, up_to)
            assert span is None or offset < span.next_offset <= up_to


def test_a_span_whose_file_was_let_go_does_not_open_it_again(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    span = log.span(0, MIB)
    assert span is not None
    log.segments[0].dropped = True
    with pytest.raises(OSError, match="let go"):
        span.pour(-1, 0)
    with pytest.raises(OSError, match="let go"):
        span.rest(0)


def test_consumers_that_go_through_a_segment_at_their_own_pace_all_get_spans(world: World) -> None:
    fill(world.log(), 900, 1000)
    log = cold(world)
    read_all(log)
    log.segments[0].doubt()
    index = log.segments[0].index
    assert index is not None
    places = [index.offsets[len(index.offsets) * part // 4] for part in range(3)]
    for place in places * 2:
        read_now(log, place, 100 * KIB)
    assert all(log.span(place, 64 * KIB + 20_000) is not None for place in places)


def test_what_an_earlier_process_wrote_is_checked_once_and_then_sent_unseen(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    log = cold(world)
    assert log.span(0, MIB) is None
    data = read_all(log)  # the first finds its index, the next is the one that checks
    data = read_all(log)
    span = log.span(0, MIB)
    assert span is not None
    assert poured(span) == data
    more = fill(log, 100, 1000)
    assert log.span(300, MIB) is None, "in the middle of an index entry"
    (span,) = [found for offset in range(300, 340) if (found := log.span(offset, MIB)) is not None][:1]
    assert b"".join(more).endswith(poured(span))


def test_what_the_disk_changed_while_nobody_served_is_found_and_never_sent(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    assert world.sync(log) is None
    path = log.segments[0].path()
    world.stop()
    with open(path, "r+b") as file:
        file.seek(150 * KIB)
        file.write(b"?")
    world.start()
    log = world.log()
    for offset in range(0, 300, 10):
        span = log.span(offset, MIB)
        assert span is None or b"?" not in poured(span)
    with pytest.raises(Exception, match="damaged"):
        read_all(log)
    assert world.kinds().count("log.damage") == 1
    assert log.span(0, MIB) is None, "a log with holes is read as always"


def test_what_has_left_memory_is_checked_again_and_what_is_near_it(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    assert isinstance(world.files, Residents)
    assert log.span(0, 100 * KIB) is not None
    world.files.is_gone = True
    assert log.span(0, 100 * KIB) is None
    world.files.is_gone = False
    assert log.span(0, 100 * KIB) is None
    found = read_now(log, 0, 100 * KIB)
    assert log.span(0, 100 * KIB) is not None, "it was read, and found true"
    assert log.span(found.next_offset, 100 * KIB) is None, "this was not"


@pytest.mark.parametrize("leaves", ["seen", "waited for"])
def test_what_is_far_from_what_has_left_memory_is_still_sent_unseen(tmp_path: Path, leaves: str) -> None:
    class Waits(Residents):
        def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
            return None if self.is_gone else super().pread_nowait(handle, size, position)

    files = Waits()
    log = World(files, str(tmp_path), config=LogConfig(tail_bytes=0)).log()
    fill(log, 50, MIB)
    files.is_gone = True
    if leaves == "seen":
        assert log.span(25, 2 * MIB) is None
    else:
        read_now(log, 25, 2 * MIB)
    files.is_gone = False
    unseen = {offset for offset in range(50) if log.span(offset, 2 * MIB) is not None}
    near = AHEAD_BYTES // MIB
    assert unseen.isdisjoint(range(25 - near, 25 + near + 1))
    assert unseen.issuperset([*range(25 - near - 1), *range(25 + near + 4, 50)])


def test_what_had_to_be_read_from_the_disk_is_not_taken_for_true(tmp_path: Path) -> None:
    class Waits(Residents):
        waits = False

        def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
            return None if self.waits else super().pread_nowait(handle, size, position)

    files = Waits()
    world = World(files, str(tmp_path), config=LogConfig(tail_bytes=0))
    log = world.log()
    fill(log, 300, 1000)
    assert log.span(0, MIB) is not None
    files.waits = True
    read_now(log, 0)
    files.waits = False
    assert log.span(0, MIB) is None


class ReadingAhead(OsFiles):
    """A kernel that reads ahead of every read of a file as far as it ever may, and knows of each page in memory whether
    it came back from the disk and has not been read since, by somebody who checks it."""

    def __init__(self, ahead_bytes: int) -> None:
        self._ahead_bytes = ahead_bytes
        self.gone: set[int] = set()
        self.unchecked: set[int] = set()

    def evict(self, pages: range) -> None:
        self.gone |= set(pages)
        self.unchecked -= set(pages)

    def is_resident(self, handle: int, size: int, position: int) -> bool:
        return self.gone.isdisjoint(pages_of(position, size))

    def pread_nowait(self, handle: int, size: int, position: int) -> Buffer | None:
        if not self.is_resident(handle, size, position):
            self._bring_back(position, size)
            return None
        return self.pread(handle, size, position)

    def pread(self, handle: int, size: int, position: int) -> bytes:
        if size > 8:  # a look at an offset checks nothing
            self._bring_back(position, size)
            self.unchecked -= set(pages_of(position, size))
        return super().pread(handle, size, position)

    def _bring_back(self, position: int, size: int) -> None:
        back = self.gone & set(pages_of(position, size + self._ahead_bytes))
        self.gone -= back
        self.unchecked |= back


def pages_of(position: int, size: int) -> range:
    return range(position // PAGE, (position + size - 1) // PAGE + 1)


@pytest.mark.parametrize("seed", range(20))
def test_what_came_back_from_the_disk_is_never_sent_unseen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """However much the kernel reads ahead, whoever reads where: whole segments that were gone, and single pages."""
    chance = random.Random(seed)
    monkeypatch.setattr("headrace.log.span.AHEAD_BYTES", 300 * KIB)
    files = ReadingAhead(chance.choice([0, 4 * KIB, 200 * KIB, 300 * KIB - PAGE]))
    log = World(files, str(tmp_path), config=LogConfig(tail_bytes=0)).log()
    fill(log, 3000, 1000)
    pages = log.segments[0].size // PAGE + 1
    consumers, spans = [0] * 3, 0
    for _ in range(600):
        if chance.random() < 0.01:
            files.evict(range(pages))
        elif chance.random() < 0.05:
            first = chance.randrange(pages)
            files.evict(range(first, min(pages, first + chance.choice([1, 3, 40]))))
        who = chance.randrange(3)
        size = chance.choice([4 * KIB, 70 * KIB, 200 * KIB])
        found = log.span(consumers[who], size)
        if found is not None:
            assert files.unchecked.isdisjoint(pages_of(found._position, found.size)), "sent unseen, and not known"
            spans += 1
            consumers[who] = found.next_offset
        else:
            consumers[who] = read_now(log, consumers[who], size).next_offset
        if consumers[who] >= log.written_offset:
            consumers[who] = 0
    assert spans > 20


def test_an_index_that_names_another_batch_makes_no_span(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    index = log.segments[0].index
    assert index is not None
    index.positions[3] += 10
    assert log.span(index.offsets[3], MIB) is None
    assert log.span(index.offsets[4], MIB) is not None


def test_compacted_failed_and_empty_logs_have_no_spans(world: World) -> None:
    log = world.log()
    assert log.span(0, MIB) is None
    fill(log, 300, 1000)
    log.segments[0].revision = 1
    assert log.span(0, MIB) is None
    log.segments[0].revision = 0
    assert log.span(0, MIB) is not None
    log.close()
    assert log.span(0, MIB) is None


def test_a_file_that_does_not_open_makes_no_span(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    assert world.sync(log) is None
    world.store.services.budget.close(log.segments[0])
    os.rename(log.segments[0].path(), log.segments[0].path() + ".away")
    assert log.span(0, MIB) is None


def test_a_span_of_a_file_that_became_shorter_is_an_error_not_fewer_bytes(world: World) -> None:
    log = world.log()
    fill(log, 300, 1000)
    span = log.span(0, MIB)
    assert span is not None
    os.truncate(log.segments[0].path(), 1000)
    with pytest.raises(OSError, match="shorter"):
        span.rest(0)
    with pipe() as (into, _), pytest.raises(OSError, match="shorter"):
        span.pour(into, 1000)


def test_a_system_that_does_not_pour_is_not_asked_again(tmp_path: Path) -> None:
    """Linux does not to where there is no pipe."""
    files = OsFiles()
    path = tmp_path / "file"
    path.write_bytes(bytes(MIB))
    handle, out = files.open(str(path)), os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    with pytest.raises(OSError, match="Invalid"):
        files.pour(handle, out, MIB, 0)
    assert not files.is_resident(handle, MIB, 0)
    files.close(handle)
    os.close(out)


def test_the_operating_system_tells_what_is_in_memory(tmp_path: Path) -> None:
    """Where it cannot, nothing ever is."""
    files = OsFiles()
    path = tmp_path / "file"
    path.write_bytes(os.urandom(MIB))
    handle = files.open(str(path))
    files.datasync(handle)
    can_tell = files.is_resident(handle, MIB, 0)
    for size, position in ((1, 0), (4096, 1), (MIB - 1, 1), (1, MIB - 1)):
        assert files.is_resident(handle, size, position) == can_tell
    os.ftruncate(handle, 2 * MIB)
    assert not files.is_resident(handle, 2 * MIB, 0), "some of it is not enough"
    if not is_in_memory_alone(tmp_path):
        os.posix_fadvise(handle, 0, 0, os.POSIX_FADV_DONTNEED)
        assert not files.is_resident(handle, MIB, 0)
    files.close(handle)


def is_in_memory_alone(folder: Path) -> bool:
    """A file system that has nowhere else to put what is in memory."""
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    kinds = {point: kind for _, point, kind, *_ in mounts}
    place = next(str(at) for at in (folder, *folder.parents) if str(at) in kinds)
    return kinds[place] in ("tmpfs", "ramfs")


STRETCH = st.tuples(st.integers(0, 40), st.integers(1, 20)).map(lambda pair: (pair[0], pair[0] + pair[1]))


@given(st.lists(st.one_of(STRETCH, STRETCH.map(list), st.integers(1, 20), st.none()), max_size=30))
def test_only_what_was_written_or_seen_since_it_was_doubted_counts_as_true(
    steps: list[tuple[int, int] | list[int] | int | None],
) -> None:
    """Stretches are seen, or doubted when they are lists; numbers are bytes written, None is a doubt of all."""
    segment = Segment("/folder", 0, START_MS)
    segment.true_from = 0
    true: set[int] = set()
    for step in steps:
        if step is None:
            segment.doubt()
            true.clear()
        elif isinstance(step, int):
            true |= set(range(segment.size, segment.size + step))
            segment.size += step
        elif isinstance(step, list):
            segment.doubt(*step)
            true -= set(range(*step))
        elif step[1] <= segment.size:
            segment.saw(*step)
            true |= set(range(*step))
        for begin in range(segment.size):
            for end in range(begin + 1, segment.size + 1):
                if segment.is_true(begin, end):
                    assert true.issuperset(range(begin, end))
    if segment.size and not segment.is_true(0, segment.size):
        segment.saw(0, segment.size)
    assert segment.is_true(0, segment.size)


def test_a_span_begins_behind_the_header_of_the_file(world: World) -> None:
    log = world.log()
    data = batch(b"x" * SPAN_BYTES)
    append(log, data)
    span = log.span(0, MIB)
    assert span is not None
    assert len(span) == len(data) == log.segments[0].size - SEGMENT_HEADER_BYTES
