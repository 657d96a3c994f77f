"""An exactly-once copy by our own client while the broker and its copiers are killed: its history must hold. The inputs
and those who read the copies are another client's."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

import headrace
from headrace.testing.served import ServedBroker
from tests.client import copier
from tests.eos.copier import GROUP
from tests.eos.running import Fleet, create_topics
from tests.eos.test_copy import NAMES, ROUNDS_BETWEEN_CHECKS, Run

ALL_KINDS = ("broker", "copier", "both", "zombie")


class OurFleet(Fleet):
    """The same, of another kind of copier."""

    def _start(self, name: str) -> subprocess.Popen[bytes]:
        self._started += 1
        command = [sys.executable, copier.__file__, self._address, name, str(self.journal)]
        with open(self._folder / "copiers.log", "ab") as log:
            return subprocess.Popen([*command, f"{self._seed}/{self._started}"], stdout=log, stderr=log, env=os.environ)


class Elsewhere(ServedBroker):
    """A broker that others started, and that is not killed here."""

    def __init__(self, folder: Path, address: str) -> None:
        super().__init__(folder)
        self.addresses["kafka"] = address


def copy_under_kills(broker: ServedBroker, seconds: float, seed: int, kinds: Sequence[str]) -> None:
    create_topics(broker.address)
    with OurFleet(broker.address, broker.folder, NAMES, seed) as fleet:
        run = Run(broker, fleet, seed)
        run.kills = dict.fromkeys(kinds, 0)
        until, rounds = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            run.round()
            rounds += 1
            if rounds % ROUNDS_BETWEEN_CHECKS == 0:
                run.check()
                fleet.revive()
        run.catch_up()
        copies = run.check(is_complete=True)
    told = f"{copies} copies, {rounds} rounds, {run.kills}, {fleet.deaths} ended by themselves"
    print(told)
    assert copies > 5 * seconds and rounds > 4, told + fleet.log()[-3000:]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("seed", [1, 2])
def test_each_input_is_copied_once_whoever_is_killed(tmp_path: Path, seed: int) -> None:
    with ServedBroker(tmp_path) as broker:
        copy_under_kills(broker, 25, seed, ALL_KINDS)


@pytest.mark.timeout(300)
def test_each_input_is_copied_once_on_another_broker_too(tmp_path: Path, kafka_address: str) -> None:
    """Which gives its groups time: so each round waits until all is copied."""
    broker = Elsewhere(tmp_path, kafka_address)
    create_topics(broker.address)
    with headrace.connect(broker.address) as client:
        client.admin.group_offsets(GROUP)  # waits until there is a coordinator, which other clients do not
    with OurFleet(broker.address, tmp_path, NAMES, 3) as fleet:
        run = Run(broker, fleet, 3)
        for kind in ("copier", "zombie", "copier"):
            run.kills = {kind: 0}
            run.round()
            run.catch_up()
        assert run.check(is_complete=True) > 100


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(10, 20))
def test_each_input_is_copied_once_over_minutes_of_kills(tmp_path: Path, seed: int) -> None:
    with ServedBroker(tmp_path) as broker:
        copy_under_kills(broker, 60, seed, ALL_KINDS)
