"""`headrace import binary DIR`: frames become records that the binary door delivers as they were."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.importing.command import ImportedPartition
from headrace.compat import BrokerClient
from headrace.testing import Broker
from tests.cli.running import Run
from tests.importing.planted import binary_folder, binary_properties, frame


def delivered(
    broker: Broker, topic: str, partition: int, count: int
) -> list[tuple[int, int, list[tuple[str, str]], bytes]]:
    """As a subscriber gets them: offset, time, properties in order, body."""
    import queue

    host, _, port = broker.addresses["binary"].rpartition(":")
    arrived: queue.Queue[tuple[int, int, list[tuple[str, str]], bytes]] = queue.Queue()
    with BrokerClient(host, int(port), "reader") as client:
        client.subscribe(
            topic,
            partition,
            0,
            lambda message: arrived.put(
                (message.offset, message.timestamp_ms, list(message.properties.items()), message.body)
            ),
        )
        return [arrived.get(timeout=10) for _ in range(count)]


def test_partitions_offsets_times_properties_and_bodies_are_as_they_were(
    broker: Broker, cli: Run, tmp_path: Path
) -> None:
    bodies = [b"Hello, World!", b"", bytes(range(256)), b"x" * 100_000]
    binary_folder(tmp_path, {("events", 0): bodies, ("events", 2): [b"other"]})
    rows = cli("import", "binary", str(tmp_path), "-o", "json").rows(ImportedPartition)
    assert [(row.partition, row.records, row.result) for row in rows] == [
        (0, 4, "verified"),
        (1, 0, "verified"),
        (2, 1, "verified"),
    ]
    for offset, got in enumerate(delivered(broker, "events", 0, 4)):
        properties = binary_properties("events", f"k{offset % 3}")
        assert got == (offset, 1755518400500 + offset, properties, bodies[offset])
    assert [got[3] for got in delivered(broker, "events", 2, 1)] == [b"other"]


def test_a_frame_that_a_crash_tore_is_left_out_and_told(broker: Broker, cli: Run, tmp_path: Path) -> None:
    log = binary_folder(tmp_path, {("torn", 0): [b"a", b"b"]}) / "torn_p0.log"
    whole = log.read_bytes()
    log.write_bytes(whole[:-5])
    ended = cli("import", "binary", str(tmp_path))
    assert ended.code == 0
    assert f"torn at the end, left out: {log}" in ended.err
    assert broker.values("torn") == [b"a"]


def test_damage_in_the_middle_costs_one_message_where_the_index_knows_the_next(
    broker: Broker, cli: Run, tmp_path: Path
) -> None:
    log = binary_folder(tmp_path, {("hurt", 0): [b"a", b"b", b"c"]}) / "hurt_p0.log"
    data = bytearray(log.read_bytes())
    second = struct.unpack(">I", (tmp_path / "hurt_p0.idx").read_bytes()[4:8])[0]
    struct.pack_into(">I", data, second + 4 + 4, 99)  # the type of the second frame
    log.write_bytes(data)
    assert cli("import", "binary", str(tmp_path)).code == exits.REFUSED
    (row,) = cli("import", "binary", str(tmp_path), "--skip-damaged", "-o", "json").rows(ImportedPartition)
    assert (row.records, row.damaged) == (2, 1)
    assert broker.values("hurt") == [b"a", b"c"]


def test_an_index_that_disagrees_costs_nothing(broker: Broker, cli: Run, tmp_path: Path) -> None:
    binary_folder(tmp_path, {("lies", 0): [b"a", b"b"]})
    (tmp_path / "lies_p0.idx").write_bytes(struct.pack(">II", 0, 7))
    ended = cli("import", "binary", str(tmp_path))
    assert ended.code == 0 and "worth knowing" in ended.err
    assert broker.values("lies") == [b"a", b"b"]


def test_without_an_index_the_log_is_enough(broker: Broker, cli: Run, tmp_path: Path) -> None:
    binary_folder(tmp_path, {("bare", 0): [b"a", b"b"]})
    (tmp_path / "bare_p0.idx").unlink()
    assert cli("import", "binary", str(tmp_path)).code == 0
    assert broker.values("bare") == [b"a", b"b"]


def test_keys_are_keys(broker: Broker, cli: Run, tmp_path: Path) -> None:
    made = frame(0, 1755518400500, binary_properties("keyed", "customer-7"), b"v")
    (tmp_path / "keyed_p0.log").write_bytes(struct.pack(">I", len(made)) + made)
    assert cli("import", "binary", str(tmp_path)).code == 0
    (record,) = broker.records("keyed")
    assert (record.key, record.value) == (b"customer-7", b"v")


def test_a_folder_without_such_files_is_told(cli: Run, tmp_path: Path) -> None:
    ended = cli("import", "binary", str(tmp_path))
    assert ended.code == exits.NOT_FOUND
    assert "holds no <topic>_p<N>.log files" in ended.err


@pytest.mark.parametrize("length", [0, 200, 5000, 0xFFFFFFFF])
def test_a_length_that_was_overwritten_hides_nothing_behind_it(
    length: int, broker: Broker, cli: Run, tmp_path: Path
) -> None:
    """Whatever it says, even past the end: what is behind it is no torn end."""
    name = f"hidden-{length}"
    log = binary_folder(tmp_path, {(name, 0): [b"a", b"b", b"c", b"d", b"e"]}) / f"{name}_p0.log"
    (tmp_path / f"{name}_p0.idx").unlink()
    whole = bytearray(log.read_bytes())
    third = 2 * (len(whole) // 5)
    struct.pack_into(">I", whole, third, length)
    log.write_bytes(whole)
    ended = cli("import", "binary", str(tmp_path))
    assert ended.code != 0
    assert f"{log} at byte {third}" in ended.err
    assert "torn" not in ended.err
    assert name not in broker.topics()
