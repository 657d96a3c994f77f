"""The options of the source, as text from Spark to values that the rest works with. Names and meanings are those of
Spark's own Kafka source; what is ours besides stands in docs/spark.md.

An option that nobody knows is refused, with the nearest name: a misspelt `startingOffsets` must not read from
elsewhere.
Of Kafka's own settings (`kafka.…`) the few are heeded that have a meaning here; those that would secure the connection
are refused, because leaving them out would not; the others tune a client that is not used, and are left alone.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from headrace.client import addresses
from headrace.spark.errors import InvalidOption

EARLIEST, LATEST = "earliest", "latest"
LATEST_OFFSET, EARLIEST_OFFSET = -1, -2  # how Spark's JSON says them for one partition
ROWS_PER_TASK: Final = 500_000  # a task costs Spark about as much as 150,000 rows: fewer per task are not worth one
SINK_TIMEOUT_S: Final = 60.0  # that a write holds up readers after its driver died
PREFETCH_BYTES: Final = 32 << 20
TIMEOUT_S: Final = 30.0
MAX_DELAY_S: Final = 900.0
LAST_NUMBER: Final = (1 << 63) - 1  # of the protocol's offsets and times, and of Spark's own whole numbers
MOST_BYTES: Final = (1 << 31) - 1  # of one answer, as the protocol can ask for it
MAX_SHOWN: Final = 200  # characters of an option, in a sentence about it
LONGEST_DAYS: Final = 24  # more milliseconds than the protocol can say are 25

COMMON: Final = ("servers", "kafka.bootstrap.servers", "path", "timeout")
SOURCE: Final = (
    "subscribe", "subscribePattern", "assign", "startingOffsets", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp", "startingOffsetsByTimestampStrategy",
    "maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay", "minPartitions", "maxRecordsPerPartition",
    "failOnDataLoss", "includeHeaders", "isolation", "group", "rowsPerTask", "prefetchBytes",
    "value.format", "value.schema", "value.message", "value.raw",
    # Spark's own words that change nothing here:
    "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs", "groupIdPrefix",
)  # fmt: skip
SINK: Final = (
    "topic", "guarantee", "writeId", "batchId", "sinkTimeout", "compression", "value.format", "value.schema",
    "checkpointLocation", "queryName",
    "includeHeaders",  # Spark's own word that changes nothing here: headers are written where the column is there
)  # fmt: skip
VALUE_FORMATS: Final = ("json", "avro", "protobuf", "msgpack", "text")
RESET: Final = "kafka.auto.offset.reset"
SECURITY: Final = ("kafka.security.protocol", "kafka.sasl.", "kafka.ssl.")

Table = Mapping[str, Mapping[int, int]]  # topic, partition, offset or time
T = TypeVar("T")


class Bound(msgspec.Struct, frozen=True, kw_only=True):
    """Where reading starts or ends: a word, or a table of offsets, or times."""

    word: str = EARLIEST
    offsets: Table | None = None
    time_ms: int | None = None  # for all partitions
    times_ms: Table | None = None

    def names(self, topic: str, partition: int) -> bool:
        """Is it a place of the user's own there, and not the log's beginning or end, whichever that is?"""
        if self.offsets is None:
            return self.time_ms is not None or self.times_ms is not None
        return self.offsets.get(topic, {}).get(partition, LATEST_OFFSET) >= 0


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    servers: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    assigned: Mapping[str, tuple[int, ...]] | None = None
    start: Bound | None = None  # None: the earliest for a batch, the latest for a stream
    end: Bound | None = None
    is_late_start_latest: bool = False  # a start by time that lies after every record: the end, instead of an error
    is_loss_fatal: bool = True
    max_offsets: int | None = None
    min_offsets: int | None = None
    max_delay_s: float = MAX_DELAY_S
    min_partitions: int | None = None
    max_records: int | None = None
    rows_per_task: int = ROWS_PER_TASK
    with_headers: bool = False
    isolation: str = "read_committed"
    group: str | None = None
    value_format: str | None = None
    value_schema: str | None = None
    value_message: str | None = None
    is_raw_kept: bool = False  # of every value, not only of those that do not decode
    timeout: float = TIMEOUT_S
    prefetch_bytes: int = PREFETCH_BYTES

    @property
    def shown(self) -> str:
        """What is read, in words."""
        if self.pattern is not None:
            return f"topics like {self.pattern!r}"
        return ", ".join(map(repr, self.assigned or self.topics))


class Given:
    """What the user gave, whatever the case of its names; knows which of them were looked at."""

    def __init__(self, options: Mapping[str, str], known: tuple[str, ...]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        names = {name.lower(): name for name in (*COMMON, *known)}
        for name in self._values:
            if name.startswith(SECURITY) and self._values[name].upper() != "PLAINTEXT":
                raise InvalidOption(f"{name}: connections are plain text here; this client has no TLS or passwords")
            if name not in names and not name.startswith("kafka."):
                near = difflib.get_close_matches(name, names, 1)
                advice = f"; did you mean {names[near[0]]}?" if near else f"; there are {', '.join(names.values())}"
                raise InvalidOption(f"there is no option {name}{advice}")

    def text(self, name: str) -> str | None:
        return self._values.get(name.lower())

    def read(self, name: str, parse: Callable[[str], T], what: str) -> T | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            return parse(value.strip())
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            shown = repr(value) if len(value) <= MAX_SHOWN else f"{value[:MAX_SHOWN]!r}…"
            raise InvalidOption(f"{name} is {what}, not {shown}") from error

    def count(self, name: str, most: int = LAST_NUMBER) -> int | None:
        found = self.read(name, int, "a whole number above 0")
        if found is not None and found < 1:
            raise InvalidOption(f"{name} is a whole number above 0, not {found}")
        if found is not None and found > most:
            raise InvalidOption(f"{name} is at most {most}, not {found}")
        return found

    def duration_s(self, name: str, parse: Callable[[str], float], example: str) -> float | None:
        found = self.read(name, parse, f"a time such as {example}")
        if found is not None and found > LONGEST_DAYS * UNITS["d"]:
            raise InvalidOption(f"{name} is a time of {LONGEST_DAYS} days at the most, not {self.text(name)!r}")
        return found

    def flag(self, name: str, otherwise: bool) -> bool:
        found = self.read(name, lambda value: {"true": True, "false": False}[value.lower()], "true or false")
        return otherwise if found is None else found

    def check_meaning(self, needed: str, *names: str) -> None:
        """Options that do nothing without another: whoever gives one expects something of it."""
        alone = [name for name in names if self.text(name) is not None] if self.text(needed) is None else []
        if alone:
            raise InvalidOption(f"{alone[0]} does nothing without {needed}: give both, or neither")

    def servers(self) -> str:
        found = self.text("servers") or self.text("kafka.bootstrap.servers")
        if not found:
            raise InvalidOption('name the broker: .option("servers", "host:9092")')
        try:
            addresses.parse(found)
        except ValueError as error:
            raise InvalidOption(f"servers: {error}") from error
        return found

    def timeout(self) -> float:
        found = self.duration_s("timeout", duration_s, "30s")
        if found is None:
            millis = self.count("kafka.request.timeout.ms", LONGEST_DAYS * 86_400_000)
            found = TIMEOUT_S if millis is None else millis / 1000
        return found


def source_options(options: Mapping[str, str], *, is_stream: bool | None) -> SourceOptions:
    """`is_stream` is None while that is not known: then what only one of the two allows is not judged."""
    given = Given(options, SOURCE)
    topics, pattern, assigned = _subscription(given)
    if given.text(RESET) is not None:
        raise InvalidOption(
            f"{RESET} is not heeded, as in Spark's own source: startingOffsets says where reading starts"
        )
    isolation = given.text("isolation") or given.text("kafka.isolation.level") or "read_committed"
    if isolation not in ("read_committed", "read_uncommitted"):
        raise InvalidOption(f"isolation is read_committed or read_uncommitted, not {isolation!r}")
    strategy = (given.text("startingOffsetsByTimestampStrategy") or "error").strip().lower()
    if strategy not in ("error", "latest"):
        raise InvalidOption(f"startingOffsetsByTimestampStrategy is error or latest, not {strategy!r}")
    value_format = given.text("value.format")
    if value_format is not None and value_format not in VALUE_FORMATS:
        raise InvalidOption(f"value.format is one of {', '.join(VALUE_FORMATS)}, not {value_format!r}")
    if value_format in ("avro", "protobuf") and given.text("value.schema") is None:
        raise InvalidOption(f"value.format={value_format} needs value.schema")
    given.check_meaning("value.format", "value.schema", "value.message", "value.raw")
    raw = given.text("value.raw") or "errors"
    if raw not in ("errors", "all"):
        raise InvalidOption(f"value.raw is errors or all, not {raw!r}")
    start, end = _bound(given, "starting"), _bound(given, "ending")
    if is_stream is not None:
        _check_bounds(start, end, is_stream)
    delay_s = given.duration_s("maxTriggerDelay", _delay_s, "15m")
    return SourceOptions(
        servers=given.servers(),
        topics=topics,
        pattern=pattern,
        assigned=assigned,
        start=start,
        end=end,
        is_late_start_latest=strategy == "latest",
        is_loss_fatal=given.flag("failOnDataLoss", True),
        max_offsets=given.count("maxOffsetsPerTrigger"),
        min_offsets=given.count("minOffsetsPerTrigger"),
        max_delay_s=MAX_DELAY_S if delay_s is None else delay_s,
        min_partitions=given.count("minPartitions"),
        max_records=given.count("maxRecordsPerPartition"),
        rows_per_task=given.count("rowsPerTask") or ROWS_PER_TASK,
        with_headers=given.flag("includeHeaders", False),
        isolation=isolation,
        group=given.text("group") or given.text("kafka.group.id"),
        value_format=value_format,
        value_schema=given.text("value.schema"),
        value_message=given.text("value.message"),
        is_raw_kept=raw == "all",
        timeout=given.timeout(),
        prefetch_bytes=given.count("prefetchBytes", MOST_BYTES) or PREFETCH_BYTES,
    )


def _subscription(given: Given) -> tuple[tuple[str, ...], str | None, Mapping[str, tuple[int, ...]] | None]:
    subscribe = given.text("subscribe")
    if subscribe is None and given.text("subscribePattern") is None and given.text("assign") is None:
        subscribe = given.text("path")
    named = [
        name
        for name, value in (
            ("subscribe", subscribe),
            ("subscribePattern", given.text("subscribePattern")),
            ("assign", given.text("assign")),
        )
        if value is not None
    ]
    if len(named) != 1:
        chosen = " and ".join(named) if named else "none of them"
        raise InvalidOption(f"say once what is read, by subscribe, subscribePattern or assign; given was {chosen}")
    topics = tuple(name.strip() for name in (subscribe or "").split(",") if name.strip())
    if subscribe is not None and not topics:
        raise InvalidOption("subscribe names no topic")
    assigned = given.read("assign", _assignment, 'JSON such as {"orders": [0, 1]}')
    return tuple(dict.fromkeys(topics)), given.text("subscribePattern"), assigned


def _bound(given: Given, kind: str) -> Bound | None:
    time_ms = given.read(f"{kind}Timestamp", _time_ms, f"milliseconds since 1970, up to {LAST_NUMBER}")
    if time_ms is not None:
        return Bound(time_ms=time_ms)
    example = '{"orders": {"0": 1700000000000}}'
    times = given.read(f"{kind}OffsetsByTimestamp", _times, f"JSON such as {example}, with no time before 1970")
    if times is not None:
        return Bound(times_ms=times)
    value = given.text(f"{kind}Offsets")
    if value is None:
        return None
    if value.strip().lower() in (EARLIEST, LATEST):
        return Bound(word=value.strip().lower())
    example = '{"orders": {"0": 42, "1": -2}}'
    return Bound(offsets=given.read(f"{kind}Offsets", _table, f"{EARLIEST}, {LATEST} or JSON such as {example}"))


def _check_bounds(start: Bound | None, end: Bound | None, is_stream: bool) -> None:
    if is_stream and end is not None:
        raise InvalidOption("a stream has no end: endingOffsets and endingTimestamp belong to batches")
    plain = Bound(word=LATEST)
    if not is_stream and start == plain:
        raise InvalidOption("a batch cannot start at the latest offsets: there would be nothing in it")
    if end == Bound(word=EARLIEST) or _values(end) & {EARLIEST_OFFSET}:
        raise InvalidOption("endingOffsets cannot be the earliest ones: there would be nothing to read")
    if not is_stream and _values(start) & {LATEST_OFFSET}:
        raise InvalidOption("startingOffsets of a batch cannot be -1, the latest: there would be nothing in it")
    for bound in (start, end):
        if any(value < EARLIEST_OFFSET for value in _values(bound)):
            raise InvalidOption("offsets are 0 or more, -1 for the latest or -2 for the earliest")
    if start is not None and end is not None:
        _check_order(start, end)


def _check_order(start: Bound, end: Bound) -> None:
    """Of bounds of one kind; how an offset stands to a time, only the broker knows."""
    if start.time_ms is not None and end.time_ms is not None and start.time_ms > end.time_ms:
        raise InvalidOption(f"startingTimestamp {start.time_ms} is after endingTimestamp {end.time_ms}")
    for first, last in ((start.offsets, end.offsets), (start.times_ms, end.times_ms)):
        for topic, partitions in (first or {}).items():
            ends = (last or {}).get(topic, {})
            for partition, begin in partitions.items():
                if 0 <= ends.get(partition, begin) < begin:
                    raise InvalidOption(starts_late(topic, partition, begin, ends[partition]))


def starts_late(topic: str, partition: int, start: int, end: int) -> str:
    return f"topic {topic!r} partition {partition}: the batch would start at {start} and end before that, at {end}"


def _values(bound: Bound | None) -> set[int]:
    offsets = bound.offsets if bound is not None else None
    return {value for partitions in (offsets or {}).values() for value in partitions.values()}


UNITS: Final = {  # as Spark names them
    "us": 1e-6, "ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0,
}  # fmt: skip
_DURATION: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([a-z]*)")


def duration_s(text: str, alone: str = "s") -> float:
    """30s, 15m, 15min, 2h, 1d, 500ms; `alone` is the unit of a number without one."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None or float(found[1]) <= 0:
        raise ValueError(text)
    return float(found[1]) * UNITS[found[2] or alone]


def _delay_s(text: str) -> float:
    """As Spark reads it, for whom a number alone is milliseconds."""
    return duration_s(text, "ms")


def _time_ms(text: str) -> int:
    found = int(text)
    if not 0 <= found <= LAST_NUMBER:
        raise ValueError(text)
    return found


def _assignment(text: str) -> dict[str, tuple[int, ...]]:
    found = {topic: tuple(sorted({_number(one) for one in partitions})) for topic, partitions in _object(text).items()}
    if not found or not all(found.values()):
        raise ValueError(text)
    return found


def _table(text: str) -> dict[str, dict[int, int]]:
    """Offsets as the source writes them itself may come back: what it adds for itself stands under an empty name."""
    found: dict[str, dict[int, int]] = {}
    for topic, partitions in _object(text).items():
        if topic:
            found[topic] = {int(partition): _number(value) for partition, value in partitions.items()}
    if not found:
        raise ValueError(text)
    return found


def _times(text: str) -> dict[str, dict[int, int]]:
    """Below 0 a broker reads other meanings: the earliest, the latest."""
    found = _table(text)
    if any(time_ms < 0 for partitions in found.values() for time_ms in partitions.values()):
        raise ValueError(text)
    return found


def _object(text: str) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(text)
    return found


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > LAST_NUMBER:
        raise ValueError(str(value))
    return value
