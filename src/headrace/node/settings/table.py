"""Every setting of a node: its key in a file, its flag and variable, what it takes, its default and what it means. The
help of `serve`, `headrace config`, the reference page and the reading itself all come from this table.

A variable is HEADRACE_ and the flag's name. A number without a unit has the one that the name ends in.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from headrace.broker import config
from headrace.broker.broker import BrokerSettings
from headrace.doors.http.limits import HttpLimits
from headrace.doors.kafka.limits import KafkaLimits
from headrace.node.settings.kinds import (
    Choice,
    Duration,
    HostPort,
    Kind,
    Place,
    Size,
    Switch,
    Whole,
)
from headrace.node.settings.levels import Levels
from headrace.node.settings.topics import DefaultTopics, TopicValue

KIB, MIB = 1 << 10, 1 << 20
TAIL_MEMORY_BYTES = 64 * MIB
TOPIC_SECTION = "topic.defaults"
TOPIC_DEFAULTS = f"{TOPIC_SECTION}."

V = TypeVar("V", covariant=True)
_limits, _broker = KafkaLimits(), BrokerSettings()


class Setting(msgspec.Struct, Generic[V], frozen=True):
    key: str
    flag: str
    kind: Kind[V]
    default: str
    meaning: str
    kafka_name: str = ""
    """What Kafka calls it, if it has such a thing."""

    @property
    def variable(self) -> str:
        return "HEADRACE_" + self.flag.upper().replace("-", "_")

    @property
    def section(self) -> str:
        return TOPIC_SECTION if self.key.startswith(TOPIC_DEFAULTS) else self.key.rpartition(".")[0]


DATA = Setting(
    "node.data",
    "data",
    Place("DIR"),
    "headrace-data",
    "Folder that holds everything; one node at a time uses it.",
    "log.dirs",
)
NODE_ID = Setting("node.id", "node-id", Whole(0, (1 << 31) - 2), "0", "This node's number in its cluster.", "node.id")
READY_FILE = Setting(
    "node.ready-file",
    "ready-file",
    Place("FILE", optional=True),
    "",
    "Written as JSON when the node serves (pid, node_id, addresses), removed when it stops.",
)
TAIL_MEMORY = Setting(
    "node.tail-memory-bytes",
    "tail-memory-bytes",
    Size(MIB),
    str(TAIL_MEMORY_BYTES),
    "Memory for recent batches, all partitions together.",
)
KAFKA = Setting(
    "kafka.listen",
    "kafka",
    HostPort(),
    "127.0.0.1:9092",
    "Where Kafka clients are served; port 0: any free one; off: no such door.",
    "listeners",
)
KAFKA_ADVERTISED = Setting(
    "kafka.advertised",
    "kafka-advertised",
    HostPort(advertised=True),
    "",
    "The address that Kafka clients are told to connect to; without one, that at which they reached the node.",
    "advertised.listeners",
)
MAX_CONNECTIONS = Setting(
    "kafka.max-connections",
    "max-connections",
    Whole(1),
    str(_limits.max_connections),
    "Connections of Kafka clients at a time; more are closed at once.",
    "max.connections",
)
MAX_REQUEST = Setting(
    "kafka.max-request-bytes",
    "max-request-bytes",
    Size(KIB, (1 << 31) - 1),
    str(_limits.max_request_bytes),
    "The largest request that is taken.",
    "socket.request.max.bytes",
)
REQUEST_MEMORY = Setting(
    "kafka.request-memory-bytes",
    "request-memory-bytes",
    Size(MIB),
    str(_limits.request_memory_bytes),
    "Memory for requests on their way in, all connections together.",
    "queued.max.request.bytes",
)
FETCH_MAX = Setting(
    "kafka.fetch-max-bytes",
    "fetch-max-bytes",
    Size(KIB),
    str(_limits.fetch_max_bytes),
    "The most that one answer to a consumer holds; more comes with its next request.",
    "fetch.max.bytes",
)
UNSENT = Setting(
    "kafka.unsent-bytes",
    "unsent-bytes",
    Size(MIB),
    str(_limits.unsent_bytes),
    "Memory for answers that slow clients have not taken yet, all together.",
)
IDLE = Setting(
    "kafka.idle-ms",
    "idle-ms",
    Duration(1000),
    str(_limits.idle_ms),
    "A connection on which nothing moves for this long is closed.",
    "connections.max.idle.ms",
)
STALL = Setting(
    "kafka.stall-ms",
    "stall-ms",
    Duration(1000),
    str(_limits.stall_ms),
    "A request that was begun and does not go on for this long closes its connection.",
)
HTTP = Setting(
    "http.listen",
    "http",
    HostPort(),
    "127.0.0.1:8081",
    "Health, readiness and metrics over HTTP; port 0: any free one; off: no such door.",
)
HTTP_CONNECTIONS = Setting(
    "http.max-connections",
    "http-max-connections",
    Whole(1),
    str(HttpLimits().max_connections),
    "Connections over HTTP at a time; more are closed at once.",
)
AUTO_CREATE = Setting(
    "topics.auto-create",
    "auto-create-topics",
    Switch(),
    "true",
    "Make a topic when a client asks for one that is not there.",
    "auto.create.topics.enable",
)
DEFAULT_PARTITIONS = Setting(
    "topics.default-partitions",
    "default-partitions",
    Whole(1),
    str(_broker.default_partitions),
    "Partitions of a topic that does not say.",
    "num.partitions",
)
MAX_PARTITIONS = Setting(
    "topics.max-partitions",
    "max-partitions",
    Whole(1),
    str(_broker.max_partitions),
    "Partitions of all topics together; more are refused.",
)
DEFAULT_TOPICS = Setting(
    "topics.default",
    "default-topics",
    DefaultTopics(),
    "",
    "Topics that are made at the start when they are not there; those that are there stay as they are.",
)
LOG_FORMAT = Setting(
    "log.format",
    "log-format",
    Choice("auto", "human", "json"),
    "auto",
    "How log lines look; auto: for people on a terminal, JSON otherwise.",
)
LOG_LEVEL = Setting(
    "log.level",
    "log-level",
    Choice("debug", "info", "warning", "error", metavar="LEVEL"),
    "info",
    "The least level of event that is logged.",
)
LOG_LEVELS = Setting(
    "log.levels", "log-levels", Levels(), "", "The least level for some events, whatever log.level says."
)
TOPIC_SETTINGS: tuple[Setting[str], ...] = tuple(
    Setting(
        TOPIC_DEFAULTS + setting.name,
        "topic-" + setting.name.replace(".", "-"),
        TopicValue(setting.name),
        str(setting.default),
        setting.doc,
        setting.broker_name,
    )
    for setting in config.SETTINGS.values()
)
SETTINGS: tuple[Setting[object], ...] = (
    DATA,
    NODE_ID,
    READY_FILE,
    TAIL_MEMORY,
    KAFKA,
    KAFKA_ADVERTISED,
    MAX_CONNECTIONS,
    MAX_REQUEST,
    REQUEST_MEMORY,
    FETCH_MAX,
    UNSENT,
    IDLE,
    STALL,
    HTTP,
    HTTP_CONNECTIONS,
    AUTO_CREATE,
    DEFAULT_PARTITIONS,
    MAX_PARTITIONS,
    DEFAULT_TOPICS,
    LOG_FORMAT,
    LOG_LEVEL,
    LOG_LEVELS,
    *TOPIC_SETTINGS,
)
BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_FLAG = {setting.flag: setting for setting in SETTINGS}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
SECTIONS = {
    "node": "The node itself.",
    "kafka": "The door for Kafka clients, and its limits.",
    "http": "The door for health and metrics.",
    "topics": "Topics: how many, and which there are from the start.",
    "log": "What the node says about itself, on standard error.",
    TOPIC_SECTION: "What holds for topics that have no value of their own, under the names of topic settings.",
}
