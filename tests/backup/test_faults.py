"""What can go wrong with a backup: power, full disks, damage in the original, formats of another time."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.backup.manifest import load
from headrace.backup.place import Place
from headrace.backup.restore import restore_directory
from headrace.errors import DirectoryUnusable, FormatTooNew, NotABackup
from headrace.log.config import LogConfig
from headrace.log.files import OsFiles, ReadOnlyFiles
from headrace.testing.disk import SimulatedDisk
from tests.backup.kit import SMALL_SEGMENTS, back_up, served
from tests.backup.test_copying import COPY, SMALL, copy
from tests.cli.planting import can_mount
from tests.log.kit import World, fill, read_all
from tests.support import batch_of


@pytest.mark.parametrize("keep", ["none", "some"])
def test_a_copy_that_was_made_survives_power_loss(keep: str) -> None:
    """The names above the log's own folder are synced by whoever ends the backup."""
    world, disk = World(), SimulatedDisk()
    log = world.log(config=SMALL)
    written = fill(log, 30)
    log.snapshot()
    world.background.drain()
    fill(log, 3)
    copied = copy(world, target=disk)
    for folder in ("/", COPY, f"{COPY}/topics", f"{COPY}/topics/a"):
        disk.sync_directory(folder)
    disk.power_loss(keep)  # type: ignore[arg-type]
    sizes = {file.name: file.size for file in copied.files}
    assert {name: _size(disk, name) for name in disk.list(f"{COPY}/topics/a/0")} == sizes
    elsewhere = World(disk, root=COPY)
    again = elsewhere.log(config=LogConfig(retention_ms=-1))
    assert again.written_offset == 33 and read_all(again).startswith(b"".join(written))
    assert elsewhere.kinds() == []


def _size(disk: SimulatedDisk, name: str) -> int:
    handle = disk.open(f"{COPY}/topics/a/0/{name}")
    try:
        return disk.size(handle)
    finally:
        disk.close(handle)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of some 2 MB, its broker stopped."""
    with served(tmp_path / "here") as (broker, wire):
        wire.create_topic("orders", 1, SMALL_SEGMENTS)
        for number in range(40):
            wire.produce("orders", batch_of([b"%d" % number * 25_000]), acks=-1)
        return broker.folder / "data"


FULL = """set -e
mkdir "$1"; mount -t tmpfs -o size=900k none "$1"; shift
code=0; "$@" || code=$?
echo "code $code"
mount -o remount,size=100m none "$TARGET"
"$@"
"$PYTHON" -m headrace backup verify "$TARGET"
"""


def test_a_full_disk_is_told_and_the_backup_goes_on_when_there_is_room(data: Path, tmp_path: Path) -> None:
    if not can_mount():
        pytest.skip("this machine lets nobody mount file systems in a name space of its own")
    target = tmp_path / "backup"
    line = [sys.executable, "-m", "headrace", "backup", "create", str(target), "--data", str(data), "-o", "json"]
    environment = {"TARGET": str(target), "PYTHON": sys.executable, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    ended = subprocess.run(
        ["unshare", "-Urm", "sh", "-c", FULL, "sh", str(target), *line],
        capture_output=True, text=True, env=environment, timeout=60,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    first, made = ended.stdout.split("\n", 1)
    assert first == "code 7" and "no space left" in ended.stderr
    found, end = json.JSONDecoder().raw_decode(made)
    assert found["resumed"] and found["reused_bytes"] > 0
    assert "is whole" in made[end:]


def test_damage_in_the_original_is_told_and_the_rest_is_kept(data: Path, tmp_path: Path) -> None:
    victim = sorted(data.rglob("topics/*/0/*.log"))[1]
    changed = bytearray(victim.read_bytes())
    changed[5000] ^= 1
    victim.write_bytes(changed)
    manifest = back_up(data, tmp_path / "backup")
    assert len(manifest.damage) == 1 and victim.name in manifest.damage[0]
    assert manifest.topics[0].partitions[0].end_offset == 40


@pytest.mark.parametrize("name", ["format", "metadata/image"])
def test_a_newer_format_is_refused(data: Path, tmp_path: Path, name: str) -> None:
    (data / name).write_bytes(b'{"format": 2, "created_ms": 0}' if name == "format" else b"HRMETA02" + bytes(20))
    with pytest.raises(FormatTooNew):
        back_up(data, tmp_path / "backup")
    with pytest.raises(NotABackup, match="never finished"):
        load(OsFiles(), str(tmp_path / "backup"))


def test_a_folder_that_is_no_data_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DirectoryUnusable):
        back_up(tmp_path, tmp_path / "backup")


def test_a_restore_that_was_cut_short_is_begun_anew(data: Path, tmp_path: Path) -> None:
    manifest = back_up(data, tmp_path / "backup")
    there = tmp_path / "there" / "data"

    class Stop(Exception):
        pass

    def stop(_: int) -> None:
        raise Stop

    with pytest.raises(Stop):
        restore_directory(str(tmp_path / "backup"), manifest, str(there), stop)
    (there / "topics" / "old").mkdir(parents=True)
    assert (there / "restoring").exists()
    restore_directory(str(tmp_path / "backup"), manifest, str(there))
    assert not (there / "restoring").exists() and not (there / "topics" / "old").exists()
    with served(tmp_path / "there") as (broker, wire):
        assert len(wire.read_all("orders")) == 40
        assert "log.torn" not in broker.log() and "log.damage" not in broker.log()


def test_damage_after_a_restore_is_known_as_damage(data: Path, tmp_path: Path) -> None:
    """The journal that a restore writes proves that all of it was synced: nothing is cut away as a torn end."""
    manifest = back_up(data, tmp_path / "backup")
    there = tmp_path / "there" / "data"
    restore_directory(str(tmp_path / "backup"), manifest, str(there))
    last = max(there.rglob("topics/*/0/*.log"))
    last.write_bytes(last.read_bytes()[:-500])
    with served(tmp_path / "there") as (broker, wire):
        assert wire.produce("orders", batch_of([b"next"])).base_offset == 40
        assert "log.damage" in broker.log()


def test_nothing_can_be_written_through_files_that_only_look(tmp_path: Path) -> None:
    path = str(tmp_path / "file")
    (tmp_path / "file").write_bytes(b"as it was")
    files = ReadOnlyFiles()
    handle = files.open(path)
    refused = [
        lambda: files.open(path + "2", create=True),
        lambda: files.pwritev(handle, (b"x",), 0),
        lambda: files.truncate(handle, 0),
        lambda: files.release(handle, 0),
        lambda: files.rename(path, path + "2"),
        lambda: files.remove(path),
        lambda: files.remove_directory(str(tmp_path)),
        lambda: files.make_directory(path + "2"),
        lambda: files.lock(path),
    ]
    for write in refused:
        with pytest.raises(OSError, match="only looked at"):
            write()
    files.close(handle)
    assert (tmp_path / "file").read_bytes() == b"as it was"


def test_what_an_attempt_before_left_is_removed_at_the_end(data: Path, tmp_path: Path) -> None:
    place = Place.open(str(tmp_path / "backup"))
    place.close()
    stray = tmp_path / "backup" / "data" / "topics" / "deleted-since" / "0"
    stray.mkdir(parents=True)
    (stray / "00000000000000000000.log").touch()
    manifest = back_up(data, tmp_path / "backup")
    assert not stray.parent.exists()
    assert manifest == load(OsFiles(), str(tmp_path / "backup"))
