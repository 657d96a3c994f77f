"""`headrace cluster describe` on a real broker."""

from __future__ import annotations

from headrace.cli import exits
from headrace.cli.cluster import ClusterDetail
from tests.cli.running import Run


def test_describe_shows_nodes_quorum_and_what_they_hold(cli: Run, server: str) -> None:
    cli("topic", "create", "held", "-p", "3")
    cli("produce", "held", "x" * 5000)
    found = cli("cluster", "describe", "-o", "json").row(ClusterDetail)
    assert (found.controller_id, found.topics, found.partitions) == (0, 1, 3)
    (node,) = found.nodes
    assert (node.node_id, node.address, node.controller, node.leads, node.replicas) == (0, server, True, 3, 3)
    assert (node.size_bytes or 0) >= 5000
    assert (node.disk_free_bytes or 0) > 0
    assert found.quorum is not None
    assert (found.quorum.leader_id, found.quorum.voters) == (0, (0,))
    names = {api.name: api for api in found.apis}
    assert names["Produce"].key == 0
    assert names["ApiVersions"].min == 0


def test_the_table_is_short_and_versions_are_asked_for(cli: Run, server: str) -> None:
    table = cli("cluster", "describe").out
    assert "node 0 leads in epoch" in table
    assert f"0  {server}" in table
    assert "ApiVersions" not in table
    assert "ApiVersions" in cli("cluster", "describe", "--versions").out
    assert "ApiVersions" in cli("cluster", "describe", "-o", "wide").out


def test_nobody_there_is_unreachable(run: Run) -> None:
    assert run("cluster", "describe", "-s", "127.0.0.1:1", "--timeout", "2s").code == exits.UNREACHABLE
