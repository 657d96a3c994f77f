"""What every door on plain TCP does, on both kinds of loop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import uvloop

from tests.doors_tcp.echo import LIMIT_S, echo, loops, run, until


@loops
def test_what_came_together_is_answered_together_and_in_order(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path) as door:
            client = await door.client()
            client.say(*(b"%d" % number for number in range(1000)))
            assert [await client.line() for _ in range(1000)] == [b"%d\n" % number for number in range(1000)]
            metrics = door.door.metrics
            assert (metrics.opened, metrics.received_bytes, metrics.sent_bytes) == (1, 3890, 3890)
            client.writer.close()
            await until(lambda: not len(door.door))
            assert door.door.all[0].log == ["opened", "gone"]
            assert metrics.closed == {"client": 1}

    run(loop, main())


@loops
def test_a_full_connection_is_told_when_there_is_room_and_nothing_is_lost(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path, unsent_bytes=100_000) as door:
            client, other = await door.client(), await door.client()
            client.writer.transport.pause_reading()
            client.say(b"flood", b"after")
            await until(lambda: bool(door.door.all) and any("full" in one.log for one in door.door.all))
            [full] = [one for one in door.door.all if "full" in one.log]
            sent = door.door.metrics.sent_bytes
            client.say(b"not read yet")
            other.say(b"here")
            assert await other.line() == b"here\n"  # nobody else waits
            await asyncio.sleep(0.1)
            assert full.log[-1] == "full" and door.door.metrics.sent_bytes <= sent + 10
            assert full.unsent_bytes() < 100_000 + 512_000
            client.writer.transport.resume_reading()
            async with asyncio.timeout(LIMIT_S):
                got = await client.reader.readuntil(b"not read yet\n")
            assert got.count(b"x") % 10_000 == 0 and got.endswith(b"after\nnot read yet\n")
            assert "room" in full.log

    run(loop, main())


@loops
def test_a_bad_line_closes_after_what_was_answered_before_it_and_says_why(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path) as door:
            client = await door.client()
            client.say(b"fine", b"bad", b"never")
            assert await client.to_the_end() == b"fine\n"
            told = [fields for name, fields in door.door.events if name == "door.closed"]
            assert [(fields["cause"], fields["why"]) for fields in told] == [("malformed", "a bad line")]
            assert door.door.all[0].log == ["opened", "gone"]  # at once, though the client has not gone yet
            client.say(b"x" * 100_000)  # which nobody looks at
            await until(lambda: not len(door.door))
            assert door.door.metrics.closed == {"malformed": 1}

    run(loop, main())


@loops
def test_who_is_refused_hears_why_even_if_it_has_said_something(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path, max_connections=1) as door:
            first = await door.client()
            first.say(b"in")
            await first.line()
            for _ in range(5):
                extra = await door.client()
                extra.say(b"hello" * 1000)
                assert await extra.to_the_end() == b"no: too many connections\n"
                extra.writer.close()
            await until(lambda: len(door.door) == 1)
            assert [name for name, _ in door.door.events].count("door.connections-full") == 1
            assert door.door.metrics.refused == 5

    run(loop, main())


@loops
def test_a_fault_of_ours_ends_its_connection_alone(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path) as door:
            client, other = await door.client(), await door.client()
            client.say(b"fault")
            assert await client.to_the_end() == b""
            other.say(b"fine")
            assert await other.line() == b"fine\n"
            assert [str(fault["exception"]) for fault in door.faults] == ["ours"]
            client.writer.close()
            await until(lambda: door.door.metrics.closed == {"fault": 1})

    run(loop, main())


@loops
def test_a_stop_answers_what_was_taken_and_takes_no_more(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path) as door:
            client = await door.client()
            client.say(b"slow")
            await until(lambda: bool(door.door.all) and door.door.all[0].due == 1)
            stopping = asyncio.create_task(door.door.stop())
            assert await client.line() == b"slow\n"
            client.say(b"too late")
            assert await client.to_the_end() == b""
            await stopping
            assert not door.door.is_listening

    run(loop, main())


@loops
def test_a_stop_does_not_wait_for_who_takes_nothing(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path, unsent_bytes=100_000) as door:
            client = await door.client()
            client.writer.transport.pause_reading()
            client.say(b"flood")
            await until(lambda: bool(door.door.all) and "full" in door.door.all[0].log)
            began = time.monotonic()
            await door.door.stop()
            assert time.monotonic() - began < 3.0
            assert not len(door.door)

    run(loop, main())


@loops
def test_who_says_no_more_gets_the_answers_that_are_due(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path) as door:
            client = await door.client()
            client.say(b"now", b"slow")
            client.writer.write_eof()
            assert await client.to_the_end() == b"now\nslow\n"
            await until(lambda: not len(door.door))

    run(loop, main())


@loops
def test_timeouts_follow_the_clock_of_the_loop(loop, tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path, idle_ms=60_000, stall_ms=30_000) as door:
            idle, stalled = await door.client(), await door.client()
            stalled.writer.write(b"half a line")
            idle.say(b"x")
            await idle.line()
            await until(lambda: door.door.unfinished_bytes == 11)
            real, moved = door.door.loop.time, 0.0

            class Moved:
                """The door's loop, some time later."""

                def __getattr__(self, name: str) -> object:
                    return getattr(asyncio.get_running_loop(), name)

                def time(self) -> float:
                    return real() + moved

            door.door.loop = Moved()  # type: ignore[assignment]
            door.door.look_for_timeouts()
            moved = 40.0
            door.door.look_for_timeouts()
            assert await stalled.to_the_end() == b""
            assert door.door.unfinished_bytes == 0
            moved = 70.0
            door.door.look_for_timeouts()
            assert await idle.to_the_end() == b""
            causes = [fields["cause"] for name, fields in door.door.events if name == "door.closed"]
            assert causes == ["stalled", "idle"]

    run(loop, main())


def test_who_takes_nothing_is_closed_when_memory_for_all_is_short(tmp_path: Path) -> None:
    async def main() -> None:
        async with echo(tmp_path, unsent_bytes=500_000, all_unsent_bytes=1_200_000) as door:
            clients = [await door.client() for _ in range(6)]
            for client in clients:
                client.writer.transport.pause_reading()
                client.say(b"flood")
            await until(lambda: sum("full" in one.log for one in door.door.all) == 6)
            await until(lambda: door.door.unsent.held_bytes() <= 1_200_000)  # each when its own patience is over
            assert door.door.metrics.closed["slow"] >= 3
            assert len(door.door) >= 1  # no more than were needed
            other = await door.client()
            other.say(b"fine")
            assert await other.line() == b"fine\n"

    run(uvloop.new_event_loop, main())
