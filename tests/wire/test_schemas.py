"""What importing kio's schemas costs whoever has hypothesis installed: nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path


def test_schemas_leave_nothing_in_the_folder_where_a_command_is_run(tmp_path: Path) -> None:
    code = (
        "import sys; from headrace.wire.kafka import messages; print(messages.schema('request', 37, 3).__name__);"
        "assert 'hypothesis' not in sys.modules; import hypothesis"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "create_partitions" in ended.stdout
    assert os.listdir(tmp_path) == []
