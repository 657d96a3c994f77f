"""What a setting is: a key in a file, a flag and a variable that are made of one name, what it takes, its default and
what it means. The tables of settings are made of these."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from headrace.node.settings.kinds import Kind

TOPIC_SECTION = "topic.defaults"
TOPIC_DEFAULTS = f"{TOPIC_SECTION}."

V = TypeVar("V", covariant=True)


class Setting(msgspec.Struct, Generic[V], frozen=True):
    key: str
    flag: str
    kind: Kind[V]
    default: str
    meaning: str
    kafka_name: str = ""
    """What Kafka calls it, if it has such a thing."""

    @property
    def variable(self) -> str:
        return "HEADRACE_" + self.flag.upper().replace("-", "_")

    @property
    def section(self) -> str:
        return TOPIC_SECTION if self.key.startswith(TOPIC_DEFAULTS) else self.key.rpartition(".")[0]
