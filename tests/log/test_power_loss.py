"""The power goes at every single change that a scripted run makes to the disk, and nothing promised is lost."""

from __future__ import annotations

import pytest

from tests.log.history import changes_of_the_whole_script, judge, run_until


@pytest.mark.parametrize(
    ("keep", "seed"), [("none", 0), ("all", 0), ("some", 1), ("some", 2), ("some", 3), ("killed", 4)]
)
def test_power_loss_at_every_change_keeps_every_promise(keep, seed):
    total = changes_of_the_whole_script()
    assert total > 150
    for change in range(1, total + 40):
        history = run_until(change, seed)
        if history is None:
            continue
        try:
            if keep == "killed":
                history.world.crash()
                judge(history, only_killed=True)
            else:
                history.world.power_loss(keep)
                judge(history)
        except Exception as error:
            raise AssertionError(f"power loss at change {change}, keeping {keep}, seed {seed}: {error}") from error
