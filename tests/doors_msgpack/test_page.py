"""The page of the door: its sessions and programs are run as they stand there."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace.testing.broker import Broker
from tests.doors_msgpack.kit import Raw

PAGE = (Path(__file__).parents[2] / "docs" / "doors" / "msgpack.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)
ADDRESS = "127.0.0.1:36912"


def steps() -> list[tuple[str, str, Any, bytes]]:
    """Who, sent or received, the value, its bytes."""
    (session,) = re.findall(r"```session\n(.*?)```", PAGE, re.DOTALL)
    found = []
    for line in session.splitlines():
        text, _, data = re.sub(r"\s{2,}|(?<=\}) (?=81 )", "\t", line[3:], count=1).strip().partition("\t")
        found.append((line[0], line[1], json.loads(text), bytes.fromhex(data)))
    return found


def test_the_session_on_the_page_goes_as_it_says(msgpack: str) -> None:
    with Raw(msgpack) as a, Raw(msgpack) as b:
        clients = {"A": a, "B": b}
        for who, way, value, data in steps():
            assert msgspec.msgpack.decode(data) == value, "the bytes are the value's"
            assert msgspec.msgpack.encode(value) == data
            if way == ">":
                clients[who].send(data)
                clients[who].in_order()
            else:
                clients[who].expect(data)
        a.expect_nothing()
        b.expect_nothing()


@pytest.mark.parametrize("program", range(len(PROGRAMS)))
def test_the_programs_on_the_page_print_what_it_says(msgpack: str, program: int) -> None:
    source, printed = PROGRAMS[program]
    assert ADDRESS in source
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(source.replace(ADDRESS, msgpack), "docs/doors/msgpack.md", "exec"), {"__name__": "__main__"})
    assert out.getvalue() == printed


def test_what_the_page_says_of_limits_and_places_is_so(broker: Broker) -> None:
    from headrace.broker.memory_topics import MAX_TOPICS
    from headrace.doors.msgpack.limits import MAX_COMMAND_BYTES, WAITING_BYTES, msgpack_limits
    from headrace.node.metrics.catalogue import METRICS
    from headrace.wire.msgpack.forms import MAX_DEPTH

    assert f"{MAX_COMMAND_BYTES:,} bytes" in PAGE
    assert f"{WAITING_BYTES >> 20} MiB" in PAGE
    assert f"{MAX_TOPICS:,} memory topics" in PAGE
    assert f"{MAX_DEPTH} deep" in PAGE
    assert msgpack_limits().take_ms == 3_600_000
    assert "takes nothing for an hour" in PAGE
    for name in re.findall(r"`(headrace_\w+)`", PAGE):
        assert name in {metric.name for metric in METRICS}
