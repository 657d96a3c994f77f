"""One connection to one address, asked what a client asks first, and a cause in words for every way that it fails.

Not the client: that retries, reconnects and goes where the metadata sends it, which hides what the doctor looks for.
Here each step (name, connection, protocol) is taken once, with a limit on its time, and fails as itself.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
import threading
import time
from types import TracebackType
from typing import Any, Self

import msgspec

from headrace.errors import HeadraceError
from headrace.wire.kafka import api_versions, header, messages
from headrace.wire.kafka.errors import MalformedRequest

CLIENT_ID = "headrace-doctor"
MAX_ANSWER_BYTES = 16 << 20  # metadata of a large cluster; anything beyond is not an answer
DEFAULT_PORT = 9092
DESCRIBE_LOG_DIRS, DESCRIBE_QUORUM = 35, 55
METADATA_VERSION, LOG_DIRS_VERSION, QUORUM_VERSION = 4, 4, 1

_SIZE = struct.Struct(">i")
_TLS_ALERT = b"\x15\x03"


class Unwell(HeadraceError):
    """A step that failed: what was seen, and what to do about it."""

    def __init__(self, found: str, advice: str) -> None:
        super().__init__(found)
        self.found, self.advice = found, advice


class NodeAddress(msgspec.Struct, frozen=True):
    node_id: int
    host: str
    port: int

    def __str__(self) -> str:
        return join(self.host, self.port)


class ClusterSeen(msgspec.Struct, frozen=True):
    cluster_id: str
    controller_id: int
    nodes: tuple[NodeAddress, ...]


class DiskSeen(msgspec.Struct, frozen=True):
    path: str
    error: int
    total_bytes: int
    usable_bytes: int


def join(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def split(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or (":" in host and not host.startswith("[")):  # a bare name, or a bare IPv6 address
        return address.strip("[]"), DEFAULT_PORT
    if not port.isdecimal() or not 0 < int(port) < 1 << 16:
        raise Unwell(f"{address!r} is not an address", "write HOST:PORT, as in 127.0.0.1:9092")
    return host.strip("[]") or "127.0.0.1", int(port)


def resolve(host: str, port: int, timeout_s: float) -> list[str]:
    """The system's resolver has time limits of its own, longer than anybody's patience; so a thread waits for it."""
    found: list[str] = []
    errors: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            entries = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            found.extend(dict.fromkeys(str(entry[4][0]) for entry in entries))
        except (OSError, UnicodeError) as error:
            errors.append(error)

    asking = threading.Thread(target=ask, name="resolving", daemon=True)
    asking.start()
    asking.join(timeout_s)
    if asking.is_alive():
        advice = "the DNS server does not answer: look at /etc/resolv.conf and the way there, or use an IP address"
        raise Unwell(f"no answer from DNS for {host} in {timeout_s:g} s", advice)
    if errors:
        why = errors[0].strerror if isinstance(errors[0], OSError) else "not a name"
        advice = "DNS and /etc/hosts do not know the name: mend them, or use an address that they know"
        raise Unwell(f"{host} does not resolve: {why}", advice) from errors[0]
    return found


class Probe:
    """`with Probe(host, port, timeout_s) as probe:` is connected, or has raised Unwell."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.address, self._timeout_s = join(host, port), timeout_s
        self._next_id, self._deadline = 0, 0.0
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise _not_connected(error, host, port, timeout_s) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    @property
    def peer_host(self) -> str:
        """The address behind the name, as the connection has it."""
        return str(self._socket.getpeername()[0])

    def api_ranges(self) -> dict[int, api_versions.ApiRange]:
        """Version 0 of the question: every broker since 2016 answers it, whatever else it speaks."""
        question = api_versions.encode_request(0, self._id(), CLIENT_ID, api_versions.ApiVersionsRequest())
        frame, at = self._exchange(header.API_VERSIONS, 0, question)
        try:
            answer = api_versions.decode_response(frame, at, len(frame), 0)
        except MalformedRequest as error:
            raise self._not_kafka("answers, but not as Kafka does") from error
        return {entry.key: entry for entry in answer.ranges}

    def cluster(self) -> ClusterSeen:
        kinds = messages.schema("request", header.METADATA, METADATA_VERSION)
        answer = self._ask(kinds.MetadataRequest(topics=(), allow_auto_topic_creation=False))
        nodes = tuple(NodeAddress(int(node.node_id), str(node.host), int(node.port)) for node in answer.brokers)
        return ClusterSeen(str(answer.cluster_id or ""), int(answer.controller_id), nodes)

    def clock_skew_ms(self) -> tuple[float, float] | None:
        """How far the broker's clock is ahead of ours, and how exactly that is known. Asked without writing: a leader
        of the metadata quorum tells of itself that it has caught up just now."""
        kinds = messages.schema("request", DESCRIBE_QUORUM, QUORUM_VERSION)
        partition = kinds.PartitionData(partition_index=0)
        topic = kinds.TopicData(topic_name="__cluster_metadata", partitions=(partition,))
        begin = time.time() * 1000
        answer = self._ask(kinds.DescribeQuorumRequest(topics=(topic,)))
        end = time.time() * 1000
        for found in (part for topic in answer.topics for part in topic.partitions):
            for voter in found.current_voters:
                if voter.replica_id == found.leader_id:
                    at_ms = int(voter.last_caught_up_timestamp)
                    return (at_ms - (begin + end) / 2, (end - begin) / 2 + 1) if at_ms > 0 else None
        return None

    def disks(self) -> list[DiskSeen]:
        kinds = messages.schema("request", DESCRIBE_LOG_DIRS, LOG_DIRS_VERSION)
        answer = self._ask(kinds.DescribeLogDirsRequest(topics=()))
        return [
            DiskSeen(str(one.log_dir), int(one.error_code.value), int(one.total_bytes), int(one.usable_bytes))
            for one in answer.results
        ]

    def _ask(self, entity: Any) -> Any:
        key, version = entity.__api_key__, entity.__version__
        frame, at = self._exchange(key, version, messages.encode_request(entity, self._id(), CLIENT_ID))
        try:
            return messages.decode_response(key, version, frame, at, len(frame))
        except MalformedRequest as error:
            raise self._not_kafka(f"its answer to api {key} version {version} does not read") from error

    def _exchange(self, key: int, version: int, question: bytes) -> tuple[bytes, int]:
        self._deadline = time.monotonic() + self._timeout_s
        self._socket.settimeout(self._timeout_s)
        try:
            self._socket.sendall(question)
            frame = self._frame()
            answered, at = header.read_response_header(frame, 0, len(frame), key, version)
        except TimeoutError as error:
            advice = "it hangs, is overloaded, or the port belongs to something else: look at its log, or restart it"
            raise Unwell(f"takes connections, but gave no answer in {self._timeout_s:g} s", advice) from error
        except (ConnectionError, EOFError) as error:
            raise self._not_kafka("closed the connection without an answer") from error
        except MalformedRequest as error:
            raise self._not_kafka("its answer does not read") from error
        if answered != self._next_id:
            raise self._not_kafka("answers, but not as Kafka does")
        return frame, at

    def _frame(self) -> bytes:
        head = self._exactly(_SIZE.size)
        if head == b"HTTP":
            raise Unwell("speaks HTTP, not Kafka", "this is the http door, or a web server: name the kafka port")
        if head.startswith(_TLS_ALERT):
            raise Unwell("speaks TLS, not plain Kafka", "name the plain listener: TLS is not supported here yet")
        (size,) = _SIZE.unpack(head)
        if not 0 < size <= MAX_ANSWER_BYTES:
            raise self._not_kafka("answers, but not as Kafka does")
        return self._exactly(size)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            left_s = self._deadline - time.monotonic()
            if left_s <= 0:  # the whole answer, not each of its bytes
                raise TimeoutError
            self._socket.settimeout(left_s)
            part = self._socket.recv(min(size - len(parts), 1 << 16))
            if not part:
                raise EOFError
            parts += part
        return bytes(parts)

    def _id(self) -> int:
        self._next_id += 1
        return self._next_id

    def _not_kafka(self, found: str) -> Unwell:
        advice = "another program's port, a listener with TLS, or a broker that is full or stopping"
        return Unwell(found, f"{self.address}: {advice}")


def _not_connected(error: OSError, host: str, port: int, timeout_s: float) -> Unwell:
    address = join(host, port)
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        advice = "a firewall drops it, the machine is down, or its queue of connections is full"
        return Unwell(f"no connection in {timeout_s:g} s", f"{address}: {advice}")
    if error.errno == errno.ECONNREFUSED:
        return Unwell("connection refused", f"nothing listens at {address}: start the node there, or mend the address")
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL):
        why = os.strerror(error.errno)
        return Unwell(why, f"there is no way from here to {host}: look at routes, VPN and interfaces")
    return Unwell(os.strerror(error.errno) if error.errno else str(error), f"{address} is not reached")
