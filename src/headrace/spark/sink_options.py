"""The options of the sink, as values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from headrace.records.compression import NAMES
from headrace.spark.errors import InvalidOption
from headrace.spark.options import SINK, SINK_TIMEOUT_S, Given, duration_s

EXACTLY_ONCE, AT_LEAST_ONCE = "exactly-once", "at-least-once"
GUARANTEES: Final = (EXACTLY_ONCE, AT_LEAST_ONCE)
FORMATS: Final = ("json", "avro")
LAST_BATCH: Final = (1 << 63) - 1  # of a ledger, for which batches below 0 are done before they begin
LONGEST_S: Final = 900.0  # a broker's own limit for transactions


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    servers: str
    topic: str | None = None  # None: each row says
    guarantee: str | None = None  # None: the best that the broker can do
    write_id: str | None = None  # of a batch write: what makes a repeated one do nothing
    batch_id: int = 0
    sink_timeout_s: float = SINK_TIMEOUT_S
    compression: str = "none"
    row_format: str | None = None  # the whole row is encoded as its value
    row_schema: str | None = None
    timeout: float


def sink_options(options: Mapping[str, str], *, is_stream: bool) -> SinkOptions:
    given = Given(options, SINK)
    guarantee = given.text("guarantee")
    if guarantee is not None and guarantee not in GUARANTEES:
        raise InvalidOption(f"guarantee is {' or '.join(GUARANTEES)}, not {guarantee!r}")
    compression = given.text("compression") or given.text("kafka.compression.type") or "none"
    if compression not in NAMES:
        raise InvalidOption(f"compression is one of {', '.join(NAMES)}, not {compression!r}")
    acks = given.text("kafka.acks") or "all"
    if acks not in ("all", "-1"):
        raise InvalidOption(f"kafka.acks is all: a sink that loses rows is none; not {acks!r}")
    given.flag("includeHeaders", True)
    held_s = given.read("sinkTimeout", duration_s, "a time such as 60s")
    if held_s is not None and held_s > LONGEST_S:
        raise InvalidOption(
            f"sinkTimeout is at most {LONGEST_S:g} s, the longest that a broker keeps a transaction open"
        )
    row_format = given.text("value.format")
    if row_format is not None and row_format not in FORMATS:
        raise InvalidOption(f"value.format of a sink is {' or '.join(FORMATS)}, not {row_format!r}")
    given.check_meaning("value.format", "value.schema")
    if row_format == "avro" and given.text("value.schema") is None:
        raise InvalidOption("value.format=avro needs value.schema, an Avro schema in JSON or a file with one")
    if is_stream and (own := [name for name in ("writeId", "batchId") if given.text(name) is not None]):
        raise InvalidOption(f"{own[0]} is of batch writes: a stream's id and numbers are those of its checkpoint")
    given.check_meaning("writeId", "batchId")
    write_id = given.text("writeId")
    if write_id is not None and ("#" in write_id or not write_id):
        raise InvalidOption(f"writeId is a name without '#', not {write_id!r}")
    if write_id is not None and guarantee == AT_LEAST_ONCE:
        raise InvalidOption(
            f"writeId does nothing with guarantee={AT_LEAST_ONCE}: what is repeated is written again; leave one out"
        )
    batch_id = given.read("batchId", int, "a whole number")
    if batch_id is not None and not 0 <= batch_id <= LAST_BATCH:
        raise InvalidOption(f"batchId is a whole number from 0 to {LAST_BATCH}, not {batch_id}")
    return SinkOptions(
        servers=given.servers(),
        topic=given.text("topic") or given.text("path"),
        guarantee=guarantee,
        write_id=write_id,
        batch_id=0 if batch_id is None else batch_id,
        sink_timeout_s=SINK_TIMEOUT_S if held_s is None else held_s,
        compression=compression,
        row_format=row_format,
        row_schema=given.text("value.schema"),
        timeout=given.timeout(),
    )
