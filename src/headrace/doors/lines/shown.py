"""Records as lines. The offset shown is the partition's own, counted from 1; a record without a usable id of its own
is shown with one that is made of its place. A value that its header calls msgpack is shown as what it means."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace.broker.subscriptions.run import Run
from headrace.records.ids import derived_id
from headrace.records.record import Record
from headrace.wire import content
from headrace.wire.lines import messages
from headrace.wire.lines.commands import MAX_ID_BYTES

FORM: Final = "lines"  # of a run


def run_lines(run: Run) -> bytes:
    topic, partition = run.topic.name, run.partition
    return "".join([_line(messages.MESSAGE, topic, partition, record) for record in run.records]).encode()


def lines(verb: str, topic: str, records: Iterable[tuple[int, Record]]) -> bytes:
    """Of records with their partitions."""
    return "".join([_line(verb, topic, partition, record) for partition, record in records]).encode()


def _line(verb: str, topic: str, partition: int, record: Record) -> str:
    text = messages.text_of(content.text_of(record), messages.RAW in record.headers)
    return messages.line(verb, topic, shown_id(topic, partition, record), record.offset + 1, record.timestamp_ms, text)


def shown_id(topic: str, partition: int, record: Record) -> str:
    return own_id(record) or derived_id(topic, partition, record.offset)


def own_id(record: Record) -> str | None:
    """One that fits into a line: a word."""
    for name, value in record.headers:
        if name == messages.ID:
            if not value or len(value) > MAX_ID_BYTES:
                return None
            try:
                text = value.decode()
            except UnicodeDecodeError:
                return None
            return text if text.isprintable() and " " not in text else None
    return None
