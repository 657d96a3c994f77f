"""What a node is told: flags over environment over defaults. Every flag has an environment twin, HEADRACE_ + its
name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from headrace.broker.broker import BrokerSettings
from headrace.doors.kafka.limits import KafkaLimits
from headrace.errors import InvalidConfig

DEFAULT_KAFKA_PORT = 9092
OFF = "off"
UNBOUNDED = (1 << 63) - 1
PREFIX = "HEADRACE_"
OTHER_VARIABLES = {"HEADRACE_NATIVE", "HEADRACE_REQUIRE_CLIENTS"}  # read elsewhere: by the kernels, by our tests

_V = TypeVar("_V")


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Flag(msgspec.Struct, frozen=True):
    name: str
    default: str
    metavar: str
    help: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")


FLAGS = (
    Flag("data", "headrace-data", "DIR", "folder that holds everything; one node at a time uses it"),
    Flag("node-id", "0", "N", "this node's number in its cluster"),
    Flag(
        "kafka",
        f"127.0.0.1:{DEFAULT_KAFKA_PORT}",
        "HOST:PORT",
        "for Kafka clients; port 0: any free one; off: no such door",
    ),
    Flag("ready-file", "", "FILE", "written as JSON when the node serves: pid, node_id, addresses"),
    Flag("auto-create-topics", "true", "true|false", "make a topic when a client asks for one that is not there"),
    Flag("default-partitions", "1", "N", "of a topic that does not say"),
    Flag("max-partitions", "20000", "N", "of all topics together"),
    Flag("max-connections", "8192", "N", "to one door; more are closed at once"),
    Flag("max-request-bytes", str(100 << 20), "N", "the largest request that is taken"),
    Flag("request-memory-bytes", str(256 << 20), "N", "for requests on their way in, all connections together"),
    Flag("fetch-max-bytes", str(16 << 20), "N", "of one answer to a consumer"),
    Flag("unsent-bytes", str(256 << 20), "N", "of answers that slow clients have not taken, all together"),
    Flag("tail-memory-bytes", str(64 << 20), "N", "of recent batches kept in memory, all partitions together"),
    Flag("idle-ms", "600000", "MS", "a connection on which nothing moves for this long is closed"),
    Flag("stall-ms", "30000", "MS", "a request that was begun and does not go on for this long closes its connection"),
    Flag("log-format", "auto", "auto|human|json", "auto: for people on a terminal, JSON otherwise"),
    Flag("log-level", "info", "LEVEL", "debug, info, warning or error"),
)


class Settings(msgspec.Struct, frozen=True):
    data: str
    node_id: int = 0
    kafka: Address | None = Address("127.0.0.1", DEFAULT_KAFKA_PORT)
    ready_file: str | None = None
    log_format: str = "auto"
    log_level: str = "info"
    tail_memory_bytes: int = 64 << 20
    broker: BrokerSettings = BrokerSettings()
    kafka_limits: KafkaLimits = KafkaLimits()


def read(flags: Mapping[str, str | None], environment: Mapping[str, str]) -> Settings:
    """`flags` by name without dashes in front; None where not given."""
    text = {flag.name: _given(flag, flags, environment) for flag in FLAGS}

    def of(name: str, parse: Callable[[str], _V]) -> _V:
        try:
            return parse(text[name])
        except ValueError as error:
            raise InvalidConfig(f"--{name} (or {_flag(name).variable}): {error}") from None

    if of("default-partitions", _whole(1)) > of("max-partitions", _whole(1)):
        raise InvalidConfig("--default-partitions is over --max-partitions: no topic could be made")
    return Settings(
        data=of("data", _not_empty),
        node_id=of("node-id", _whole(0, (1 << 31) - 2)),
        kafka=of("kafka", parse_address),
        ready_file=text["ready-file"] or None,
        log_format=of("log-format", _one_of("auto", "human", "json")),
        log_level=of("log-level", _one_of("debug", "info", "warning", "error")),
        tail_memory_bytes=of("tail-memory-bytes", _whole(1 << 20)),
        broker=BrokerSettings(
            auto_create_topics=of("auto-create-topics", _one_of("true", "false")) == "true",
            default_partitions=of("default-partitions", _whole(1)),
            max_partitions=of("max-partitions", _whole(1)),
        ),
        kafka_limits=KafkaLimits(
            max_connections=of("max-connections", _whole(1)),
            max_request_bytes=of("max-request-bytes", _whole(1 << 10, (1 << 31) - 1)),
            request_memory_bytes=of("request-memory-bytes", _whole(1 << 20)),
            fetch_max_bytes=of("fetch-max-bytes", _whole(1 << 10)),
            unsent_bytes=of("unsent-bytes", _whole(1 << 20)),
            idle_ms=of("idle-ms", _whole(1000)),
            stall_ms=of("stall-ms", _whole(1000)),
        ),
    )


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """What looks like a setting and is none: mostly a slip."""
    known = {flag.variable for flag in FLAGS} | OTHER_VARIABLES
    return sorted(name for name in environment if name.startswith(PREFIX) and name not in known)


def parse_address(text: str) -> Address | None:
    if text == OFF:
        return None
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"takes HOST:PORT or {OFF}, not {text!r}")
    return Address(host.strip("[]") or "127.0.0.1", int(port))


def _given(flag: Flag, flags: Mapping[str, str | None], environment: Mapping[str, str]) -> str:
    given = flags.get(flag.name)
    return given if given is not None else environment.get(flag.variable, flag.default)


def _flag(name: str) -> Flag:
    return next(flag for flag in FLAGS if flag.name == name)


def _not_empty(text: str) -> str:
    if not text:
        raise ValueError("names a folder")
    return text


def _whole(low: int, high: int = UNBOUNDED) -> Callable[[str], int]:
    def parse(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise ValueError(f"takes a whole number, not {text!r}") from None
        if not low <= value <= high:
            bounds = f"at least {low}" if high == UNBOUNDED else f"{low} to {high}"
            raise ValueError(f"takes {bounds}, not {value}")
        return value

    return parse


def _one_of(*choices: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in choices:
            raise ValueError(f"takes {' or '.join(choices)}, not {text!r}")
        return text

    return parse
