"""A fault while requests are taken later, when nobody reads: the connection ends and says so, it does not stay held."""

from __future__ import annotations

from pathlib import Path

from headrace.doors.tcp.answers import Answer
from headrace.doors.tcp.pipeline import Pipeline
from headrace.errors import HeadraceError
from tests.doors_tcp.echo import EchoConnection, EchoDoor, echo, loops, run, until


class Taking(EchoConnection):
    """Each line is alone: the next is taken from the loop, when the one before it is answered."""

    def __init__(self, door: EchoDoor) -> None:
        super().__init__(door)
        self.pipeline: Pipeline[bytes] = Pipeline(self, self._take, lambda line: True)

    def received(self, data: memoryview) -> None:
        self.pipeline.put(bytes(data).splitlines())

    def _take(self, line: bytes, answer: Answer) -> None:
        match line:
            case b"bad":
                raise HeadraceError("a bad line")
            case b"fault":
                raise RuntimeError("ours")
        self.tcp.loop.call_soon(self.pipeline.give, answer, line + b"\n")


async def ends(folder: Path, line: bytes, cause: str, why: str, faults: list[str]) -> None:
    async with echo(folder, Taking) as door:
        client = await door.client()
        client.say(b"first", line, b"never")
        assert await client.to_the_end() == b"first\n"
        told = [fields for name, fields in door.door.events if name == "door.closed"]
        assert [(fields["cause"], fields["why"]) for fields in told] == [(cause, why)]
        client.writer.close()
        await until(lambda: not len(door.door))
        assert door.door.metrics.closed == {cause: 1}
        assert [str(fault["exception"]) for fault in door.faults] == faults
        assert door.door.all[0].log == ["opened", "gone"]


@loops
def test_a_fault_of_ours_closes_the_connection_and_is_reported(loop, tmp_path: Path) -> None:
    run(loop, ends(tmp_path, b"fault", "fault", "a fault of ours; the log has it", ["ours"]))


@loops
def test_what_is_malformed_closes_it_as_it_does_when_it_is_read(loop, tmp_path: Path) -> None:
    run(loop, ends(tmp_path, b"bad", "malformed", "a bad line", []))
