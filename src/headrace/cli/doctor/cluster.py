"""A server as a client meets it: its name, its port, its protocol; then every node by the address that it advertises.

Most who cannot connect are sent to an address that is wrong for them: a client asks the first server for the nodes, and
goes where that points. So each advertised address is tried from here, and must lead to the same cluster.
"""

from __future__ import annotations

import contextlib
import ipaddress
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from headrace.cli.doctor import probe
from headrace.cli.doctor.disk import GOOD_FREE_BYTES, GOOD_FREE_SHARE, LEAST_FREE_BYTES
from headrace.cli.doctor.finding import Finding, failed, ok, unknown, warning
from headrace.cli.doctor.probe import ClusterSeen, NodeAddress, Probe, Unwell
from headrace.cli.parsing import show_size
from headrace.wire.kafka import header
from headrace.wire.kafka.api_versions import ApiRange

# What a client cannot do without, in versions that carry today's record batches. Kafka 4 dropped what is older.
NEEDED = {
    "Produce": (header.PRODUCE, 3, 13),
    "Fetch": (header.FETCH, 4, 18),
    "ListOffsets": (header.LIST_OFFSETS, 1, 11),
    "Metadata": (header.METADATA, probe.METADATA_VERSION, 13),
}
GOOD_SKEW_MS = 5000.0
CLOCK = "clock"


class Reached(NamedTuple):
    """What one of the servers told."""

    server: str
    peer: str
    """The address behind its name."""
    cluster: ClusterSeen
    ranges: dict[int, ApiRange]


class Cluster:
    """What was learnt on the way, for the checks that follow."""

    def __init__(self, servers: Sequence[str], timeout_s: float) -> None:
        self._servers, self._timeout_s = servers, timeout_s
        self._reached: list[Reached] = []

    def check(self) -> Iterator[Finding]:
        for server in self._servers:
            yield from self._server(server)
        if not self._reached:
            return
        yield from self._same_cluster()
        for node in self._reached[0].cluster.nodes:
            yield from self._advertised(node, self._reached[0])

    def _server(self, server: str) -> Iterator[Finding]:
        """Name, connection, protocol, versions; what fails ends the row of steps, since the next ones need it."""
        condition, required = f"{server} resolves", "a name or address that is known here"
        try:
            host, port = probe.split(server)
            yield ok(condition, required, ", ".join(probe.resolve(host, port, self._timeout_s)[:3]))
            condition, required = f"{server} is reached", f"a connection within {self._timeout_s:g} s"
            with Probe(host, port, self._timeout_s) as connection:
                yield ok(condition, required, "connected")
                condition, required = f"{server} speaks Kafka", "an answer to ApiVersions"
                ranges = connection.api_ranges()
                yield ok(condition, required, f"{len(ranges)} APIs")
                versions = _versions(server, ranges)
                yield versions
                if versions.result == "ok":
                    condition, required = f"{server} knows its cluster", "an answer to Metadata"
                    self._reached.append(Reached(server, connection.peer_host, connection.cluster(), ranges))
        except Unwell as unwell:
            yield failed(condition, required, unwell.found, unwell.advice)

    def _same_cluster(self) -> Iterator[Finding]:
        ids = {one.cluster.cluster_id: one.server for one in self._reached}
        required = "one cluster behind all addresses"
        if len(ids) > 1:
            found = ", ".join(f"{address}: {cluster_id}" for cluster_id, address in ids.items())
            yield failed("cluster", required, found, "the addresses belong to different clusters: name those of one")
        else:
            (cluster_id,) = ids
            count = len(self._reached[0].cluster.nodes)
            if not count:
                yield failed("cluster", required, f"{cluster_id}, no nodes", "no node has registered: look at its log")
                return
            yield ok("cluster", required, f"{cluster_id}, {count} node{'s' if count != 1 else ''}")

    def _advertised(self, node: NodeAddress, by: Reached) -> Iterator[Finding]:
        condition = f"node {node.node_id} advertises {node}"
        required = f"leads to cluster {by.cluster.cluster_id}"
        setting = "advertise an address that clients reach (--kafka-advertised HOST:PORT; Kafka: advertised.listeners)"
        if trap := only_there(node.host, by.peer):
            yield failed(condition, required, trap, f"clients are sent to themselves: {setting}")
            return
        try:
            probe.resolve(node.host, node.port, self._timeout_s)
            with Probe(node.host, node.port, self._timeout_s) as connection:
                connection.api_ranges()
                there = connection.cluster()
                if there.cluster_id != by.cluster.cluster_id:
                    found = f"cluster {there.cluster_id or '(none)'}"
                    yield failed(condition, required, found, f"another cluster answers at that address: {setting}")
                    return
                yield ok(condition, required, "the same cluster")
                yield from _of_node(node, connection, by.ranges)
        except Unwell as unwell:
            is_asked = str(node) in self._servers
            advice = unwell.advice if is_asked else f"{unwell.advice}; is the node down? otherwise {setting}"
            yield failed(condition, required, unwell.found, advice)


def _versions(server: str, ranges: dict[int, ApiRange]) -> Finding:
    condition = f"{server} has the versions"
    required = ", ".join(f"{name} {oldest}-{newest}" for name, (_, oldest, newest) in NEEDED.items())
    found, missing = [], []
    for name, (key, oldest, newest) in NEEDED.items():
        there = ranges.get(key)
        found.append(f"{name} {there.oldest}-{there.newest}" if there else f"no {name}")
        if there is None or there.newest < oldest or there.oldest > newest:
            missing.append(name)
    if missing:
        advice = f"the broker's version does not fit (no common {', '.join(missing)}): update the older of the two"
        return failed(condition, required, ", ".join(found), advice)
    return ok(condition, required, ", ".join(found))


def only_there(advertised: str, peer: str) -> str | None:
    """An address that means another machine to everybody but the node itself."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(advertised).is_unspecified:
            return f"{advertised} is no address to connect to"
    if _is_loopback(advertised) and not _is_loopback(peer):
        return f"{advertised} is loopback, and the server was reached at {peer}"
    return None


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return host in ("localhost", "localhost.localdomain", "ip6-localhost")


def _of_node(node: NodeAddress, connection: Probe, ranges: dict[int, ApiRange]) -> Iterator[Finding]:
    try:
        yield _clock(node, connection, ranges)
        if _has(ranges, probe.DESCRIBE_LOG_DIRS, probe.LOG_DIRS_VERSION):
            yield from _disks(node, connection)
    except Unwell as unwell:  # it let us in, and now says nothing more
        yield failed(f"node {node.node_id} {CLOCK}", "an answer", unwell.found, unwell.advice)


def _clock(node: NodeAddress, connection: Probe, ranges: dict[int, ApiRange]) -> Finding:
    condition, required = f"node {node.node_id} {CLOCK}", f"within {GOOD_SKEW_MS / 1000:g} s of ours"
    unseen = unknown(condition, required, "the broker does not tell its time")
    if not _has(ranges, probe.DESCRIBE_QUORUM, probe.QUORUM_VERSION):
        return unseen
    skew = connection.clock_skew_ms()
    if skew is None:
        return unseen
    ahead_ms, within_ms = skew
    found = f"{abs(ahead_ms) / 1000:.3f} s {'ahead' if ahead_ms > 0 else 'behind'} (+- {within_ms:.0f} ms)"
    if abs(ahead_ms) - within_ms > GOOD_SKEW_MS:
        advice = "one of the two clocks is wrong: switch on time synchronisation (chrony, systemd-timesyncd) on both"
        return failed(condition, required, found, f"{advice}; retention and timestamps go by the broker's")
    return ok(condition, required, found)


def _disks(node: NodeAddress, connection: Probe) -> Iterator[Finding]:
    for disk in connection.disks():
        condition = f"node {node.node_id} disk {disk.path}"
        required = f"{show_size(GOOD_FREE_BYTES)} free, {GOOD_FREE_SHARE:.0%}"
        if disk.error:
            yield failed(condition, required, f"error code {disk.error}", "the node's disk has failed: look at its log")
            continue
        if disk.total_bytes < 0:
            yield unknown(condition, required, "the broker does not tell")
            continue
        found = f"{show_size(disk.usable_bytes)} of {show_size(disk.total_bytes)} free"
        if disk.usable_bytes < LEAST_FREE_BYTES:
            yield failed(condition, required, found, "the node's disk is full: free space there, or shorten retention")
        elif disk.usable_bytes < min(GOOD_FREE_BYTES, disk.total_bytes * GOOD_FREE_SHARE):
            yield warning(condition, required, found, "writes are refused once it is full")
        else:
            yield ok(condition, required, found)


def _has(ranges: dict[int, ApiRange], key: int, version: int) -> bool:
    return key in ranges and ranges[key].oldest <= version <= ranges[key].newest
