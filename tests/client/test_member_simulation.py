"""Groups of our members on virtual time, with losses, deaths and newcomers: no partition is ever two members',
and in the end all are somebody's."""

from __future__ import annotations

import pytest

from headrace.client.assignors import COOPERATIVE, RANGE
from headrace.client.member import State
from headrace.client.values import TopicPartition
from tests.client.group_simulation import TOPIC, Driver, World

KINDS = {"range": (RANGE,), "cooperative": (COOPERATIVE,), "both": (RANGE, COOPERATIVE)}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(40))
def test_no_partition_is_ever_two_members_and_in_the_end_all_are_given(kind: str, seed: int) -> None:
    world = World(seed, partitions=1 + seed % 9)
    for _ in range(30):
        living = [one for one in world.drivers if not one.is_dead]
        act = world.chance.choice(["come", "come", "die", "leave", "grow", "wait"])
        if act == "come" and len(living) < 6:
            world.drivers.append(Driver(world, KINDS[kind]))
        elif act == "die" and living:
            world.chance.choice(living).die()
        elif act == "leave" and living:
            world.chance.choice(living).end()
        world.run(world.now + world.chance.uniform(0.0, 8.0))
    if all(one.is_dead for one in world.drivers):
        world.drivers.append(Driver(world, KINDS[kind]))
    world.losses = 0.0
    world.run(world.now + 120.0)
    living = [one for one in world.drivers if not one.is_dead]
    assert all(one.member.state is State.STABLE for one in living)
    held = sorted(one for driver in living for one in driver.held)
    assert held == [TopicPartition(TOPIC, partition) for partition in range(world.partitions)]
    counts = [len(driver.held) for driver in living]
    assert max(counts) - min(counts) <= 1
    assert all(set(driver.member.owned) == driver.held for driver in living)
