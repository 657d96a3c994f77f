"""Structured logs: every event has a level, and none can stop what it tells of."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest

import headrace
from headrace.broker.config import SETTINGS
from headrace.node.logs import LEVEL_OF, LEVELS, Logs

SOURCE = Path(headrace.__file__).parent
EVENT = re.compile(r"(?:_|\b)(?:on_)?event\(\s*\"([a-z]+\.[a-z-]+)\"")


def emitted() -> set[str]:
    return {name for path in SOURCE.rglob("*.py") for name in EVENT.findall(path.read_text())}


def test_every_event_that_is_told_has_a_level_and_every_level_an_event() -> None:
    assert emitted() == set(LEVEL_OF)
    assert set(LEVEL_OF.values()) <= set(LEVELS)


def test_a_line_is_one_json_object_unless_people_read_it() -> None:
    out = io.StringIO()
    Logs("json", "info", out).event("log.damage", {"offset": 5, "why": "a\nb"})
    line = json.loads(out.getvalue())
    assert (line["event"], line["level"], line["offset"], line["why"]) == ("log.damage", "error", 5, "a\nb")
    human = io.StringIO()
    Logs("human", "info", human).event("log.damage", {"offset": 5})
    assert "ERROR log.damage offset=5" in human.getvalue()


@pytest.mark.parametrize(("level", "seen"), [("debug", 3), ("info", 2), ("warning", 1), ("error", 0)])
def test_a_level_hides_what_is_below_it(level: str, seen: int) -> None:
    out = io.StringIO()
    logs = Logs("json", level, out)
    for name in ("kafka.closed", "node.serving", "log.torn"):
        logs.event(name, {})
    assert len(out.getvalue().splitlines()) == seen


def test_a_log_that_cannot_be_written_stops_nobody() -> None:
    class Full(io.StringIO):
        def write(self, text: str) -> int:
            raise OSError(28, "No space left on device")

    Logs("json", "info", Full()).event("node.serving", {})
    closed = io.StringIO()
    closed.close()
    Logs("json", "info", closed).event("node.serving", {})


def test_the_operating_page_explains_every_event_and_every_topic_setting() -> None:
    page = (SOURCE.parents[1] / "docs" / "operating.md").read_text()
    rows = {name for line in page.splitlines() if line.startswith("| `") for name in re.findall(r"`([^`]+)`", line)}
    assert set(LEVEL_OF) <= rows
    for name, setting in SETTINGS.items():
        assert f"| `{name}` |" in page, "make figures writes it anew"
        assert setting.doc in page, "make figures writes it anew"
