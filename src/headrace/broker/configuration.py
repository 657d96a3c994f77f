"""What is set where, and what is in force: the layers of configuration.

A topic's setting is its own; else that of this node, set while it runs; else that of all nodes; else what the node was
started with; else the default of the program. The first layer that says something wins. Each layer is text, checked
when it came in; `topic_config` is what it all means for a topic, made again whenever a layer changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from typing import NamedTuple

import msgspec

from headrace.broker import config, node_config
from headrace.broker.node_config import AUTO_CREATE, NODE_SETTINGS, PARTITIONS, NodeSetting
from headrace.broker.settings import BrokerSettings, StaticSetting
from headrace.broker.values import Value
from headrace.cluster.image import Image
from headrace.cluster.records import ALL_NODES

STORAGE = "headrace.storage"


class Source(Enum):
    TOPIC = "topic"
    NODE = "node"
    ALL_NODES = "all nodes"
    STATIC = "static"
    DEFAULT = "default"
    LOGGER = "logger"  # log levels, which have no layers


class Synonym(NamedTuple):
    """One layer's word on a setting."""

    name: str
    value: str
    source: Source


class Described(msgspec.Struct, frozen=True):
    """A setting as it is in force; `synonyms` is every layer that says something, the one that wins first."""

    name: str
    kind: str
    doc: str
    synonyms: tuple[Synonym, ...]
    read_only: bool = False
    sensitive: bool = False

    @property
    def value(self) -> str:
        return self.synonyms[0].value

    @property
    def source(self) -> Source:
        return self.synonyms[0].source


class Configuration:
    def __init__(self, node_id: int, settings: BrokerSettings, image: Image) -> None:
        self._node_id, self._settings = node_id, settings
        self._static = _static_texts(settings)
        self.bound: tuple[StaticSetting, ...] = ()  # where the doors really listen, once they do
        self.default_storage = settings.topic_defaults.get(STORAGE, str(config.SETTINGS[STORAGE].default))
        self.refresh(image)

    def refresh(self, image: Image) -> None:
        """A layer has changed."""
        self._image = image
        self._known = {name: tuple(self._layers(setting)) for name, setting in NODE_SETTINGS.items()}
        self._defaults = self._meant()
        self.auto_create_topics = self._text(AUTO_CREATE) == "true"
        self.default_partitions = int(self._text(PARTITIONS))

    def topic_config(self, own: Mapping[str, str | None]) -> config.TopicConfig:
        return config.parse(own, self._defaults)

    def check_nodes(self, node_id: int, changed: Mapping[str, str]) -> None:
        """Refuses settings of a node that it could not have, or that would contradict the other layers'."""
        for name, text in changed.items():
            node_config.check(name, text)
        if node_id in (self._node_id, ALL_NODES):
            config.check(self._meant({node_id: changed}), {})

    # For people

    def describe_topic(self, own: Mapping[str, str]) -> list[Described]:
        return [self._described(setting, own) for setting in config.SETTINGS.values()]

    def describe_node(self) -> list[Described]:
        """All that this node has: what can be changed, and what it was started with."""
        found = [
            Described(setting.name, setting.kind, setting.doc, self._known[setting.name])
            for setting in NODE_SETTINGS.values()
        ]
        static = (*self._settings.static, *self.bound)
        shown = [_static(setting) for setting in static if setting.name not in NODE_SETTINGS]
        return found + shown

    def describe_all_nodes(self) -> list[Described]:
        """What is set for all of them, and nothing else."""
        own = self._image.node_configs.get(ALL_NODES, {})
        return [
            Described(name, NODE_SETTINGS[name].kind, NODE_SETTINGS[name].doc, (Synonym(name, text, Source.ALL_NODES),))
            for name, text in sorted(own.items())
            if name in NODE_SETTINGS
        ]

    # Inside

    def _described(self, setting: config.Setting, own: Mapping[str, str]) -> Described:
        if setting.broker_name:
            synonyms = self._known[setting.broker_name]
        else:
            synonyms = (Synonym(setting.name, str(setting.default), Source.DEFAULT),)
        if setting.name in own:
            synonyms = (Synonym(setting.name, own[setting.name], Source.TOPIC), *synonyms)
        return Described(setting.name, setting.kind, setting.doc, synonyms)

    def _layers(
        self, setting: NodeSetting, instead: Mapping[int, Mapping[str, str]] | None = None
    ) -> Iterator[Synonym]:
        configs: Mapping[int, Mapping[str, str]] = {**self._image.node_configs, **(instead or {})}
        for source, own in (
            (Source.NODE, configs.get(self._node_id, {})),
            (Source.ALL_NODES, configs.get(ALL_NODES, {})),
            (Source.STATIC, self._static),
        ):
            if setting.name in own:
                yield Synonym(setting.name, own[setting.name], source)
        yield Synonym(setting.name, str(setting.default), Source.DEFAULT)

    def _text(self, name: str) -> str:
        return self._known[name][0].value

    def _meant(self, instead: Mapping[int, Mapping[str, str]] | None = None) -> config.TopicConfig:
        values: dict[str, Value] = {}
        for setting in NODE_SETTINGS.values():
            if setting.topic_name:
                topic_setting = config.SETTINGS[setting.topic_name]
                values[topic_setting.field] = setting.parse(next(self._layers(setting, instead)).value)
        return msgspec.structs.replace(config.DEFAULTS, **values)


def _static_texts(settings: BrokerSettings) -> dict[str, str]:
    """What the node was started with, under the names that nodes use."""
    config.check(config.parse(settings.topic_defaults), settings.topic_defaults)
    names = {name: config.SETTINGS[name].broker_name for name in settings.topic_defaults}
    texts = {names[name]: text.strip() for name, text in settings.topic_defaults.items() if names[name]}
    if settings.auto_create_topics != BrokerSettings().auto_create_topics:
        texts[AUTO_CREATE] = str(settings.auto_create_topics).lower()
    if settings.default_partitions != BrokerSettings().default_partitions:
        texts[PARTITIONS] = str(settings.default_partitions)
    return texts


def _static(setting: StaticSetting) -> Described:
    source = Source.DEFAULT if setting.is_default else Source.STATIC
    synonym = Synonym(setting.name, setting.value, source)
    return Described(setting.name, setting.kind, setting.doc, (synonym,), read_only=True, sensitive=setting.sensitive)
