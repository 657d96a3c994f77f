"""Transactions in one log: what is stable, what was aborted; neither a crash nor a cut end changes the answer."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import (
    CoordinatorFenced,
    DiskFull,
    InvalidTransactionState,
    LimitReached,
    OutOfOrderSequence,
    StaleProducerEpoch,
)
from headrace.log import producers as producers_module
from headrace.log import transactions as transactions_module
from headrace.log.config import LogConfig
from headrace.log.log import Log
from headrace.log.transactions import Transactions
from headrace.records.batch import read_header
from headrace.records.codec import BatchOptions, Producer, Record, encode
from headrace.records.control import Marker, encode_marker
from tests.log.kit import START_MS, World, append


def data(producer_id: int, sequence: int, epoch: int = 0, count: int = 1) -> bytearray:
    records = [Record(b"k", b"v", (), START_MS)] * count
    return encode(records, BatchOptions(producer=Producer(producer_id, epoch, sequence), is_transactional=True))


def end(log: Log, producer_id: int, commit: bool, epoch: int = 0, coordinator: int = 0, bumped: bool = False) -> int:
    marker = Marker(commit, coordinator)
    batch = encode_marker(marker, producer_id, epoch, START_MS)
    log.producers.check_marker(read_header(batch), marker, bumped)
    staged = log.stage(batch, read_header(batch), START_MS, 0, is_own=True, marker=marker)
    log.flush()
    return staged.base_offset


def aborted(log: Log, low: int = 0, high: int = 1 << 60) -> list[tuple[int, int, int]]:
    return log.transactions.aborted(low, high)


def test_nothing_from_the_first_open_transaction_on_is_stable() -> None:
    log = World().log()
    append(log, data(1, 0))
    assert log.stable_offset == 0
    append(log, data(2, 0, count=3))
    end(log, 1, True)
    assert log.stable_offset == 1, "the second one is open"
    end(log, 2, False)
    assert log.stable_offset == log.written_offset == 6
    assert aborted(log) == [(2, 1, 5)]


def test_what_is_staged_is_not_stable_before_it_is_written() -> None:
    log = World().log()
    append(log, data(1, 0))
    marker = Marker(True, 0)
    batch = encode_marker(marker, 1, 0, START_MS)
    log.stage(batch, read_header(batch), START_MS, 0, is_own=True, marker=marker)
    assert log.stable_offset == 0
    log.flush()
    assert log.stable_offset == 2


def test_a_marker_that_could_not_be_written_leaves_the_transaction_open() -> None:
    world = World()
    log = world.log()
    append(log, data(1, 0))
    world.disk.fill(0)
    with pytest.raises(DiskFull):
        end(log, 1, False)
    world.disk.empty()
    assert log.transactions.ongoing == {1: 0} and aborted(log) == [] and log.stable_offset == 0
    end(log, 1, False)
    assert aborted(log) == [(1, 0, 1)]


@pytest.mark.parametrize("how", ["crash", "power_loss", "restart", "no snapshot"])
def test_all_of_it_is_there_after_a_restart(how: str) -> None:
    world = World()
    log = world.log()
    append(log, data(1, 0), data(2, 0), data(3, 0))
    end(log, 1, False)
    end(log, 2, True)
    if how != "no snapshot":
        log.snapshot()
        world.background.drain()
    append(log, data(1, 1), data(4, 0))
    end(log, 4, False, coordinator=9)
    assert world.sync(log) is None
    before = (dict(log.transactions.ongoing), aborted(log), log.stable_offset, dict(log.transactions.coordinators))
    if how == "restart":
        world.restart()
    elif how == "power_loss":
        world.power_loss("none")
    else:
        world.crash()
    again = world.log()
    after = (
        dict(again.transactions.ongoing),
        aborted(again),
        again.stable_offset,
        dict(again.transactions.coordinators),
    )
    assert after == before == ({3: 2, 1: 5}, [(1, 0, 3), (4, 6, 7)], 2, {1: 0, 2: 0, 4: 9})


def test_an_end_with_a_higher_epoch_fences_what_comes_late() -> None:
    log = World().log()
    append(log, data(1, 0))
    end(log, 1, True, epoch=1, bumped=True)
    with pytest.raises(StaleProducerEpoch):
        append(log, data(1, 1))
    with pytest.raises(OutOfOrderSequence):
        append(log, data(1, 1, epoch=1))
    append(log, data(1, 0, epoch=1))
    with pytest.raises(StaleProducerEpoch):
        end(log, 1, True, epoch=0)
    with pytest.raises(StaleProducerEpoch):
        end(log, 1, False, epoch=1, bumped=True)
    end(log, 1, False, epoch=2, bumped=True)
    end(log, 1, False, epoch=2, bumped=True)  # a coordinator that lost its memory says it again
    assert aborted(log) == [(1, 2, 3)]


def test_a_coordinator_that_was_taken_over_from_ends_nothing() -> None:
    log = World().log()
    append(log, data(1, 0))
    end(log, 1, True, coordinator=5)
    append(log, data(1, 1))
    with pytest.raises(CoordinatorFenced):
        end(log, 1, False, coordinator=4)
    assert 1 in log.transactions.ongoing


def test_a_batch_outside_of_the_open_transaction_is_refused() -> None:
    log = World().log()
    append(log, data(1, 0))
    plain = encode([Record(b"k", b"v", (), START_MS)], BatchOptions(producer=Producer(1, 0, 1)))
    with pytest.raises(InvalidTransactionState):
        append(log, plain)


def test_nobody_with_an_open_transaction_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(producers_module, "MAX_PRODUCERS", 10)
    monkeypatch.setattr(producers_module, "EVICTED_AT_ONCE", 5)
    log = World().log(config=LogConfig(producer_expiry_ms=1000))
    append(log, data(0, 0))
    for number in range(1, 30):
        plain = encode([Record(b"k", b"v", (), START_MS)], BatchOptions(producer=Producer(number, 0, 0)))
        append(log, plain, now_ms=START_MS + number)
    log.producers.expire(START_MS + 10_000)
    assert [producer_id for producer_id, _ in log.producers.save()] == [0]
    append(log, data(0, 1), now_ms=START_MS + 20_000)
    end(log, 0, False)
    for number in range(100, 110):
        append(log, data(number, 0))
    with pytest.raises(LimitReached):
        append(log, data(200, 0))


def test_aborted_ones_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transactions_module, "MAX_ABORTED", 3)
    log = World().log()
    for number in range(3):
        append(log, data(number, 0))
        end(log, number, False)
    with pytest.raises(LimitReached):
        append(log, data(9, 0))
    log.delete_records(2)
    append(log, data(9, 0))


def test_old_ones_go_with_their_records() -> None:
    log = World().log()
    for number in range(4):
        append(log, data(number, 0))
        end(log, number, False)
    log.delete_records(3)
    assert aborted(log) == [(1, 2, 3), (2, 4, 5), (3, 6, 7)], "the first that is left may be read in part"
    append(log, data(7, 0))
    log.delete_records(9)
    assert log.stable_offset == 9, "an open one that began before the start"


@pytest.mark.parametrize("kept", [0, 4096])
@pytest.mark.parametrize("offset", range(9))
def test_when_the_end_is_cut_off_what_was_ended_there_is_open_again(
    offset: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether commits are remembered that far back, or have to be read from the log."""
    monkeypatch.setattr(transactions_module, "COMMITS_KEPT", kept)
    world = World()
    log = world.log()
    history: list[tuple[dict[int, int], list[tuple[int, int, int]]]] = []

    def note() -> None:
        history.append((dict(log.transactions.ongoing), aborted(log)))

    note()
    for step in (
        lambda: append(log, data(1, 0)),
        lambda: append(log, data(2, 0)),
        lambda: end(log, 1, True),
        lambda: append(log, data(1, 1)),
        lambda: end(log, 2, False),
        lambda: end(log, 1, False),
        lambda: append(log, data(2, 1)),
        lambda: end(log, 2, True),
        lambda: append(log, data(3, 0)),
    ):
        step()
        note()
    assert world.sync(log) is None
    log.truncate(offset)
    world.background.drain()
    assert (dict(log.transactions.ongoing), aborted(log)) == history[offset]
    world.crash()
    log = world.log()
    assert (dict(log.transactions.ongoing), aborted(log)) == history[offset]


class Model:
    """The same in the plainest way."""

    def __init__(self) -> None:
        self.open: dict[int, int] = {}
        self.aborted: list[tuple[int, int, int]] = []

    def found(self, low: int, high: int) -> set[tuple[int, int, int]]:
        return {one for one in self.aborted if one[2] >= low and one[1] < high}


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["data", "commit", "abort"])), max_size=60))
def test_the_index_of_aborted_ones_finds_all_and_no_other(steps: list[tuple[int, str]]) -> None:
    index, model = Transactions(), Model()
    for offset, (producer_id, what) in enumerate(steps):
        if what == "data":
            index.begin(producer_id, offset)
            model.open.setdefault(producer_id, offset)
        else:
            index.end(producer_id, offset, what == "commit", 0)
            first = model.open.pop(producer_id, None)
            if first is not None and what == "abort":
                model.aborted.append((producer_id, first, offset))
        assert index.stable_offset(offset + 1) == min(model.open.values(), default=offset + 1)
    loaded = Transactions()
    loaded.load(index.save())
    for low in range(0, len(steps) + 1, 3):
        for high in range(low, len(steps) + 2, 4):
            assert set(index.aborted(low, high)) == set(loaded.aborted(low, high)) == model.found(low, high)
