"""Settings of a node that can be changed while it runs, under Kafka's names: for one node, or for all of them.

Most are the defaults of topics that do not say: `log.retention.ms` is the `retention.ms` of every topic without its
own. The rest is the broker's own business. What only a restart changes is in settings.py.
"""

from __future__ import annotations

from typing import Final

import msgspec

from headrace.broker import config
from headrace.broker.values import MAX_INT, Parse, Value, boolean, shown, whole
from headrace.errors import InvalidConfig

AUTO_CREATE: Final = "auto.create.topics.enable"
PARTITIONS: Final = "num.partitions"


class NodeSetting(msgspec.Struct, frozen=True):
    name: str
    kind: str
    default: Value
    parse: Parse
    doc: str
    topic_name: str = ""  # the topic setting whose default it is


def _of_topics() -> list[NodeSetting]:
    return [
        NodeSetting(
            setting.broker_name, setting.kind, setting.default, setting.parse, setting.doc, topic_name=setting.name
        )
        for setting in config.SETTINGS.values()
        if setting.broker_name
    ]


NODE_SETTINGS: dict[str, NodeSetting] = {
    setting.name: setting
    for setting in (
        *_of_topics(),
        NodeSetting(
            AUTO_CREATE,
            "boolean",
            "true",
            boolean,
            "Whether a topic that a client asks for, and that is not there, is made for it.",
        ),
        NodeSetting(
            PARTITIONS,
            "int",
            1,
            whole(1, MAX_INT),
            "How many partitions a topic gets that is created without a number.",
        ),
    )
}


def check(name: str, text: str) -> Value:
    setting = NODE_SETTINGS.get(name)
    if setting is None:
        raise InvalidConfig(f"{shown(name)} cannot be changed while the node runs")
    try:
        return setting.parse(text)
    except InvalidConfig as error:
        raise InvalidConfig(f"{name} {error}") from None
