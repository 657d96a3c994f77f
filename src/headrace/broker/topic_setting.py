"""One row of the table of topic settings: all that there is to say about a setting."""

from __future__ import annotations

import msgspec

from headrace.broker.values import Parse, Value


class Setting(msgspec.Struct, frozen=True):
    name: str
    field: str
    kind: str
    default: Value
    parse: Parse
    doc: str
    broker_name: str = ""  # its default for all topics, as Kafka's brokers call it
