"""`make conformance SUITES=DIR`: a node of its own, and the suites of that folder against it.

DIR holds a script `run HOST:PORT [SUITE...]` that drives a Kafka broker with clients of others. Without the newer group
protocol, access control and users, which are not there yet. Two partitions by default: a test of kafka-python commits
the second partition of a topic that its first use makes, and asks for ever where there is none (of Apache Kafka 4.3.1
with `num.partitions=1` too).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from headrace.testing.served import ServedBroker

NOT_YET = {"KIP848": "0", "ACL": "0"}


def main() -> int:
    if len(sys.argv) < 2 or not (Path(sys.argv[1]) / "run").is_file():
        print("conformance: SUITES=DIR names a folder with a script `run`", file=sys.stderr)
        return 2
    suites, *chosen = sys.argv[1:]
    with (
        tempfile.TemporaryDirectory(prefix="headrace-conformance-") as folder,
        ServedBroker(Path(folder), "--default-partitions", "2") as broker,
    ):
        command = [str(Path(suites).resolve() / "run"), broker.address, *chosen]
        return subprocess.run(command, env=os.environ | NOT_YET, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
