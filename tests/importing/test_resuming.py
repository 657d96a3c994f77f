"""An import that is killed, or loses its server, goes on with the same command: nothing twice, nothing missing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from headrace.cli.importing.command import ImportedPartition
from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.importing.planted import lines_folder
from tests.support import Wire, serving, wait_until

RECORDS = 60_000
LIMIT_S = 60.0


def values(broker: ServedBroker, topic: str) -> list[bytes | None]:
    with Wire(broker.address) as wire:
        return [record.value for record in wire.read_all(topic)]


def end_offset(broker: ServedBroker, topic: str) -> int:
    with Wire(broker.address) as wire:
        return wire.fetch(topic, 0, max_wait_ms=0).high_watermark


def started(broker: ServedBroker, folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "headrace", "-s", broker.address, "import", "lines", str(folder)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill_in_the_middle(broker: ServedBroker, folder: Path, beyond: int) -> int:
    """Kills it when so many are there; how many there are when it is dead."""
    running = started(broker, folder)
    wait_until(lambda: running.poll() is not None or end_offset(broker, "big") > beyond, LIMIT_S)
    running.kill()
    running.wait(LIMIT_S)
    return end_offset(broker, "big")


def test_kill_minus_nine_again_and_again_leaves_no_doubles_and_no_gaps(tmp_path: Path) -> None:
    folder = lines_folder(tmp_path / "store", {"big": (f"message {n}" for n in range(RECORDS))})
    with serving(tmp_path / "node") as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("big", configs={"retention.ms": "-1"})
        there = 0
        for _ in range(3):
            there = kill_in_the_middle(broker, folder, there)
        assert 0 < there < RECORDS, "it was not killed in the middle"
        (row,) = Run(broker.address)("import", "lines", str(folder), "-o", "json").rows(ImportedPartition)
        assert row.found == there and row.sent == RECORDS - there
        assert row.result == "verified"
        assert values(broker, "big") == [b"message %d" % n for n in range(RECORDS)]


def test_a_server_that_dies_in_the_middle_is_imported_to_again(tmp_path: Path) -> None:
    folder = lines_folder(tmp_path / "store", {"big": (f"message {n}" for n in range(RECORDS))})
    with serving(tmp_path / "node") as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("big", configs={"retention.ms": "-1"})
        running = started(broker, folder)
        wait_until(lambda: end_offset(broker, "big") > 5000, LIMIT_S)
        broker.kill()
        running.wait(LIMIT_S)
        broker.start()
        (row,) = Run(broker.address)("import", "lines", str(folder), "-o", "json").rows(ImportedPartition)
        assert row.result == "verified" and row.found > 0
        assert values(broker, "big") == [b"message %d" % n for n in range(RECORDS)]
