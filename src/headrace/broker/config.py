"""Topic settings: Kafka's names where Kafka has the setting, `headrace.*` where it is ours.

One table says everything about a setting: its name, what it takes, its default, what it does. A setting that would
have no effect is refused rather than stored. Values travel as text (the metadata log, every door); `TopicConfig` is
what they mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from headrace.errors import InvalidConfig
from headrace.log.config import LogConfig
from headrace.records.batch import MAX_BATCH_BYTES

DAY_MS = 24 * 3600 * 1000
MAX_LONG = (1 << 63) - 1
MAX_INT = (1 << 31) - 1

Value = int | str


class Setting(msgspec.Struct, frozen=True):
    name: str
    field: str
    default: Value
    parse: Callable[[str], Value]
    doc: str


class TopicConfig(msgspec.Struct, frozen=True):
    retention_ms: int
    retention_bytes: int
    segment_bytes: int
    segment_ms: int
    max_message_bytes: int
    timestamp_type: str
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    min_insync_replicas: int
    flush_messages: int
    flush_ms: int
    cleanup_policy: str
    compression_type: str
    storage: str

    @property
    def is_memory(self) -> bool:
        return self.storage == "memory"

    @property
    def is_log_append_time(self) -> bool:
        return self.timestamp_type == "LogAppendTime"

    def for_log(self) -> LogConfig:
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=self.segment_ms,
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
        )


def _whole(low: int, high: int) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        try:
            value = int(text)
        except ValueError:
            raise InvalidConfig(f"takes a whole number, not {text!r}") from None
        if not low <= value <= high:
            raise InvalidConfig(f"takes {low} to {high}, not {value}")
        return value

    return parse


def _one_of(*choices: str) -> Callable[[str], Value]:
    def parse(text: str) -> Value:
        if text not in choices:
            raise InvalidConfig(f"takes {' or '.join(choices)}, not {text!r}")
        return text

    return parse


SETTINGS: dict[str, Setting] = {
    setting.name: setting
    for setting in (
        Setting(
            "retention.ms",
            "retention_ms",
            7 * DAY_MS,
            _whole(-1, MAX_LONG),
            "How long records are kept; -1: for ever. In a memory topic its ring decides alone.",
        ),
        Setting(
            "retention.bytes",
            "retention_bytes",
            -1,
            _whole(-1, MAX_LONG),
            "How many bytes of a partition are kept; -1: all. For a memory topic: the size of its ring.",
        ),
        Setting(
            "segment.bytes",
            "segment_bytes",
            1 << 30,
            _whole(1 << 14, MAX_INT),
            "Size of a segment file. Retention takes whole segments.",
        ),
        Setting(
            "segment.ms",
            "segment_ms",
            7 * DAY_MS,
            _whole(1, MAX_LONG),
            "A segment older than this is closed at the next append, so that retention can take it.",
        ),
        Setting(
            "max.message.bytes",
            "max_message_bytes",
            1_048_588,
            _whole(0, MAX_BATCH_BYTES),
            "The largest batch that a producer may send, as it is sent (compressed).",
        ),
        Setting(
            "message.timestamp.type",
            "timestamp_type",
            "CreateTime",
            _one_of("CreateTime", "LogAppendTime"),
            "Whose time a record carries: the producer's, or that of the append.",
        ),
        Setting(
            "message.timestamp.before.max.ms",
            "timestamp_before_max_ms",
            MAX_LONG,
            _whole(0, MAX_LONG),
            "How far a batch's timestamp may lie in the past.",
        ),
        Setting(
            "message.timestamp.after.max.ms",
            "timestamp_after_max_ms",
            3600 * 1000,
            _whole(0, MAX_LONG),
            "How far a batch's timestamp may lie in the future.",
        ),
        Setting(
            "min.insync.replicas",
            "min_insync_replicas",
            1,
            _whole(1, MAX_INT),
            "How many replicas must be in sync for acks=all.",
        ),
        Setting(
            "flush.messages",
            "flush_messages",
            MAX_LONG,
            _whole(1, MAX_LONG),
            "Sync the partition after this many records, whatever their acks.",
        ),
        Setting(
            "flush.ms", "flush_ms", MAX_LONG, _whole(0, MAX_LONG), "Sync what is older than this, whatever its acks."
        ),
        Setting(
            "cleanup.policy", "cleanup_policy", "delete", _one_of("delete"), "What retention does with old segments."
        ),
        Setting(
            "compression.type",
            "compression_type",
            "producer",
            _one_of("producer"),
            "Batches are kept as the producer compressed them.",
        ),
        Setting(
            "headrace.storage",
            "storage",
            "disk",
            _one_of("disk", "memory"),
            "disk: a replicated log. memory: a bounded ring that loses its oldest records, and all at a restart.",
        ),
    )
}


def parse(config: Mapping[str, str | None]) -> TopicConfig:
    """The meaning of a topic's own settings, defaults for the rest. None stands for the default too."""
    values: dict[str, Value] = {setting.field: setting.default for setting in SETTINGS.values()}
    for name, text in config.items():
        setting = SETTINGS.get(name)
        if setting is None:
            raise InvalidConfig(f"there is no topic setting {name!r}")
        if text is None:
            continue
        try:
            values[setting.field] = setting.parse(text)
        except InvalidConfig as error:
            raise InvalidConfig(f"{name} {error}") from None
    return msgspec.convert(values, TopicConfig)
