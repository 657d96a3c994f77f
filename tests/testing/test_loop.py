import asyncio
import gc
import subprocess
import sys

import pytest

from headrace.testing.background import SimulatedBackground, SimulatedClock
from headrace.testing.loop import LimitExceeded, SimulationFault, Stalled, simulated_loop


def test_time_jumps_to_the_next_timer():
    async def main():
        started = asyncio.get_running_loop().time()
        await asyncio.sleep(3600)
        return asyncio.get_running_loop().time() - started

    with simulated_loop(1) as loop:
        assert loop.run_until_complete(main()) == 3600


def test_timers_of_the_same_moment_fire_in_the_order_in_which_they_were_set():
    fired = []

    async def main():
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_later(1.0, fired.append, number)
        await asyncio.sleep(2)

    with simulated_loop(1) as loop:
        loop.run_until_complete(main())
    assert fired == list(range(50))


def test_a_timeout_of_asyncio_works_on_virtual_time():
    async def main():
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.get_running_loop().create_future()

    with simulated_loop(1) as loop:
        loop.run_until_complete(main())
        assert loop.time() == 5


def test_a_run_in_which_nothing_can_happen_any_more_says_who_waits_where():
    async def waits_for_nobody():
        await asyncio.get_running_loop().create_future()

    with simulated_loop(1) as loop, pytest.raises(Stalled, match=r"waits_for_nobody at .*test_loop.py"):
        loop.run_until_complete(waits_for_nobody())


def test_an_exception_in_a_callback_fails_the_run():
    async def main():
        asyncio.get_running_loop().call_later(1, lambda: 1 // 0)
        await asyncio.sleep(10)

    with simulated_loop(1) as loop, pytest.raises(SimulationFault, match="ZeroDivisionError"):
        loop.run_until_complete(main())


def test_an_exception_of_a_task_that_nobody_awaits_fails_the_run():
    async def breaks():
        raise ValueError("unseen")

    async def main():
        asyncio.get_running_loop().create_task(breaks())
        await asyncio.sleep(10)

    with simulated_loop(1) as loop, pytest.raises(SimulationFault, match="unseen"):
        loop.run_until_complete(main())


def test_a_run_that_spins_or_never_ends_is_stopped():
    async def spins():
        while True:
            await asyncio.sleep(0)
            turns.append(1)

    async def waits():
        while True:
            await asyncio.sleep(1)
            turns.append(1)

    turns = []
    with simulated_loop(1, max_steps=1000) as loop, pytest.raises(LimitExceeded, match="steps"):
        loop.run_until_complete(spins())
    with simulated_loop(1, max_time_s=1000) as loop, pytest.raises(LimitExceeded, match="time"):
        loop.run_until_complete(waits())


def test_a_killed_process_runs_nothing_more_not_even_its_finally_blocks():
    ran = []

    async def victim():
        try:
            while True:
                await asyncio.sleep(1)
                ran.append("tick")
        finally:
            ran.append("finally")

    async def main(process):
        process.run(asyncio.get_running_loop().create_task, victim())
        await asyncio.sleep(2.5)
        process.kill()
        await asyncio.sleep(10)
        return list(ran)

    with simulated_loop(1) as loop:
        assert loop.run_until_complete(main(loop.process("victim", "host"))) == ["tick", "tick"]


def test_work_in_the_background_is_done_later_and_its_answer_comes_later_still():
    async def main(background):
        loop = asyncio.get_running_loop()
        times, done = [], loop.create_future()
        background.run(lambda: times.append(loop.time()), lambda result, error: done.set_result(loop.time()))
        assert times == []
        answered = await done
        failed = loop.create_future()
        background.run(lambda: 1 // 0, lambda result, error: failed.set_result(error))
        assert isinstance(await failed, ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            await loop.run_in_executor(None, lambda: 1 // 0)
        assert await loop.run_in_executor(None, int, "7") == 7
        return 0 < times[0] < answered

    with simulated_loop(1) as loop:
        assert loop.run_until_complete(main(SimulatedBackground(loop)))


def test_a_clock_shows_its_skew_its_drift_and_its_steps():
    with simulated_loop(1) as loop:
        clock = SimulatedClock(loop, 1_000_000, skew_ms=-500, drift=0.01)
        loop.run_until_complete(asyncio.sleep(100))
        assert (clock.now_ms(), clock.monotonic()) == (1_000_000 - 500 + 101_000, 101.0)
        clock.step(-60_000)
        assert clock.now_ms() == 1_000_000 - 500 + 41_000


def test_processes_interleave_by_seed_while_each_keeps_its_own_order():
    def order(seed):
        seen = []

        async def main():
            loop = asyncio.get_running_loop()
            for number in range(5):
                for name, process in processes:
                    process.run(loop.call_soon, seen.append, (name, number))
            await asyncio.sleep(1)

        with simulated_loop(seed, permute=True) as loop:
            processes = [(name, loop.process(name, name)) for name in "abc"]
            loop.run_until_complete(main())
        for name in "abc":
            assert [number for who, number in seen if who == name] == list(range(5))
        return seen

    assert order(1) == order(1)
    assert len({tuple(order(seed)) for seed in range(5)}) > 1


def test_the_collector_is_off_inside_and_as_before_outside():
    assert gc.isenabled()
    with simulated_loop(1):
        assert not gc.isenabled()
    assert gc.isenabled()


def test_what_a_killed_process_left_behind_is_cleared_away_without_noise():
    script = """
import asyncio
from headrace.testing.loop import simulated_loop
async def victim():
    try:
        await asyncio.sleep(100)
    finally:
        await asyncio.sleep(1)
async def main(process):
    process.run(asyncio.get_running_loop().create_task, victim())
    await asyncio.sleep(1)
    process.kill()
with simulated_loop(1) as loop:
    loop.run_until_complete(main(loop.process("victim", "host")))
"""
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stderr == ""
