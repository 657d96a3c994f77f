"""The settings of the doors on plain TCP: where each listens, and what it gives at most.

A door's flags begin with its name (`--lines`, `--lines-idle-ms`). The json door's default port is 9000 and the node's
id, as its clients expect; all others are the same on every node.
"""

from __future__ import annotations

from typing import NamedTuple

from headrace.doors.binary.limits import BinaryLimits
from headrace.doors.msgpack.limits import msgpack_limits
from headrace.doors.tcp.limits import DoorLimits
from headrace.node.settings.kinds import Address, Duration, HostPort, Size, Whole
from headrace.node.settings.setting import Setting

KIB, MIB = 1 << 10, 1 << 20
MAX_INT = (1 << 31) - 1
JSON_PORT = 9000  # and the node's id


class TcpDoor(NamedTuple):
    about: str
    listen: Setting[Address | None]
    max_connections: Setting[int]
    idle: Setting[int]
    max_frame: Setting[int]
    unsent: Setting[int]

    @property
    def settings(self) -> tuple[Setting[object], ...]:
        return self.listen, self.max_connections, self.idle, self.max_frame, self.unsent


def _door(name: str, port: int, clients: str, limits: DoorLimits, note: str = "") -> TcpDoor:
    return TcpDoor(
        f"The door for {clients}.",
        Setting(
            f"{name}.listen",
            name,
            HostPort(),
            f"127.0.0.1:{port}",
            f"Where {clients} are served{note}; port 0: any free one; off: no such door.",
        ),
        Setting(
            f"{name}.max-connections",
            f"{name}-max-connections",
            Whole(1),
            str(limits.max_connections),
            "Connections at a time; more are closed at once.",
        ),
        Setting(
            f"{name}.idle-ms",
            f"{name}-idle-ms",
            Duration(0),
            str(limits.idle_ms),
            "A connection on which nothing moves for this long is closed; 0: never.",
        ),
        Setting(
            f"{name}.max-frame-bytes",
            f"{name}-max-frame-bytes",
            Size(KIB, MAX_INT),
            str(limits.max_frame_bytes),
            "The largest message that is taken, with all that its protocol puts around it.",
        ),
        Setting(
            f"{name}.unsent-bytes",
            f"{name}-unsent-bytes",
            Size(KIB),
            str(limits.unsent_bytes),
            "What may wait for one client that is slow to take it; past it, its subscriptions wait.",
        ),
    )


LIMITS: dict[str, DoorLimits] = {
    "binary": BinaryLimits(),
    "lines": DoorLimits(max_frame_bytes=64 * KIB),
    "json": DoorLimits(idle_ms=300_000, max_frame_bytes=16 * MIB),
    "msgpack": msgpack_limits(),
}
"""What holds when nobody says. A line of the lines protocol has had at most 64 KiB from the beginning; a connection of
the json protocol carries one request, so one that waits is somebody's mistake."""

TCP_DOORS: dict[str, TcpDoor] = {
    "binary": _door("binary", 9999, "clients of the binary protocol", LIMITS["binary"]),
    "lines": _door("lines", 8888, "clients that speak text lines", LIMITS["lines"]),
    "json": _door(
        "json",
        JSON_PORT,
        "clients that send JSON documents",
        LIMITS["json"],
        f" (without a word: port {JSON_PORT} and the node's id)",
    ),
    "msgpack": _door("msgpack", 36912, "msgpack publishers and subscribers", LIMITS["msgpack"]),
}

_binary = BinaryLimits()
HEARTBEAT = Setting(
    "binary.heartbeat-ms",
    "binary-heartbeat-ms",
    Duration(0),
    str(_binary.heartbeat_ms),
    "How often each client of the binary door is sent a heartbeat; 0: never.",
)
BINARY_PARTITIONS = Setting(
    "binary.max-partitions",
    "binary-max-partitions",
    Whole(0),
    str(_binary.max_partitions),
    "Partitions of a topic that is made through this door; 0: as many as the node allows.",
)
BINARY_RETENTION = Setting(
    "binary.retention-ms",
    "binary-retention-ms",
    Duration(0),
    str(_binary.retention_ms),
    "How long topics keep records that are made through this door and do not say; 0: as topic.defaults.retention.ms.",
)
BINARY_MESSAGE = Setting(
    "binary.max-message-bytes",
    "binary-max-message-bytes",
    Size(0, MAX_INT),
    str(_binary.max_message_bytes),
    "The largest message that is published through this door, its frame counted; 0: as the topic's max.message.bytes.",
)
DOOR_SETTINGS: tuple[Setting[object], ...] = (
    *TCP_DOORS["binary"].settings,
    HEARTBEAT,
    BINARY_PARTITIONS,
    BINARY_RETENTION,
    BINARY_MESSAGE,
    *(setting for name in ("lines", "json", "msgpack") for setting in TCP_DOORS[name].settings),
)
