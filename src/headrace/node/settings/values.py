"""What a node is told, as values: the shape that the rest of the program knows. Built from a tree of settings, or
directly by tests and the simulator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from headrace.broker.broker import BrokerSettings, NewTopic
from headrace.broker.groups.settings import GroupSettings
from headrace.broker.settings import StaticSetting
from headrace.doors.binary.limits import BinaryLimits
from headrace.doors.http.limits import HttpLimits
from headrace.doors.kafka.limits import KafkaLimits
from headrace.doors.tcp.limits import DoorLimits
from headrace.node.settings import table
from headrace.node.settings.doors import (
    BINARY_MESSAGE,
    BINARY_PARTITIONS,
    BINARY_RETENTION,
    HEARTBEAT,
    LIMITS,
    TCP_DOORS,
    TcpDoor,
)
from headrace.node.settings.kinds import Address
from headrace.node.settings.setting import TOPIC_SECTION, Setting
from headrace.node.settings.table import COMPACTION_MEMORY_BYTES, SETTINGS, TAIL_MEMORY_BYTES
from headrace.node.settings.tree import DEFAULT, Tree, load

_KAFKA_KINDS = {"switch": "boolean", "number": "long", "size": "long", "duration": "long"}


class Settings(msgspec.Struct, frozen=True):
    data: str
    node_id: int = 0
    kafka: Address | None = Address("127.0.0.1", 9092)
    kafka_advertised: Address | None = None
    binary: Address | None = None
    lines: Address | None = None
    json: Address | None = None
    http: Address | None = None
    http_advertised: Address | None = None
    msgpack: Address | None = None
    ready_file: str | None = None
    log_format: str = "auto"
    log_level: str = "info"
    log_levels: Mapping[str, str] = {}
    tail_memory_bytes: int = TAIL_MEMORY_BYTES
    compaction_memory_bytes: int = COMPACTION_MEMORY_BYTES
    default_topics: tuple[NewTopic, ...] = ()
    broker: BrokerSettings = BrokerSettings()
    kafka_limits: KafkaLimits = KafkaLimits()
    http_limits: HttpLimits = HttpLimits()
    door_limits: Mapping[str, DoorLimits] = msgspec.field(default_factory=lambda: LIMITS)
    """Of the doors on plain TCP."""

    def listen(self) -> dict[str, Address]:
        """Where each door listens that is to be there, in the order in which they open."""
        wanted = {name: getattr(self, name) for name in table.LISTEN}
        return {name: address for name, address in wanted.items() if address is not None}


def read(flags: Mapping[str, str | None], environment: Mapping[str, str], places: Sequence[str] = ()) -> Settings:
    """`flags` by name without dashes in front, None where not given; InvalidSettings with all that is wrong.
    `places`: where a file that nobody named is looked for."""
    return settings_of(load(flags, environment, places))


def settings_of(tree: Tree) -> Settings:
    tree.refuse_problems()
    value = tree.value
    data = value(table.DATA)
    assert data is not None
    return Settings(
        data=data,
        node_id=value(table.NODE_ID),
        kafka=value(table.KAFKA),
        kafka_advertised=value(table.KAFKA_ADVERTISED),
        binary=value(table.LISTEN["binary"]),
        lines=value(table.LISTEN["lines"]),
        json=value(table.LISTEN["json"]),
        http=value(table.HTTP),
        http_advertised=value(table.HTTP_ADVERTISED),
        msgpack=value(table.LISTEN["msgpack"]),
        ready_file=value(table.READY_FILE),
        log_format=value(table.LOG_FORMAT),
        log_level=value(table.LOG_LEVEL),
        log_levels=value(table.LOG_LEVELS),
        tail_memory_bytes=value(table.TAIL_MEMORY),
        compaction_memory_bytes=value(table.COMPACTION_MEMORY),
        default_topics=value(table.DEFAULT_TOPICS),
        broker=BrokerSettings(
            auto_create_topics=value(table.AUTO_CREATE),
            default_partitions=value(table.DEFAULT_PARTITIONS),
            max_partitions=value(table.MAX_PARTITIONS),
            transaction_max_timeout_ms=value(table.TRANSACTION_MAX_TIMEOUT),
            transactional_id_expiry_ms=value(table.TRANSACTION_EXPIRY),
            transaction_partitions=value(table.TRANSACTION_PARTITIONS),
            topic_defaults=tree.topic_defaults(),
            static=static_of(tree),
            groups=GroupSettings(
                min_session_ms=value(table.GROUP_MIN_SESSION),
                max_session_ms=value(table.GROUP_MAX_SESSION),
                initial_rebalance_delay_ms=value(table.GROUP_DELAY),
                max_size=value(table.GROUP_MAX_SIZE),
                metadata_max_bytes=value(table.GROUP_METADATA),
                retention_minutes=value(table.GROUP_RETENTION),
                retention_check_ms=value(table.GROUP_RETENTION_CHECK),
                topic_partitions=value(table.GROUP_PARTITIONS),
                topic_segment_bytes=value(table.GROUP_SEGMENT),
            ),
        ),
        kafka_limits=KafkaLimits(
            max_connections=value(table.MAX_CONNECTIONS),
            max_request_bytes=value(table.MAX_REQUEST),
            request_memory_bytes=value(table.REQUEST_MEMORY),
            fetch_max_bytes=value(table.FETCH_MAX),
            unsent_bytes=value(table.UNSENT),
            idle_ms=value(table.IDLE),
            stall_ms=value(table.STALL),
        ),
        http_limits=HttpLimits(max_connections=value(table.HTTP_CONNECTIONS)),
        door_limits={name: _door_limits(tree, name, door) for name, door in TCP_DOORS.items()},
    )


def _door_limits(tree: Tree, name: str, door: TcpDoor) -> DoorLimits:
    limits = msgspec.structs.replace(
        LIMITS[name],
        max_connections=tree.value(door.max_connections),
        idle_ms=tree.value(door.idle),
        max_frame_bytes=tree.value(door.max_frame),
        unsent_bytes=tree.value(door.unsent),
    )
    if not isinstance(limits, BinaryLimits):
        return limits
    return msgspec.structs.replace(
        limits,
        heartbeat_ms=tree.value(HEARTBEAT),
        max_partitions=tree.value(BINARY_PARTITIONS),
        retention_ms=tree.value(BINARY_RETENTION),
        max_message_bytes=tree.value(BINARY_MESSAGE),
    )


def static_of(tree: Tree) -> tuple[StaticSetting, ...]:
    """What only a restart changes, for whoever asks the broker about it: Kafka's names where Kafka has the setting."""
    return tuple(
        StaticSetting(
            setting.kafka_name or f"headrace.{setting.key}",
            _static_text(setting, held.value),
            setting.meaning,
            _KAFKA_KINDS.get(setting.kind.name, "string"),
            held.origin is DEFAULT,
        )
        for setting in SETTINGS
        if setting.section != TOPIC_SECTION
        for held in (tree.held(setting),)
    )


def _static_text(setting: Setting[object], value: object) -> str:
    """Numbers without units, addresses with their protocol: as Kafka's tools read them."""
    plain = setting.kind.plain(value)
    if isinstance(plain, int) and not isinstance(plain, bool):
        return str(plain)
    text = setting.kind.show(value)
    return f"PLAINTEXT://{text}" if isinstance(value, Address) and setting.kafka_name else text
