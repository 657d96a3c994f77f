"""Wishes to change settings, of a topic, of a node or of all nodes, and the records that fulfil them.

A wish is fulfilled whole or refused: the settings that it would leave behind are checked together, not only those that
it names. What is so already is not said again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from headrace.broker import config
from headrace.broker.configuration import STORAGE, Configuration, Described
from headrace.broker.topic import STATE_TOPICS
from headrace.cluster import controller
from headrace.cluster.image import Image
from headrace.cluster.records import ALL_NODES, MetadataRecord
from headrace.errors import InvalidConfig, UnknownTopic


class Op(Enum):
    SET = "set"
    DELETE = "delete"
    APPEND = "append"
    SUBTRACT = "subtract"


class Change(NamedTuple):
    name: str
    op: Op
    value: str = ""


class Alteration(msgspec.Struct, frozen=True):
    topic: str | None  # None: a node's settings
    changes: tuple[Change, ...]
    node_id: int = ALL_NODES
    replace: bool = False  # what is not named goes back to its default


def decide(image: Image, configuration: Configuration, wish: Alteration) -> list[MetadataRecord]:
    if wish.topic is None:
        return _of_nodes(image, configuration, wish)
    return _of_topic(image, configuration, wish, wish.topic)


def _of_topic(image: Image, configuration: Configuration, wish: Alteration, name: str) -> list[MetadataRecord]:
    topic = image.names.get(name)
    if topic is None:
        raise UnknownTopic(f"no topic {name!r}")
    made = _changes(wish, topic.config, lambda: configuration.describe_topic(topic.config))
    if wish.replace and made.get(STORAGE, "") is None:
        del made[STORAGE]  # who names all settings but this one does not mean to change what cannot be
    own = _after(topic.config, made)
    meant = configuration.topic_config(own)
    config.check(meant, own)
    before = configuration.topic_config(topic.config)
    if name in STATE_TOPICS and meant.cleanup_policy != before.cleanup_policy:
        raise InvalidConfig(f"{name} holds the broker's state: its cleanup.policy stays {before.cleanup_policy}")
    if meant.storage != before.storage:
        raise InvalidConfig(f"{STORAGE} was chosen when the topic was created: make another topic, and copy")
    return controller.configure_topic(image, topic.topic_id, made)


def _of_nodes(image: Image, configuration: Configuration, wish: Alteration) -> list[MetadataRecord]:
    own = image.node_configs.get(wish.node_id, {})
    in_force = configuration.describe_all_nodes if wish.node_id == ALL_NODES else configuration.describe_node
    made = _changes(wish, own, in_force)
    configuration.check_nodes(wish.node_id, _after(own, made))
    return controller.configure_nodes(image, wish.node_id, made)


def _changes(
    wish: Alteration, own: Mapping[str, str], in_force: Callable[[], list[Described]]
) -> dict[str, str | None]:
    """What a record has to say. `in_force`: from which lists grow and shrink."""
    made: dict[str, str | None] = dict.fromkeys(own) if wish.replace else {}
    for name, op, value in wish.changes:
        if op is Op.DELETE:
            made[name] = None
        elif op is Op.SET:
            made[name] = value.strip()
        else:
            made[name] = _listed(name, op, value, next((one for one in in_force() if one.name == name), None))
    return {name: text for name, text in made.items() if own.get(name) != text}


def _listed(name: str, op: Op, value: str, setting: Described | None) -> str:
    if setting is None or setting.kind != "list":
        raise InvalidConfig(f"{name} is no list: nothing can be added to it or taken from it; set it")
    parts = [part.strip() for part in setting.value.split(",")]
    asked = [part.strip() for part in value.split(",")]
    if op is Op.APPEND:
        return ",".join(dict.fromkeys([*parts, *asked]))
    return ",".join(part for part in parts if part not in asked)


def _after(own: Mapping[str, str], made: Mapping[str, str | None]) -> dict[str, str]:
    return {name: text for name, text in {**own, **made}.items() if text is not None}
