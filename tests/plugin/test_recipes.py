"""The page about testing: every program on it runs as it stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "docs" / "testing.md"
PROGRAM = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_recipe_runs_as_it_stands(tmp_path: Path) -> None:
    programs = PROGRAM.findall(PAGE.read_text())
    assert len(programs) >= 10
    for number, program in enumerate(programs):
        (tmp_path / f"test_{number}.py").write_text(program)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers", "."],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(programs)} passed" in done.stdout, done.stdout
