"""`config/broker.json` as the binary protocol's own broker had it: server, storage, topics, client, logging.

Such a file is known by its sections. With it come that broker's limits on what enters through the binary door (16
partitions a topic, a day of retention, 1 MiB a message), whether or not the file names them, and the topics that it
made at its start. Keys that a node has no use for are told.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from headrace.node.settings.foreign import IDLE, LEVEL_NAMES
from headrace.node.settings.kinds import PartOfAddress
from headrace.node.settings.sources import Given, Origin, Problem, Slip

Path = tuple[str, ...]
Where = Callable[[Path], str]

OWN_SECTIONS = frozenset({"server", "storage", "client", "logging"})
SHARED_SECTION = "topics"
OWN_TOPIC_KEYS = frozenset({"retention_hours", "max_message_size"})
START_TOPICS = (("events", 2), ("logs", 1), ("notifications", 3))
HOUR_MS, SECOND_MS = 3_600_000, 1000


class Key(NamedTuple):
    key: str  # of ours
    unit: int = 1
    implied: int | None = None  # what that broker had when the file does not say


KEYS: dict[Path, Key] = {
    ("server", "max_connections"): Key("binary.max-connections", implied=100),
    ("server", "connection_timeout"): Key("binary.idle-ms", SECOND_MS, 300),
    ("server", "heartbeat_interval"): Key("binary.heartbeat-ms", SECOND_MS, 30),
    ("storage", "data_dir"): Key("node.data"),
    ("storage", "max_log_size"): Key("topic.defaults.segment.bytes"),
    ("storage", "sync_interval"): Key("topic.defaults.flush.ms", SECOND_MS),
    ("topics", "default_partitions"): Key("topics.default-partitions"),
    ("topics", "max_partitions"): Key("binary.max-partitions", implied=16),
    ("topics", "retention_hours"): Key("binary.retention-ms", HOUR_MS, 24),
    ("topics", "max_message_size"): Key("binary.max-message-bytes", implied=1 << 20),
}
RETENTION = ("topics", "retention_hours")
_CLIENT = "it is for clients, and this is the server's file"
IDLE_KEYS: dict[Path, str] = {
    ("storage", "snapshot_dir"): IDLE["QB_SNAPSHOT_DIR"],
    ("storage", "snapshot_interval"): IDLE["QB_SNAPSHOT_INTERVAL"],
    ("client", "max_retries"): _CLIENT,
    ("client", "retry_delay"): _CLIENT,
    ("client", "request_timeout"): _CLIENT,
    ("client", "auto_ack"): _CLIENT,
    ("logging", "format"): "log lines are for people or JSON: log.format",
    ("logging", "file"): "log lines go to standard error, for whoever starts the node to keep",
}
HOST, PORT, LEVEL = ("server", "host"), ("server", "port"), ("logging", "level")


def is_one(tree: Mapping[str, object]) -> bool:
    """Ours has none of these sections; a file with topics alone is told by its keys."""
    if OWN_SECTIONS & tree.keys():
        return tree.keys() <= OWN_SECTIONS | {SHARED_SECTION}
    topics = tree.get(SHARED_SECTION)
    return isinstance(topics, dict) and tree.keys() == {SHARED_SECTION} and bool(OWN_TOPIC_KEYS & topics.keys())


def read(tree: Mapping[str, object], file: str, where: Where, problems: list[Problem]) -> Iterator[Given]:
    given: dict[Path, object] = {}
    for section, inside in tree.items():
        if not isinstance(inside, dict):
            problems.append(Problem(where((section,)), f"{section} is a section, not a value"))
            continue
        given |= {(section, name): raw for name, raw in inside.items()}
    if parts := [path for path in (HOST, PORT) if path in given]:
        address = PartOfAddress(given.get(HOST), given.get(PORT))
        yield Given("binary.listen", address, Origin("file", where(parts[-1])))
    retention_ms = KEYS[RETENTION].unit * (KEYS[RETENTION].implied or 0)
    for path, key in KEYS.items():
        raw = given.get(path, key.implied)
        if raw is None:
            continue
        origin = Origin("file", where(path) if path in given else f"{file} (what such a file means)")
        try:
            value = _in_unit(raw, key.unit)
        except ValueError as error:
            problems.append(Problem(origin.where, f"{'.'.join(path)} {error}"))
            continue
        if path == RETENTION and isinstance(value, int):
            retention_ms = value
        yield Given(key.key, value, origin)
    if LEVEL in given:
        level = given[LEVEL]
        named = LEVEL_NAMES.get(level.lower(), level) if isinstance(level, str) else level
        yield Given("log.level", named, Origin("file", where(LEVEL)))
    topics = [
        {"name": name, "partitions": count, "config": {"retention.ms": retention_ms}} for name, count in START_TOPICS
    ]
    yield Given("topics.default", topics, Origin("file", f"{file} (what such a file means)"))
    for path in given:
        name = ".".join(path)
        if path in IDLE_KEYS:
            problems.append(Slip(where(path), f"{name} has no effect: {IDLE_KEYS[path]}"))
        elif path not in KEYS and path not in (HOST, PORT, LEVEL):
            problems.append(Slip(where(path), f"{name} is not a key of such a file and has no effect"))


def _in_unit(raw: object, unit: int) -> object:
    """Seconds and hours may have decimals. Other kinds of wrong the setting itself tells."""
    if unit == 1:
        return raw
    if isinstance(raw, bool) or not isinstance(raw, int | float | str):
        raise ValueError(f"takes a number of {'hours' if unit == HOUR_MS else 'seconds'}, not {raw!r}")
    try:
        return int(float(raw) * unit)
    except (ValueError, OverflowError):
        raise ValueError(f"takes a number of {'hours' if unit == HOUR_MS else 'seconds'}, not {raw!r}") from None
