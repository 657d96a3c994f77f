"""Topic settings: Kafka's names where Kafka has the setting, `headrace.*` where it is ours.

One table says everything about a setting: its name, what it takes, its default, what it does, and under which name a
broker sets the default of topics that do not say. A setting that would have no effect is refused rather than stored,
with the reason. Values travel as text (the metadata log, every door); `TopicConfig` is what they mean.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from headrace.broker.own_settings import OWN
from headrace.broker.topic_setting import Setting as Setting
from headrace.broker.values import MAX_INT, MAX_LONG, Value, one_of, only, ratio, shown, some_of, whole
from headrace.errors import InvalidConfig
from headrace.log.config import LogConfig
from headrace.records.batch import MAX_BATCH_BYTES

DAY_MS = 24 * 3600 * 1000

KINDS = ("boolean", "string", "int", "long", "double", "list")


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
    index_interval_bytes: int
    cleanup_policy: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    delete_retention_ms: int
    compression_type: str
    unclean_leader_election: str
    preallocate: str
    storage: str
    acks: str
    dedup_window_ms: int
    queue_lock_ms: int
    queue_max_attempts: int
    queue_backoff_ms: int
    queue_dead_letter: str

    @property
    def is_memory(self) -> bool:
        return self.storage == "memory"

    @property
    def is_log_append_time(self) -> bool:
        return self.timestamp_type == "LogAppendTime"

    @property
    def is_compacted(self) -> bool:
        """Its records have keys, and the last of each key stays. Never so in a ring, which forgets."""
        return "compact" in self.cleanup_policy and not self.is_memory

    @property
    def is_deleted(self) -> bool:
        """Records go by age and size, and when somebody asks for it."""
        return "delete" in self.cleanup_policy or self.is_memory

    def for_log(self) -> LogConfig:
        lag_ms = self.max_compaction_lag_ms if self.is_compacted else MAX_LONG
        return LogConfig(
            segment_bytes=self.segment_bytes,
            segment_ms=min(self.segment_ms, lag_ms),  # what is still written to is not compacted
            retention_ms=self.retention_ms if self.is_deleted else -1,
            retention_bytes=self.retention_bytes if self.is_deleted else -1,
            index_interval_bytes=self.index_interval_bytes,
            is_compacted=self.is_compacted,
            min_dirty_ratio=self.min_cleanable_dirty_ratio,
            min_compaction_lag_ms=self.min_compaction_lag_ms,
            max_compaction_lag_ms=self.max_compaction_lag_ms,
            delete_retention_ms=self.delete_retention_ms,
            flush_messages=self.flush_messages,
            flush_ms=self.flush_ms,
        )


def _table(*settings: Setting) -> dict[str, Setting]:
    return {setting.name: setting for setting in settings}


SETTINGS: dict[str, Setting] = _table(
    Setting(
        "retention.ms",
        "retention_ms",
        "long",
        7 * DAY_MS,
        whole(-1, MAX_LONG),
        "How long records are kept; -1: for ever. In a memory topic its ring decides alone.",
        "log.retention.ms",
    ),
    Setting(
        "retention.bytes",
        "retention_bytes",
        "long",
        -1,
        whole(-1, MAX_LONG),
        "How many bytes of a partition are kept; -1: all. For a memory topic: the size of its ring.",
        "log.retention.bytes",
    ),
    Setting(
        "segment.bytes",
        "segment_bytes",
        "int",
        1 << 30,
        whole(1 << 14, MAX_INT),
        "Size of a segment file. Retention takes whole segments.",
        "log.segment.bytes",
    ),
    Setting(
        "segment.ms",
        "segment_ms",
        "long",
        7 * DAY_MS,
        whole(1, MAX_LONG),
        "A segment older than this is closed at the next append, so that retention can take it.",
        "log.roll.ms",
    ),
    Setting(
        "max.message.bytes",
        "max_message_bytes",
        "int",
        1_048_588,
        whole(0, MAX_BATCH_BYTES),
        "The largest batch that a producer may send, as it is sent (compressed).",
        "message.max.bytes",
    ),
    Setting(
        "message.timestamp.type",
        "timestamp_type",
        "string",
        "CreateTime",
        one_of("CreateTime", "LogAppendTime"),
        "Whose time a record carries: the producer's, or that of the append.",
        "log.message.timestamp.type",
    ),
    Setting(
        "message.timestamp.before.max.ms",
        "timestamp_before_max_ms",
        "long",
        MAX_LONG,
        whole(0, MAX_LONG),
        "How far a batch's timestamp may lie in the past.",
        "log.message.timestamp.before.max.ms",
    ),
    Setting(
        "message.timestamp.after.max.ms",
        "timestamp_after_max_ms",
        "long",
        3600 * 1000,
        whole(0, MAX_LONG),
        "How far a batch's timestamp may lie in the future.",
        "log.message.timestamp.after.max.ms",
    ),
    Setting(
        "min.insync.replicas",
        "min_insync_replicas",
        "int",
        1,
        whole(1, MAX_INT),
        "How many replicas must be in sync for acks=all.",
        "min.insync.replicas",
    ),
    Setting(
        "flush.messages",
        "flush_messages",
        "long",
        MAX_LONG,
        whole(1, MAX_LONG),
        "Sync the partition after this many records, whatever their acks.",
        "log.flush.interval.messages",
    ),
    Setting(
        "flush.ms",
        "flush_ms",
        "long",
        MAX_LONG,
        whole(0, MAX_LONG),
        "Sync what is older than this, whatever its acks.",
        "log.flush.interval.ms",
    ),
    Setting(
        "index.interval.bytes",
        "index_interval_bytes",
        "int",
        16 << 10,
        whole(1 << 10, MAX_INT),
        "How far apart the entries of an offset index lie: less reads less to find an offset, and takes more memory.",
        "log.index.interval.bytes",
    ),
    Setting(
        "cleanup.policy",
        "cleanup_policy",
        "list",
        "delete",
        some_of("delete", "compact"),
        "delete: retention removes old segments. compact: every record has a key, and of each key the last one stays; "
        "nothing is removed by age or size. Both: the last of each key, until retention removes it too.",
        "log.cleanup.policy",
    ),
    Setting(
        "min.cleanable.dirty.ratio",
        "min_cleanable_dirty_ratio",
        "double",
        0.5,
        ratio,
        "For compaction: it begins when this share of the log, or more, is uncompacted.",
        "log.cleaner.min.cleanable.ratio",
    ),
    Setting(
        "min.compaction.lag.ms",
        "min_compaction_lag_ms",
        "long",
        0,
        whole(0, MAX_LONG),
        "For compaction: how long a record stays as it is.",
        "log.cleaner.min.compaction.lag.ms",
    ),
    Setting(
        "max.compaction.lag.ms",
        "max_compaction_lag_ms",
        "long",
        MAX_LONG,
        whole(1, MAX_LONG),
        "For compaction: after which time a record is looked at whatever the ratio says.",
        "log.cleaner.max.compaction.lag.ms",
    ),
    Setting(
        "delete.retention.ms",
        "delete_retention_ms",
        "long",
        DAY_MS,
        whole(0, MAX_LONG),
        "For compaction: how long the mark of a deleted key stays readable after what it deletes is gone.",
        "log.cleaner.delete.retention.ms",
    ),
    Setting(
        "compression.type",
        "compression_type",
        "string",
        "producer",
        only("producer", "batches are kept as their producers made them; set compression.type of the producer"),
        "Batches are kept as the producer compressed them.",
        "compression.type",
    ),
    Setting(
        "unclean.leader.election.enable",
        "unclean_leader_election",
        "boolean",
        "false",
        only("false", "a replica that misses acknowledged records never leads"),
        "A leader is never chosen from replicas that miss acknowledged records.",
        "unclean.leader.election.enable",
    ),
    Setting(
        "preallocate",
        "preallocate",
        "boolean",
        "false",
        only("false", "segment files grow as they are written"),
        "Segment files grow as they are written.",
        "log.preallocate",
    ),
    *OWN,
)

# Kafka's settings that would have no effect here: refused, and this is why.
_TIERED = "there is no tiered storage"
_NO_CODEC = "batches are kept as their producers compressed them"
_NO_THROTTLE = "replication is not throttled"
REFUSED: dict[str, str] = {
    "compression.gzip.level": _NO_CODEC,
    "compression.lz4.level": _NO_CODEC,
    "compression.zstd.level": _NO_CODEC,
    "file.delete.delay.ms": "files that retention takes go at once",
    "follower.replication.throttled.replicas": _NO_THROTTLE,
    "leader.replication.throttled.replicas": _NO_THROTTLE,
    "local.retention.bytes": _TIERED,
    "local.retention.ms": _TIERED,
    "remote.copy.disable": _TIERED,
    "remote.log.delete.on.disable": _TIERED,
    "remote.storage.enable": _TIERED,
    "segment.index.bytes": "an index is as large as its segment needs it",
    "segment.jitter.ms": "segments are closed at segment.ms exactly",
}


def setting_of(name: str) -> Setting:
    setting = SETTINGS.get(name)
    if setting is None:
        if name in REFUSED:
            raise InvalidConfig(f"{name} has no effect here and cannot be set: {REFUSED[name]}")
        raise InvalidConfig(f"there is no topic setting {shown(name)}")
    return setting


def value_of(setting: Setting, text: str, name: str | None = None) -> Value:
    """What the text means; `name`: what it was called, for the error."""
    try:
        return setting.parse(text)
    except InvalidConfig as error:
        raise InvalidConfig(f"{name or setting.name} {error}") from None


def parse(config: Mapping[str, str | None], defaults: TopicConfig | None = None) -> TopicConfig:
    """The meaning of a topic's own settings, `defaults` for the rest. None stands for the default too."""
    own = {}
    for name, text in config.items():
        setting = setting_of(name)
        if text is not None:
            own[setting.field] = value_of(setting, text)
    base = defaults or DEFAULTS
    return msgspec.structs.replace(base, **own) if own else base


def check(meant: TopicConfig, own: Mapping[str, str | None]) -> None:
    """Refuses settings that contradict each other; `own` are those that somebody chose. For who chooses them: what is
    in force already only `parse` reads, because a default may have changed under it."""
    if meant.min_compaction_lag_ms > meant.max_compaction_lag_ms:
        raise InvalidConfig(
            f"min.compaction.lag.ms={meant.min_compaction_lag_ms} is over "
            f"max.compaction.lag.ms={meant.max_compaction_lag_ms}"
        )
    if meant.is_memory and "compact" in (own.get("cleanup.policy") or ""):
        raise InvalidConfig("headrace.storage=memory is a ring, which forgets; cleanup.policy=compact does not")


DEFAULTS = msgspec.convert({setting.field: setting.default for setting in SETTINGS.values()}, TopicConfig)
