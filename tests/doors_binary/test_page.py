"""The page about the binary door: its session runs and prints what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.doors.binary import replies
from headrace.wire.binary import ranges
from tests.support import serving

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "doors" / "binary.md").read_text()
SESSION = re.findall(r"```python\n(.*?)```\n\n```\n(.*?)```", PAGE, re.DOTALL)


def test_the_session_on_the_page_runs_and_prints_what_it_says(tmp_path: Path) -> None:
    assert len(SESSION) == 5 == PAGE.count("```python")
    with serving(tmp_path) as broker:
        port = broker.addresses["binary"].rpartition(":")[2]
        for program, printed in SESSION:
            code = program.replace("9999", port)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            assert (done.stdout, done.stderr, done.returncode) == (printed, "", 0)


def test_every_text_of_a_refusal_is_on_the_page() -> None:
    for text in (
        replies.MISSING_TOPIC,
        replies.MISSING_TOPIC_OR_CLIENT,
        replies.UNKNOWN_TYPE,
        replies.topic_exists("X"),
        replies.no_topic("X"),
        replies.too_many_partitions(17, 16),
        replies.invalid_partition(9),
        replies.no_partition("X", 2),
        replies.already_subscribed("C", "T", 0).replace("0", "P"),
        replies.not_subscribed("C", "T", 0).replace("0", "P"),
        replies.missing_partition("X", 3),
    ):
        assert f"`{text}`" in PAGE


def test_every_property_of_a_range_is_on_the_page_and_its_refusals_are_as_they_are_told() -> None:
    ours = PAGE[PAGE.index("## Ranges") : PAGE.index("## Records of other doors")]
    for name in ("partition", "offset", *ranges.NAMES):
        assert f"`{name}`" in ours
    bad: list[dict[str, str]] = [
        {"limit": "0"},
        {"offset": "-1", "limit": "1"},
        {"since": "x"},
        {"page": "x"},
        {"last": "1", "to": "1"},
        {"limit": "1", "group": "g"},
    ]
    for properties in bad:
        with pytest.raises(ValueError) as refused:
            ranges.asked("t", properties)
        assert f"`{refused.value}`" in ours
