"""What a broker is told by its node: fixed for the life of the process.

Topic settings can be given here too, as defaults of topics that do not say (`topic_defaults`), under the topic's names.
They are the lowest layer that somebody chose: what is set while the cluster runs, for this node or for all, lies over
them (see configuration.py). `static` is there to be shown: what the node was started with, by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec

from headrace.broker.groups.settings import GroupSettings


class Loggers(Protocol):
    """The node's log levels, by what the names of events begin with."""

    def levels(self) -> Mapping[str, str]:
        """The level in force of each; `root` is that of all the others."""
        ...

    def set_level(self, name: str, level: str | None) -> None:
        """None: that of `root` again."""
        ...


class StaticSetting(msgspec.Struct, frozen=True):
    """A setting of the node that only a restart changes."""

    name: str
    value: str
    doc: str = ""
    kind: str = "string"  # one of config.KINDS
    is_default: bool = False
    sensitive: bool = False  # its value is not shown


class BrokerSettings(msgspec.Struct, frozen=True):
    auto_create_topics: bool = True
    default_partitions: int = 1
    max_partitions: int = 20_000
    max_partitions_per_topic: int = 10_000
    transaction_partitions: int = 50
    transaction_max_timeout_ms: int = 15 * 60_000
    transactional_id_expiry_ms: int = 7 * 24 * 3_600_000
    topic_defaults: Mapping[str, str] = {}
    static: tuple[StaticSetting, ...] = ()
    groups: GroupSettings = GroupSettings()
