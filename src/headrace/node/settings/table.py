"""Every setting of a node: its key in a file, its flag and variable, what it takes, its default and what it means. The
help of `serve`, `headrace config`, the reference page and the reading itself all come from this table.

A variable is HEADRACE_ and the flag's name. A number without a unit has the one that the name ends in.
"""

from __future__ import annotations

from headrace.broker import config
from headrace.broker.broker import BrokerSettings
from headrace.broker.groups.settings import MAX_INT, GroupSettings
from headrace.doors.http.limits import HttpLimits
from headrace.doors.kafka.limits import KafkaLimits
from headrace.node.settings.doors import DOOR_SETTINGS, TCP_DOORS
from headrace.node.settings.kinds import Address, Choice, Duration, HostPort, Place, Size, Switch, Whole
from headrace.node.settings.levels import Levels
from headrace.node.settings.setting import TOPIC_DEFAULTS, TOPIC_SECTION, Setting
from headrace.node.settings.topics import DefaultTopics, TopicValue

KIB, MIB = 1 << 10, 1 << 20
TAIL_MEMORY_BYTES = 64 * MIB
COMPACTION_MEMORY_BYTES = 128 * MIB

_limits, _broker, _groups = KafkaLimits(), BrokerSettings(), GroupSettings()


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
    "Written as JSON when the node serves (pid, node_id, addresses), removed when it stops. What kill -9 leaves is "
    "removed by the next start: compare the pid, or remove it before a start.",
)
TAIL_MEMORY = Setting(
    "node.tail-memory-bytes",
    "tail-memory-bytes",
    Size(MIB),
    str(TAIL_MEMORY_BYTES),
    "Memory for recent batches, all partitions together.",
)
COMPACTION_MEMORY = Setting(
    "node.compaction-memory-bytes",
    "compaction-memory-bytes",
    Size(MIB),
    str(COMPACTION_MEMORY_BYTES),
    "Memory for the keys of the log that is being compacted, one at a time; more keys take several passes.",
    "log.cleaner.dedupe.buffer.size",
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
    "Records, topics, health and metrics over HTTP; port 0: any free one; off: no such door.",
)
HTTP_ADVERTISED = Setting(
    "http.advertised",
    "http-advertised",
    HostPort(advertised=True),
    "",
    "The address of the http door that clients are told; without one, that at which it listens.",
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
GROUP_MIN_SESSION = Setting(
    "groups.min-session-ms",
    "group-min-session-ms",
    Duration(1),
    str(_groups.min_session_ms),
    "The shortest session timeout that a member of a group may have.",
    "group.min.session.timeout.ms",
)
GROUP_MAX_SESSION = Setting(
    "groups.max-session-ms",
    "group-max-session-ms",
    Duration(1),
    str(_groups.max_session_ms),
    "The longest session timeout that a member of a group may have.",
    "group.max.session.timeout.ms",
)
GROUP_DELAY = Setting(
    "groups.initial-delay-ms",
    "group-initial-delay-ms",
    Duration(0),
    str(_groups.initial_rebalance_delay_ms),
    "How long an empty group waits for more members after the first, before it gives out partitions.",
    "group.initial.rebalance.delay.ms",
)
GROUP_MAX_SIZE = Setting(
    "groups.max-size",
    "group-max-size",
    Whole(1, MAX_INT),
    str(_groups.max_size),
    "Members of one group; more are refused.",
    "group.max.size",
)
GROUP_METADATA = Setting(
    "groups.metadata-max-bytes",
    "group-metadata-max-bytes",
    Size(0, MAX_INT),
    str(_groups.metadata_max_bytes),
    "The longest text that a member may keep beside a position.",
    "offset.metadata.max.bytes",
)
GROUP_RETENTION = Setting(
    "groups.retention-minutes",
    "group-retention-minutes",
    Whole(1, MAX_INT),
    str(_groups.retention_minutes),
    "How long the positions of a group without members are kept, in minutes.",
    "offsets.retention.minutes",
)
GROUP_RETENTION_CHECK = Setting(
    "groups.retention-check-ms",
    "group-retention-check-ms",
    Duration(1),
    str(_groups.retention_check_ms),
    "How often positions are looked for that are kept no longer.",
    "offsets.retention.check.interval.ms",
)
GROUP_PARTITIONS = Setting(
    "groups.topic-partitions",
    "group-topic-partitions",
    Whole(1, 10_000),
    str(_groups.topic_partitions),
    "Partitions of the topic that holds groups and positions; counts when it is first made.",
    "offsets.topic.num.partitions",
)
GROUP_SEGMENT = Setting(
    "groups.topic-segment-bytes",
    "group-topic-segment-bytes",
    Size(1 << 14, MAX_INT),
    str(_groups.topic_segment_bytes),
    "Size of its segment files; counts when it is first made.",
    "offsets.topic.segment.bytes",
)
TRANSACTION_MAX_TIMEOUT = Setting(
    "transactions.max-timeout-ms",
    "transaction-max-timeout-ms",
    Duration(1),
    str(_broker.transaction_max_timeout_ms),
    "The longest time that a producer may ask for its transactions.",
    "transaction.max.timeout.ms",
)
TRANSACTION_EXPIRY = Setting(
    "transactions.id-expiry-ms",
    "transaction-id-expiry-ms",
    Duration(1),
    str(_broker.transactional_id_expiry_ms),
    "How long a transactional id that nobody uses is remembered.",
    "transactional.id.expiration.ms",
)
TRANSACTION_PARTITIONS = Setting(
    "transactions.topic-partitions",
    "transaction-topic-partitions",
    Whole(1, 10_000),
    str(_broker.transaction_partitions),
    "Partitions of the topic that holds the state of transactions; counts when it is first made.",
    "transaction.state.log.num.partitions",
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
    COMPACTION_MEMORY,
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
    HTTP_ADVERTISED,
    HTTP_CONNECTIONS,
    *DOOR_SETTINGS,
    AUTO_CREATE,
    DEFAULT_PARTITIONS,
    MAX_PARTITIONS,
    DEFAULT_TOPICS,
    GROUP_MIN_SESSION,
    GROUP_MAX_SESSION,
    GROUP_DELAY,
    GROUP_MAX_SIZE,
    GROUP_METADATA,
    GROUP_RETENTION,
    GROUP_RETENTION_CHECK,
    GROUP_PARTITIONS,
    GROUP_SEGMENT,
    TRANSACTION_MAX_TIMEOUT,
    TRANSACTION_EXPIRY,
    TRANSACTION_PARTITIONS,
    LOG_FORMAT,
    LOG_LEVEL,
    LOG_LEVELS,
    *TOPIC_SETTINGS,
)
LISTEN: dict[str, Setting[Address | None]] = {
    "kafka": KAFKA,
    "binary": TCP_DOORS["binary"].listen,
    "lines": TCP_DOORS["lines"].listen,
    "json": TCP_DOORS["json"].listen,
    "http": HTTP,
    "msgpack": TCP_DOORS["msgpack"].listen,
}
"""Every door, in the order in which a node opens them."""

BY_KEY = {setting.key: setting for setting in SETTINGS}
BY_FLAG = {setting.flag: setting for setting in SETTINGS}
BY_VARIABLE = {setting.variable: setting for setting in SETTINGS}
SECTIONS = {
    "node": "The node itself.",
    "kafka": "The door for Kafka clients, and its limits.",
    "http": "The door for HTTP: records, topics, health, metrics.",
    **{name: door.about for name, door in TCP_DOORS.items()},
    "topics": "Topics: how many, and which there are from the start.",
    "groups": "Consumer groups: what members may ask for, and how long positions are kept.",
    "transactions": "Transactions: how long they may take, and how long they are remembered.",
    "log": "What the node says about itself, on standard error.",
    TOPIC_SECTION: "What holds for topics that have no value of their own, under the names of topic settings.",
}
