"""An exactly-once copy while the broker and its copiers are killed, again and again; its history must hold."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from headrace.testing.served import ServedBroker
from tests.eos.running import Fleet, Inputs, create_topics, positions, take_history

NAMES = ["first", "second"]
ROUNDS_BETWEEN_CHECKS = 4
CATCH_UP_S = 90.0


class Run:
    def __init__(self, broker: ServedBroker, fleet: Fleet, seed: int) -> None:
        self.broker, self.fleet = broker, fleet
        self.kills = {"broker": 0, "copier": 0, "both": 0, "zombie": 0}
        self._inputs = Inputs(broker.address)
        self._chance = random.Random(seed)

    def round(self) -> None:
        self._feed(self._chance.uniform(0.3, 2.0))
        kind = self._chance.choice(list(self.kills))
        self.kills[kind] += 1
        name = self._chance.choice(NAMES)
        if kind == "zombie":
            self.fleet.freeze(name)
            self.fleet.revive()
            self._feed(self._chance.uniform(0.5, 2.0))
            self.fleet.thaw()
        if kind in ("copier", "both"):
            self.fleet.kill(name)
        if kind in ("broker", "both"):
            self.broker.kill()
            self._feed(self._chance.uniform(0.0, 0.3))
            self.broker.start()
        self.fleet.revive()

    def check(self, is_complete: bool = False) -> int:
        """How many copies there are."""
        self.fleet.kill_all()
        self._inputs.settle()
        self.fleet.fence()
        history = take_history(self.broker.address, self.fleet.journal, self._inputs.counts)
        history.check(is_complete)
        assert False in history.ended.values(), "nothing was aborted"
        return sum(map(len, history.copies))

    def catch_up(self) -> None:
        self._inputs.settle()
        deadline = time.monotonic() + CATCH_UP_S
        while positions(self.broker.address) != self._inputs.counts and time.monotonic() < deadline:
            time.sleep(0.2)
            self.fleet.revive()

    def _feed(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._inputs.add(5)
            time.sleep(0.02)


def copy_under_kills(folder: Path, seconds: float, seed: int) -> None:
    with ServedBroker(folder) as broker:
        create_topics(broker.address)
        with Fleet(broker.address, folder, NAMES, seed) as fleet:
            run = Run(broker, fleet, seed)
            until = time.monotonic() + seconds
            rounds = 0
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
        assert copies > 20 * seconds and min(run.kills.values()) > 0, told


@pytest.mark.timeout(300)
def test_each_input_is_copied_once_whoever_is_killed(tmp_path: Path) -> None:
    copy_under_kills(tmp_path, seconds=60, seed=5)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_each_input_is_copied_once_for_ten_minutes_of_kills(tmp_path: Path) -> None:
    copy_under_kills(tmp_path, seconds=600, seed=10)
