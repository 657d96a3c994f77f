"""From what a request names to what there is: partitions by a topic's name and a number, codes and texts of errors."""

from __future__ import annotations

from typing import Any

from headrace.broker.broker import Broker
from headrace.broker.partition import Partition
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.errors import HeadraceError, UnknownTopic
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code


def partition_of(broker: Broker, name: str, index: int) -> Partition:
    topic = broker.topic(from_kafka(name))
    if topic is None or not 0 <= index < len(topic.partitions):
        raise UnknownTopic(f"no partition {index} of {name!r}")
    return topic.partitions[index]


def outcome(error: HeadraceError | None, text_if_none: str | None = None) -> dict[str, Any]:
    """The two fields of an answer that say how it went."""
    code, text = (Code.NONE, text_if_none) if error is None else code_for(error)
    return {"error_code": messages.error_code(code), "error_message": text}


def refusal(code: Code, text: str | None = None) -> dict[str, Any]:
    """As `outcome`, for codes that no error of ours stands for."""
    return {"error_code": messages.error_code(code), "error_message": text}
