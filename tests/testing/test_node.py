"""A real node in the simulated world."""

import asyncio
import os
import subprocess
import sys

import pytest

from headrace.records import codec
from headrace.records.record import Record
from headrace.testing import simulation
from headrace.testing.faults import KINDS
from headrace.testing.kafka import Broken, KafkaClient
from headrace.testing.loop import simulated_loop
from headrace.testing.machine import SimulatedMachine
from headrace.testing.network import Network
from headrace.testing.simulation import Options, run
from headrace.testing.workload import WALL_MS

COMMAND = [sys.executable, "-m", "headrace.testing.simulation", "--duration-s", "2"]


@pytest.mark.parametrize("seed", range(10))
def test_a_node_keeps_its_promises_whatever_happens(seed):
    result = run(seed, SimulatedMachine)
    assert result.acknowledged > 10


def test_a_small_batch_that_fits_on_a_full_disk_does_not_come_before_the_one_that_was_refused():
    """The seed in which it once did."""
    run(10_100, SimulatedMachine)


@pytest.mark.parametrize("kind", sorted(set(KINDS)))
def test_a_node_keeps_its_promises_under_each_fault_alone(kind):
    for seed in (1, 2):
        run(seed, SimulatedMachine, Options(kinds=kind, duration_s=2.0))


FIRST_CHANGES = 240  # the first start, the topic, the first batches, the first syncs


@pytest.mark.parametrize("offset", range(6))
def test_power_may_fail_at_any_change_of_the_disk_from_the_first_start_on(offset):
    for change in range(offset, FIRST_CHANGES, 6 * 4):
        run(change, SimulatedMachine, Options(power_at=change, most_faults=0, duration_s=0.5))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_power_may_fail_at_every_change_of_the_disk_from_the_first_start_on():
    for change in range(3 * FIRST_CHANGES):
        run(1, SimulatedMachine, Options(power_at=change, most_faults=0, duration_s=1.0))


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_node_keeps_its_promises_for_a_thousand_seeds():
    for seed in range(10_000, 11_000):
        run(seed, SimulatedMachine)


def test_without_faults_everything_is_acknowledged_and_read():
    result = run(1, SimulatedMachine, Options(most_faults=0, duration_s=2.0))
    assert result.batches and result.reads and not result.faults


def test_the_same_seed_twice_gives_the_identical_trace_and_another_seed_another():
    options = Options(duration_s=2.0)
    first, again, other = (run(seed, SimulatedMachine, options) for seed in (1, 1, 2))
    assert first == again
    assert first.trace_hash != other.trace_hash


def test_two_interpreters_with_different_hash_seeds_give_the_identical_trace():
    def output(hash_seed):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        command = [*COMMAND, "--seed", "11", "--count", "3"]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    one, other = output("1"), output("2")
    assert one == other
    assert one.count("trace ") == 3


def test_the_command_shows_a_failing_seed_and_how_to_replay_it(monkeypatch, capsys):
    def breaks(self):
        raise simulation.Violation("a promise was broken")

    monkeypatch.setattr(simulation.Simulation, "_audit", breaks)
    monkeypatch.setattr(sys, "argv", ["simulation", "--seed", "5", "--duration-s", "1", "--trace", "3"])
    assert simulation.main() == 1
    shown = capsys.readouterr()
    assert "replay: python -m headrace.testing.simulation --seed 5 --duration-s 1.0" in shown.err
    assert len(shown.out.splitlines()) == 3


def test_a_client_that_leaves_while_a_log_opens_takes_nobody_along():
    async def script(loop, machine):
        node, clients = loop.process("node", "node"), loop.process("clients", "clients")
        await node.run(loop.create_task, machine.start(loop, "node", 9092))
        await clients.run(loop.create_task, two_clients(loop, machine))

    async def two_clients(loop, machine):
        rng = loop.random_for("clients")
        leaves, stays = [await KafkaClient.connect("node", 9092, name, rng) for name in ("leaves", "stays")]
        await leaves.create_topic("topic", 1, {})
        machine.background.delay_s = (1.0, 1.1)
        asked = loop.create_task(leaves.fetch("topic", {0: 0}))
        answer = stays.produce("topic", 0, codec.encode([Record(value=b"value", timestamp_ms=WALL_MS)]), acks=1)
        await asyncio.sleep(0.5)
        loop.network.reset(leaves.transport)
        assert (await stays.produced(answer)).error == 0
        with pytest.raises(Broken):
            await asked

    with simulated_loop(1) as loop:
        Network(loop)
        loop.run_until_complete(script(loop, SimulatedMachine(loop)))


def test_nobody_is_let_in_before_the_node_is_registered():
    """The registration begins the leader epochs of a start. What came in before it was synced had those of the last
    run, in which a reader may have seen other records at the same offsets."""

    async def script(loop, machine):
        node, clients = loop.process("node", "node"), loop.process("clients", "clients")
        machine.background.delay_s = (1.0, 1.0)  # of every sync
        began = loop.time()
        starting = node.run(loop.create_task, machine.start(loop, "node", 9092))
        await clients.run(loop.create_task, until_let_in(loop))
        assert starting.done(), "it was let in while the node still registered itself"
        assert loop.time() - began >= 1.0

    async def until_let_in(loop):
        while True:
            try:
                client = await KafkaClient.connect("node", 9092, "early", loop.random_for("early"))
            except Broken:
                await asyncio.sleep(0.05)
            else:
                return client.close()

    with simulated_loop(1) as loop:
        Network(loop)
        loop.run_until_complete(script(loop, SimulatedMachine(loop)))


@pytest.mark.parametrize("seed", [10_889, 10_983])
def test_an_offset_is_not_read_twice_in_one_leader_epoch_with_other_records(seed):
    """The seeds in which it once was: the node let producers in before its start had begun a new leader epoch."""
    run(seed, SimulatedMachine)


def test_a_reader_that_meets_what_a_failed_sync_lost_is_not_told_of_damage():
    """The seed in which it once was, some milliseconds before the log knew that its sync had failed."""
    run(10_124, SimulatedMachine)
