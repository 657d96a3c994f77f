"""Backups of a data directory that is served from, and their return elsewhere: equal to the byte."""

from __future__ import annotations

import threading
from pathlib import Path

from headrace.backup.manifest import Manifest, load
from headrace.backup.restore import restore_directory
from headrace.backup.verify import verify
from headrace.log.files import OsFiles
from headrace.testing.served import ServedBroker
from tests.backup.kit import SMALL_SEGMENTS, Churn, Load, back_up, fetched, kept_records, served, value_of
from tests.support import Wire, batch_of


def assert_equal(manifest: Manifest, original: Wire, restored: Wire) -> int:
    """Every partition of the backup, from its start to its end; the original may have let go of the oldest meanwhile.
    How many bytes were compared."""
    compared = 0
    for topic in manifest.topics:
        for part in topic.partitions:
            answer = original.fetch(topic.name, part.end_offset, part.partition, max_wait_ms=0)
            if answer.error:  # deleted since
                continue
            start = max(part.start_offset, answer.log_start_offset)
            here = fetched(restored, topic.name, part.partition, start, part.end_offset)
            assert here == fetched(original, topic.name, part.partition, start, part.end_offset)
            compared += len(here)
    return compared


def test_a_backup_under_load_comes_back_equal_to_the_byte(tmp_path: Path) -> None:
    """Producers write, retention lets go, topics come and go, while backups are made one after the other."""
    retained = SMALL_SEGMENTS | {"retention.bytes": str(1 << 20)}
    with served(tmp_path / "here") as (broker, wire):
        wire.create_topic("kept", 3, SMALL_SEGMENTS)
        wire.create_topic("retained", 2, retained)
        manifests: list[tuple[Path, Manifest]] = []
        with Load(broker, {"kept": 3, "retained": 2}) as load_, Churn(broker) as churn:
            load_.wait(500)
            while len(manifests) < 3 or not any(_start(m, "retained") for _, m in manifests):
                assert len(manifests) < 60, "retention never let go of anything"
                target = tmp_path / f"backup-{len(manifests)}"
                begin = dict(load_.sent)
                earlier = manifests[-1][0] if manifests else None
                manifests.append((target, back_up(broker.folder / "data", target, earlier, rate=6 << 20)))
                for (topic, partition), sent in begin.items():
                    assert _end(manifests[-1][1], topic, partition) >= sent, "what was acknowledged before is in it"
            assert churn.rounds > 3
        assert manifests[-1][1].reused_bytes > 0
        for target, manifest in manifests:
            assert verify(str(target), manifest) == [], "nothing that backups share was written to"
        for number in (0, len(manifests) // 2, -1):
            target, manifest = manifests[number]
            restore_directory(str(target), manifest, str(tmp_path / f"there-{number}" / "data"))
            with served(tmp_path / f"there-{number}") as (_, elsewhere):
                assert assert_equal(manifest, wire, elsewhere) > 0
                for topic, count in {"kept": 3, "retained": 2}.items():
                    for partition in range(count):
                        start, end = _start(manifest, topic, partition), _end(manifest, topic, partition)
                        records = kept_records(elsewhere, topic, partition, start, end)
                        assert records == [(o, value_of(topic, partition, o)) for o in range(start, end)]


def _part(manifest: Manifest, topic: str, partition: int) -> tuple[int, int]:
    (found,) = [entry for entry in manifest.topics if entry.name == topic]
    return found.partitions[partition].start_offset, found.partitions[partition].end_offset


def _start(manifest: Manifest, topic: str, partition: int = 0) -> int:
    return _part(manifest, topic, partition)[0]


def _end(manifest: Manifest, topic: str, partition: int = 0) -> int:
    return _part(manifest, topic, partition)[1]


def test_a_restored_directory_goes_on_where_the_backup_ended(tmp_path: Path) -> None:
    with served(tmp_path / "here") as (broker, wire):
        wire.create_topic("orders", 1, {"retention.ms": "123456789"})
        wire.produce("orders", batch_of([b"one", b"two"]))
        cluster = back_up(broker.folder / "data", tmp_path / "backup")
        topic_id = wire.topic_id("orders")
    assert cluster.topics[0].config == {"retention.ms": "123456789"}
    restore_directory(str(tmp_path / "backup"), cluster, str(tmp_path / "there" / "data"))
    with served(tmp_path / "there") as (_, elsewhere):
        assert elsewhere.topic_id("orders") == topic_id
        assert elsewhere.produce("orders", batch_of([b"three"])).base_offset == 2
        assert [record.value for record in elsewhere.read_all("orders")] == [b"one", b"two", b"three"]


def test_a_stopped_directory_is_backed_up_as_well(tmp_path: Path) -> None:
    with served(tmp_path / "here") as (_, wire):
        wire.create_topic("orders")
        wire.produce("orders", batch_of([b"one"]))
    manifest = back_up(tmp_path / "here" / "data", tmp_path / "backup")
    assert _end(manifest, "orders") == 1
    assert load(OsFiles(), str(tmp_path / "backup")) == manifest


def test_an_incremental_backup_links_what_is_complete_and_copies_the_rest(tmp_path: Path) -> None:
    with served(tmp_path / "here") as (broker, wire):
        wire.create_topic("orders", 1, SMALL_SEGMENTS)
        data = broker.folder / "data"
        for _ in range(30):
            wire.produce("orders", batch_of([b"x" * 60_000]), acks=-1)
        first = back_up(data, tmp_path / "first")
        for _ in range(5):
            wire.produce("orders", batch_of([b"y" * 60_000]), acks=-1)
        second = back_up(data, tmp_path / "second", earlier=tmp_path / "first")
        assert first.reused_bytes == 0
        assert second.reused_bytes > 1_200_000
        assert second.based_on == str(tmp_path / "first")
        linked = [f for f in (tmp_path / "second").rglob("*.log") if f.stat().st_nlink == 2]
        assert len(linked) >= 4
        assert verify(str(tmp_path / "first"), first) == [] == verify(str(tmp_path / "second"), second)
        restore_directory(str(tmp_path / "second"), second, str(tmp_path / "there" / "data"))
        with served(tmp_path / "there") as (_, elsewhere):
            assert assert_equal(second, wire, elsewhere) > 35 * 60_000


def test_a_broker_that_is_killed_meanwhile_harms_no_backup(tmp_path: Path) -> None:
    broker = ServedBroker(tmp_path / "here")
    with broker:
        with Wire(broker.address) as wire:
            wire.create_topic("orders", 2, SMALL_SEGMENTS)
        with Load(broker, {"orders": 2}) as load_:
            load_.wait(300)
            for number in range(4):
                killer = threading.Timer(0.1, lambda: (broker.kill(), broker.start()))
                killer.start()
                manifest = back_up(broker.folder / "data", tmp_path / f"backup-{number}", rate=2 << 20)
                killer.join()
        with Wire(broker.address) as wire:
            restore_directory(str(tmp_path / f"backup-{number}"), manifest, str(tmp_path / "there" / "data"))
            with served(tmp_path / "there") as (_, elsewhere):
                assert assert_equal(manifest, wire, elsewhere) > 0
