"""Bugs planted in a real broker, and copiers that are steered by hand over them: the checker must find each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from headrace.broker.groups.positions import Commit, Positions
from headrace.broker.transactions import marking, rules
from headrace.doors.kafka import transacting
from headrace.testing import Broker
from tests.eos.copier import Copier, producer_of
from tests.eos.history import Violation
from tests.eos.running import Inputs, create_topics, take_history

EACH = 10  # inputs a transaction


class Desk:
    """A broker with inputs, and copiers that take a partition by hand: no group stands between two of one name."""

    def __init__(self, broker: Broker, folder: Path) -> None:
        self.address, self.journal = broker.kafka, folder / "journal"
        create_topics(self.address)
        self._inputs = Inputs(self.address)
        self._inputs.add(40 * EACH)  # over all partitions
        self._inputs.settle()

    def copier(self) -> Copier:
        return Copier(self.address, "copier", self.journal, [0])

    def check(self) -> None:
        producer_of(self.address, "copier")
        take_history(self.address, self.journal, self._inputs.counts).check()


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with Broker() as broker:
        yield Desk(broker, tmp_path)


def abort_and_commit(desk: Desk, plan: Sequence[bool] = (True, False, True)) -> None:
    with closing(desk.copier()) as copier:
        for is_meant in plan:
            name = copier.write(copier.gather(EACH, wait_s=5), is_meant)
            copier.commit(name) if is_meant else copier.abort(name)
            copier.rewind()


def outlive_a_successor(desk: Desk) -> None:
    """Who is fenced goes on with what it was about to do."""
    with closing(desk.copier()) as old:
        messages = old.gather(EACH, wait_s=5)
        with closing(desk.copier()) as new:
            new.commit(new.write(new.gather(EACH, wait_s=5), is_meant=True))
        old.commit(old.write(messages, is_meant=True))


def test_without_a_bug_an_abort_and_commits_pass(desk: Desk) -> None:
    abort_and_commit(desk)
    desk.check()


def test_without_a_bug_who_was_fenced_cannot_commit(desk: Desk) -> None:
    with pytest.raises(KafkaException, match="fenced"):
        outlive_a_successor(desk)
    desk.check()


@pytest.mark.parametrize(("plan", "found"), [((True, False, True), "aborted"), ((True, False), "hangs")])
def test_a_lost_abort_marker_is_found(
    plan: Sequence[bool], found: str, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The producer's next commit takes what was aborted with it; without one, readers wait for ever."""
    honest = marking.mark

    def lossy(broker: Any, wanted: Any, place: Any, done: Callable[[], None]) -> None:
        if wanted.transaction.is_commit or place[0] == marking.OFFSETS_TOPIC:
            honest(broker, wanted, place, done)
        else:
            done()

    monkeypatch.setattr("headrace.broker.transactions.coordinator.mark", lossy)
    abort_and_commit(desk, plan)
    with pytest.raises(Violation, match=found):
        desk.check()


def test_a_stale_epoch_that_is_accepted_is_found(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "check_known", lambda known, producer_id, epoch: None)
    monkeypatch.setattr(transacting, "check", lambda pending, part, buffer: None)
    monkeypatch.setattr("headrace.log.producers._check_epoch", lambda header, epoch: None)
    outlive_a_successor(desk)
    with pytest.raises(Violation, match="copied twice"):
        desk.check()


def test_a_position_that_is_committed_outside_of_the_transaction_is_found(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hasty(self: Positions, producer_id: int, commits: Sequence[Commit], at: int) -> None:
        for topic, partition, position in commits:
            self.put(topic, partition, position, at)

    monkeypatch.setattr(Positions, "pend", hasty)
    abort_and_commit(desk)
    with pytest.raises(Violation, match=r"missing|position"):
        desk.check()
