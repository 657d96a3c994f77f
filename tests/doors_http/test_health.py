"""Health and readiness: alive is who answers; ready is who can serve, and whoever is not says why."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from headrace import __version__
from headrace.node.host import DiskSpace
from tests.doors_http.running import LIMIT_S, Running, until

NAMES = ["listeners", "metadata", "logs", "disk", "data"]


async def readiness(web: Running) -> tuple[int, dict[str, str]]:
    """The status, and why not, by check."""
    answer = await web.web.get("/readyz")
    told = answer.json()
    assert [check["name"] for check in told["checks"]] == NAMES
    assert told["ready"] == (answer.status_code == 200) == all(check["ok"] for check in told["checks"])
    return answer.status_code, {check["name"]: check["why"] for check in told["checks"] if not check["ok"]}


def told(web: Running, name: str) -> list[dict[str, object]]:
    return [fields for event, fields in web.events if event == name]


async def test_health_names_the_node_its_version_and_its_clock(web: Running) -> None:
    answer = await web.web.get("/healthz")
    found = answer.json()
    assert answer.status_code == 200
    assert (found["status"], found["node_id"], found["version"]) == ("ok", 0, __version__)
    assert found["cluster_id"] == web.node.broker.cluster_id
    assert abs(found["time_ms"] - time.time() * 1000) < LIMIT_S * 1000
    assert 0 <= found["uptime_seconds"] < LIMIT_S


async def test_health_and_readiness_answer_head_too(web: Running) -> None:
    for page in ("/healthz", "/readyz"):
        answer = await web.web.head(page)
        assert (answer.status_code, answer.content) == (200, b"")


async def test_a_node_that_serves_is_ready(web: Running) -> None:
    await web.create("t")
    assert await web.produce("t", [b"x"], acks=-1) == [0]
    assert await readiness(web) == (200, {})
    assert not told(web, "node.not-ready")


async def test_a_failed_log_makes_the_node_not_ready_until_it_is_open_again(web: Running) -> None:
    await web.create("t")
    assert await web.produce("t", [b"x"]) == [0]
    web.disk.fails_syncs = True
    assert await web.produce("t", [b"x"], acks=-1) != [0]
    status, why = await readiness(web)
    assert (status, why) == (503, {"logs": "these take no batches: t/0"})
    assert told(web, "node.not-ready") == [why]
    web.disk.fails_syncs = False
    web.node.broker.maintain()
    assert await web.produce("t", [b"x"], acks=-1) == [0]
    assert await readiness(web) == (200, {})
    assert told(web, "node.ready") == [{}]


async def test_a_disk_that_refuses_writes_makes_the_node_not_ready(web: Running) -> None:
    await web.create("t")
    await web.create("u")
    web.disk.is_full = True
    assert await web.produce("t", [b"x"]) != [0]
    assert await readiness(web) == (503, {"logs": "these take no batches: t/0"})
    web.disk.is_full = False
    assert await web.produce("t", [b"x"]) == [0]
    assert await readiness(web) == (200, {})


async def test_a_failed_metadata_log_makes_the_node_not_ready(web: Running) -> None:
    web.disk.fails_syncs = True
    await asyncio.gather(web.create("t"), return_exceptions=True)
    status, why = await readiness(web)
    assert status == 503
    assert set(why) == {"metadata"}
    web.disk.fails_syncs = False


async def test_a_disk_that_is_nearly_full_is_told_before_it_refuses(web: Running) -> None:
    web.space = DiskSpace(1000, 1 << 40)
    status, why = await readiness(web)
    assert status == 503
    assert why["disk"].startswith("1000 bytes are left")
    web.space = None  # a system that does not say
    assert await readiness(web) == (200, {})


async def test_a_data_directory_that_is_taken_away_or_replaced_is_told_until_it_is_back(web: Running) -> None:
    data = Path(web.node.store.path)
    aside = data.with_name("aside")
    data.rename(aside)
    status, why = await readiness(web)
    assert (status, set(why)) == (503, {"data"})
    assert str(data) in why["data"]
    data.mkdir()
    (data / "lock").touch()
    assert (await readiness(web))[0] == 503, "it is another"
    (data / "lock").unlink()
    data.rmdir()
    data.touch()
    assert (await readiness(web))[0] == 503, "it is a file"
    data.unlink()
    aside.rename(data)
    assert await readiness(web) == (200, {})
    assert [list(fields) for fields in told(web, "node.not-ready")] == [["data"]]


async def test_the_node_looks_by_itself_and_tells_once_for_each_change(web: Running) -> None:
    web.space = DiskSpace(0, 1 << 40)
    for _ in range(3):
        web.node.watch.look()
        await asyncio.sleep(0.05)
    await until(lambda: bool(told(web, "node.not-ready")))
    assert len(told(web, "node.not-ready")) == 1
    web.space = DiskSpace(1 << 40, 1 << 40)
    await readiness(web)
    assert len(told(web, "node.ready")) == 1


async def test_a_door_that_no_longer_listens_makes_the_node_not_ready(web: Running) -> None:
    assert web.node.kafka._server is not None
    web.node.kafka._server.close()
    assert await readiness(web) == (503, {"listeners": "not listening: kafka"})
