"""Records as messages of the binary protocol, on their way out.

A message that came through this door has all its properties, in order, as the record's headers, and leaves as it came.
A record that came through another gets `topic`, `partition`, those headers that are text and can be carried, then
`created_at` and `version`. In both, `topic` and `partition` say where the record is.
"""

from __future__ import annotations

from headrace.broker.subscriptions.run import Run
from headrace.records.record import Record
from headrace.wire.binary.frame import Type, can_carry, complete, encode

FORM = "binary"  # of a run, among the forms of all doors
_OURS = frozenset(("topic", "created_at", "version"))  # what every message through this door has


def properties_of(topic: str, partition: int, record: Record) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in record.headers:
        try:
            text = "" if value is None else value.decode()
        except UnicodeDecodeError:
            continue
        if can_carry(name, text):
            found[name] = text
    if found.keys() >= _OURS:
        found["topic"] = topic
        if "partition" in found:
            found["partition"] = str(partition)
        return found
    place = {"topic": topic, "partition": str(partition)}
    properties = place | {name: text for name, text in found.items() if name not in place}
    complete(properties, max(0, record.timestamp_ms))
    return properties


def message(record: Record, properties: dict[str, str]) -> bytes:
    return encode(Type.DATA, record.offset, max(0, record.timestamp_ms), properties, record.value or b"")


def encode_run(run: Run) -> bytes:
    topic, partition = run.topic.name, run.partition
    return b"".join([message(record, properties_of(topic, partition, record)) for record in run.records])
