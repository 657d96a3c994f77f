"""The client's page: its examples run, and its tables name every option with its default."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from headrace import errors
from headrace.client.consumer import ConsumerOptions
from headrace.client.group_options import GroupOptions
from headrace.client.producer_options import ProducerOptions
from tests.support import serving

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "client.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_every_example_runs(tmp_path: Path) -> None:
    assert len(EXAMPLES) == 8
    with serving(tmp_path) as broker:
        for example in EXAMPLES:
            code = example.replace("127.0.0.1:9092", broker.address)
            done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
            assert (done.returncode, done.stderr) == (0, ""), done.stderr
            assert done.stdout


@pytest.mark.parametrize("options", [ProducerOptions(), ConsumerOptions(), GroupOptions(group="needed")])
def test_every_option_is_in_a_table_with_its_default(options: ProducerOptions | ConsumerOptions) -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| `?(.*?)`? \|", PAGE, re.MULTILINE))
    assert rows.pop("group") == "needed"
    for name in set(options.__struct_fields__) - {"group"}:
        default = getattr(options, name)
        words = "by key" if callable(default) else f'"{default}"' if isinstance(default, str) else str(default)
        assert rows[name] == words


def test_every_error_that_the_page_names_is_one() -> None:
    table = PAGE.partition("## Errors")[2].partition("##")[0]
    named = re.findall(r"`([A-Z]\w+)`", table)
    assert len(named) > 8
    assert all(issubclass(getattr(errors, name), errors.HeadraceError) for name in named)
