"""Records go when somebody deletes them, and for no other reason: what a start finds and nobody knows stays."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest

from headrace.broker.topic import folder_name
from headrace.cluster import quorum as quorums
from headrace.cluster.records import TopicDeleted
from headrace.errors import StorageFailed
from headrace.log.config import ignore_error
from tests.broker.kit import Node, produce, values
from tests.doors.asking import asking, create, record
from tests.log.kit import batch


def folders(node: Node) -> list[str]:
    return node.world.disk.list(f"{node.world.root}/topics")


def start_again(node: Node) -> None:
    node.world.restart()
    node.start()
    node.world.background.drain()


async def test_folders_of_no_topic_stay_as_they_are_and_are_told_of() -> None:
    node = Node()
    produce(node, await node.partition("kept"), batch(b"one"))
    node.world.background.drain()
    (kept,) = folders(node)
    strays = ["mybackup", f"other-{bytes(range(16)).hex()}", "x-", "-"]
    for name in strays:
        node.world.disk.make_directory(f"{node.world.root}/topics/{name}/0")
    for _ in range(2):
        node.world.events.clear()
        start_again(node)
        assert folders(node) == sorted([kept, *strays])
        told = [fields for kind, fields in node.world.events if kind == "topic.stray"]
        assert told == [{"folder": f"{node.world.root}/topics", "count": 4, "names": sorted(strays)}]
    assert values(await node.partition("kept")) == [b"one"]


async def test_a_copy_of_a_topic_that_was_deleted_stays() -> None:
    node = Node()
    produce(node, await node.partition("gone"), batch())
    node.world.background.drain()
    (name,) = folders(node)
    node.world.disk.make_directory(f"{node.world.root}/topics/saved-{name}/0")
    assert await node.do(node.broker.delete_topics(["gone"])) == [None]
    start_again(node)
    assert folders(node) == [f"saved-{name}"]


async def test_what_is_a_file_systems_own_is_no_topic(tmp_path: Path) -> None:
    for name in ("lost+found", ".hidden"):
        (tmp_path / "data" / "topics" / name).mkdir(parents=True)
    for _ in range(2):
        async with asking(tmp_path) as asker:
            assert asker.node.broker.topics() == []
    assert sorted(path.name for path in (tmp_path / "data" / "topics").iterdir()) == [".hidden", "lost+found"]


async def test_a_start_without_strays_tells_of_none() -> None:
    node = Node()
    produce(node, await node.partition("kept"), batch())
    node.world.background.drain()
    node.world.events.clear()
    start_again(node)
    assert "topic.stray" not in node.world.kinds()


@pytest.mark.parametrize("snapshot_entries", [1, 1000])
async def test_what_is_left_of_a_deleted_topic_goes_though_its_entry_went_into_a_snapshot(
    monkeypatch: pytest.MonkeyPatch, snapshot_entries: int
) -> None:
    monkeypatch.setattr(quorums, "SNAPSHOT_ENTRIES", snapshot_entries)
    node = Node()
    produce(node, await node.partition("gone"), batch())
    produce(node, await node.partition("kept"), batch())
    node.world.background.drain()
    topic = node.broker.topic("gone")
    assert topic is not None
    node.quorum.on_apply = lambda _: None  # the process ends before the folder has its new name
    node.quorum.propose(lambda _: [TopicDeleted(topic.image.topic_id)], ignore_error)
    node.world.background.drain()
    assert len(folders(node)) == 2
    start_again(node)
    assert [name.partition("-")[0] for name in folders(node)] == ["kept"]
    assert "topic.stray" not in node.world.kinds()


@pytest.fixture
async def served(tmp_path: Path) -> Path:
    """The data of a node that has stopped."""
    async with asking(tmp_path) as asker:
        for name in ("t", "u"):
            await create(asker, name)
            assert (await asker.produce(name, 0, [record(asker.node.clock.now_ms())])).error == 0
    return tmp_path / "data"


def kept(data: Path) -> list[str]:
    return sorted(str(path.relative_to(data)) for path in (data / "topics").rglob("*.log") if path.stat().st_size)


@pytest.mark.parametrize("lost", ["metadata synced", "metadata synced format", "metadata/log synced metadata/image"])
async def test_topics_without_any_metadata_are_refused_and_kept(tmp_path: Path, served: Path, lost: str) -> None:
    before, aside = kept(served), tmp_path / "aside"
    assert len(before) == 2
    shutil.copytree(served, aside)
    for name in lost.split():
        if (served / name).is_dir():
            shutil.rmtree(served / name)
        else:
            (served / name).unlink(missing_ok=True)
    for _ in range(2):
        with pytest.raises(StorageFailed, match=r"holds 2 topics .*knows of none"):
            async with asking(tmp_path):
                pass
        await asyncio.sleep(0.05)
        assert kept(served) == before
    for name in ("metadata", "metadata/log"):
        shutil.copytree(aside / name, served / name, dirs_exist_ok=True)
    shutil.copy(aside / "synced", served / "synced")
    async with asking(tmp_path) as asker:
        assert {topic.name for topic in asker.node.broker.topics()} == {"t", "u"}
    assert kept(served) == before


async def test_the_name_of_a_stray_may_be_that_of_a_topic_that_is_made_later() -> None:
    node = Node()
    await node.topic("a")
    stray = folder_name("t", bytes(15) + b"\x63")
    node.world.disk.make_directory(f"{node.world.root}/topics/{stray}/0")
    start_again(node)
    produce(node, await node.partition("t"), batch(b"new"))
    assert values(await node.partition("t")) == [b"new"]
    assert stray in folders(node)
