"""Topics and nodes over HTTP: every row of the protocol's table, on one node."""

from __future__ import annotations

from typing import Any

import pytest

from tests.doors_http.running import Running

PLACED = {"owner": 0, "followers": [], "isr": [0]}


async def test_a_topic_is_made_with_one_partition_on_the_nodes_that_there_are(web: Running) -> None:
    answer = await web.web.post("/admin/topics?name=t")  # three replicas, says the protocol
    assert answer.json() == {"status": "ok", "topic": "t", "owner_id": 0, "leader_id": 0}
    topic = web.node.broker.topic("t")
    assert topic is not None
    assert [partition.replicas for partition in topic.partitions] == [[0]]
    answer = await web.web.post("/admin/topics?name=several&rf=1&owner_id=0&partitions=4")
    assert answer.status_code == 200
    assert len(web.node.broker.topic("several").partitions) == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("rf", ["", "&rf=1", "&rf=3"])
async def test_a_topic_that_is_there_is_a_conflict(web: Running, rf: str) -> None:
    await web.web.post(f"/admin/topics?name=t{rf}")
    answer = await web.web.post(f"/admin/topics?name=t{rf}")
    assert (answer.status_code, answer.json()) == (409, {"detail": {"error": "TOPIC_EXISTS", "topic": "t"}})


@pytest.mark.parametrize(
    ("query", "status", "detail"),
    [
        ("name=t&owner_id=9", 400, "Unknown owner_id 9"),
        ("name=", 400, None),
        ("name=..", 400, None),
        ("name=" + "x" * 250, 400, None),
        ("", 422, None),
        ("name=t&rf=0", 422, None),
        ("name=t&rf=x", 422, None),
        ("name=t&partitions=0", 422, None),
        ("name=t&partitions=2000000000", 400, None),
    ],
)
async def test_topics_that_cannot_be_made(web: Running, query: str, status: int, detail: str | None) -> None:
    answer = await web.web.post(f"/admin/topics?{query}")
    assert answer.status_code == status, answer.text
    assert detail is None or answer.json() == {"detail": detail}
    assert (await web.web.get("/admin/topics")).json()["topics"] == {}


async def test_topics_are_listed_and_described(web: Running) -> None:
    for name in ("b", "a", "__own"):
        await web.create(name)
    told = (await web.web.get("/admin/topics")).json()
    assert told["version"] > 0
    del told["version"]
    assert told == {"leader_id": 0, "topics": {"a": PLACED, "b": PLACED}}
    one = (await web.web.get("/admin/topics/a")).json()
    assert one == {"topic": "a", **PLACED, "replica_count": 1, "alive_brokers": [0]}
    answer = await web.web.get("/admin/topics/nowhere")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Topic 'nowhere' not found"})


async def test_metadata_rises_with_each_change(web: Running) -> None:
    await web.create("a")
    before = (await web.web.get("/metadata")).json()
    assert (before["leader_id"], before["topics"]) == (0, {"a": [0]})
    await web.create("b")
    after = (await web.web.get("/metadata")).json()
    assert after["topics"] == {"a": [0], "b": [0]}
    assert after["version"] > before["version"]


async def test_replicas_name_the_door_of_each_node(web: Running) -> None:
    await web.create("t")
    told = (await web.web.get("/replicas/t")).json()
    this = {"broker_id": 0, "api_base": f"http://{web.at}", "is_owner": True, "in_isr": True}
    assert told == {"topic": "t", "owner": 0, "isr": [0], "replicas": [this]}
    answer = await web.web.get("/replicas/nowhere")
    assert (answer.status_code, answer.json()) == (404, {"detail": "Topic not found"})


async def test_discovery_lists_the_nodes_and_registers_none(web: Running) -> None:
    this = {"broker_id": 0, "api_base": f"http://{web.at}", "election_host": web.at.host, "election_port": 0}
    assert (await web.web.get("/brokers")).json() == {"brokers": [this]}
    answer = await web.web.post("/register", json={**this, "broker_id": 7})
    assert answer.status_code == 403
    assert "metadata log" in answer.json()["detail"] and "GET /brokers" in answer.json()["detail"]
    assert (await web.web.get("/brokers")).json() == {"brokers": [this]}


@pytest.mark.parametrize(
    ("method", "path", "status", "detail"),
    [
        ("POST", "/admin/topics/t/replicas?broker_id_to_add=9", 400, "Unknown broker_id 9"),
        ("POST", "/admin/topics/t/replicas?broker_id_to_add=0", 400, "Broker 0 is already the owner"),
        ("POST", "/admin/topics/no/replicas?broker_id_to_add=9", 404, "Topic 'no' not found"),
        ("DELETE", "/admin/topics/t/replicas/0", 400, "Cannot remove the owner. Reassign ownership first."),
        ("DELETE", "/admin/topics/t/replicas/9", 400, "Broker 9 is not a replica"),
        ("DELETE", "/admin/topics/no/replicas/9", 404, "Topic 'no' not found"),
    ],
)
async def test_replicas_on_one_node(web: Running, method: str, path: str, status: int, detail: str) -> None:
    await web.create("t")
    answer = await web.web.request(method, path)
    assert (answer.status_code, answer.json()) == (status, {"detail": detail})


async def test_who_leads(web: Running) -> None:
    told = (await web.web.get("/admin/leader")).json()
    assert told == {"broker_id": 0, "this_broker_is_leader": True, "leader_id": 0}


async def test_who_is_in_sync(web: Running) -> None:
    await web.create("t")
    told = (await web.web.get("/admin/isr")).json()
    placed = {**PLACED, "alive": {"0": True}, "min_sync_followers": 0}
    assert told == {"leader_id": 0, "topics": {"t": placed}}


async def test_stats_and_metrics_have_the_gossip_snapshot(web: Running) -> None:
    await web.create("t")
    await web.web.post("/topics/t/publish", json={"value": 1})
    stats: dict[str, Any] = (await web.web.get("/stats")).json()
    assert set(stats) == {"broker_id", "timestamp", "election", "gossip", "replication"}
    assert stats["election"]["leader_id"] == 0
    assert stats["replication"]["t"] == {**PLACED, "latest_offset": 0}
    (member,) = stats["gossip"]["membership"]
    assert set(member) == {"node_id", "addr", "status", "incarnation", "status_priority", "last_seen"}
    assert (member["node_id"], member["status"], member["status_priority"]) == ("0", "alive", 2)
    assert (await web.web.get("/metrics")).json()["gossip"]["metadata"]["topics"] == {"t": [0]}


async def test_a_topic_is_deleted_with_its_positions(web: Running) -> None:
    await web.create("t", partitions=1)
    await web.web.post("/topics/t/publish", json={"value": 1})
    await web.web.post("/commit", json={"topic": "t", "offset": 0})
    assert (await web.web.delete("/admin/topics/t")).json() == {"status": "ok", "topic": "t"}
    assert (await web.web.delete("/admin/topics/t")).status_code == 404
    await web.create("t", partitions=1)
    assert (await web.web.get("/poll?topic=t&timeout_ms=0")).json()["committed"] == -1


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/internal/topics/t/fetch"),
        ("GET", "/internal/topics/t/status"),
        ("POST", "/internal/topics/t/replicate"),
        ("POST", "/internal/discovery/update"),
        ("POST", "/_gossip/pushpull"),
    ],
)
async def test_what_nodes_say_to_each_other_is_not_for_strangers(web: Running, method: str, path: str) -> None:
    answer = await web.web.request(method, path, json={} if method == "POST" else None)
    assert answer.status_code == 403
    assert "cluster's secret" in answer.json()["detail"]


async def test_pages_of_any_origin_may_ask(web: Running) -> None:
    await web.create("t", partitions=1)
    origin = {"origin": "http://elsewhere.example"}
    for method, path in (("GET", "/metadata"), ("POST", "/topics/t/publish"), ("GET", "/nowhere")):
        answer = await web.web.request(method, path, json={"value": 1} if method == "POST" else None, headers=origin)
        assert answer.headers["access-control-allow-origin"] == "*"
    asked = {**origin, "access-control-request-method": "POST", "access-control-request-headers": "content-type"}
    answer = await web.web.options("/topics/t/publish", headers=asked)
    assert answer.status_code == 200
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert "access-control-allow-origin" not in (await web.web.get("/metadata")).headers
