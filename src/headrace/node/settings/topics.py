"""Settings that speak of topics: the default of each topic setting, and the topics that a node makes at its start.

What a topic setting takes is the broker's to say (`headrace.broker.config`); here it only learns units: a setting
whose name ends in `.ms` takes `7d` as well, one that ends in `.bytes` takes `1GiB`, and both take `never`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from headrace import units
from headrace.broker import config
from headrace.broker.broker import NewTopic
from headrace.broker.values import MAX_LONG
from headrace.cluster.controller import check_topic_name
from headrace.errors import InvalidConfig, InvalidTopicName
from headrace.node.settings.kinds import Kind, Plain

MAX_DEFAULT_TOPICS = 1000  # made at every start that does not find them, before the node says that it serves
NEVER = "never"  # what Kafka's largest number means in a setting, and is easier to read
_TOPIC_KEYS = ("name", "partitions", "config")


class TopicValue(Kind[str]):
    """The value of one topic setting, as the text that topic settings travel as."""

    def __init__(self, setting: str) -> None:
        self._setting = setting
        self.name, self.metavar, self._units = "value", "VALUE", ""
        if setting.endswith(".ms"):
            self.name, self.metavar, self._units = "duration", "DURATION", "milliseconds, or with a unit as in 7d"
        elif setting.endswith(".bytes"):
            self.name, self.metavar, self._units = "size", "SIZE", "bytes, or with a unit as in 1GiB"

    @property
    def takes(self) -> str:
        return self._units or self._words()

    def _words(self) -> str:
        """The broker's own, from what it says to a value that nothing takes."""
        try:
            config.SETTINGS[self._setting].parse("\0")
        except InvalidConfig as error:
            return str(error).removeprefix("takes ").partition(", not ")[0]
        return "text"

    def parse(self, raw: object) -> str:
        if isinstance(raw, bool):
            raw = "true" if raw else "false"
        if not isinstance(raw, str | int | float):
            raise self.refuse(raw)
        text = str(raw).strip()
        try:
            text = self._plain_number(text)
        except ValueError:
            raise self.refuse(raw) from None
        try:
            config.SETTINGS[self._setting].parse(text)
        except InvalidConfig as error:
            raise ValueError(str(error)) from None
        return text

    def _plain_number(self, text: str) -> str:
        if text == NEVER and isinstance(config.SETTINGS[self._setting].default, int):
            return str(MAX_LONG)
        if self.name == "value" or text.removeprefix("-").isdecimal():
            return text
        return str(units.size(text) if self.name == "size" else units.duration_ms(text))

    def show(self, value: str) -> str:
        if value == str(MAX_LONG):
            return NEVER
        if self.name == "value" or not value.isdecimal():
            return value
        return units.size_text(int(value)) if self.name == "size" else units.duration_text(int(value))

    def plain(self, value: str) -> Plain:
        return int(value) if value.removeprefix("-").isdecimal() else value


class DefaultTopics(Kind[tuple[NewTopic, ...]]):
    name, metavar = "topics", "NAME[:N],…"
    takes = "a list of topics: NAME or NAME:PARTITIONS with commas between, or tables with name, partitions and config"

    def parse(self, raw: object) -> tuple[NewTopic, ...]:
        if isinstance(raw, str):
            raw = self._list(raw.strip())
        if not isinstance(raw, list):
            raise self.refuse(raw)
        if len(raw) > MAX_DEFAULT_TOPICS:
            raise ValueError(f"takes at most {MAX_DEFAULT_TOPICS} topics, not {len(raw)}")
        topics = tuple(map(self._topic, raw))
        names = [topic.name for topic in topics]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"names the topic {twice!r} twice")
        return topics

    def _list(self, text: str) -> object:
        if not text.startswith("["):
            return [part.strip() for part in text.split(",") if part.strip()]
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"takes {self.takes}; as JSON it does not read: {error}") from None

    def _topic(self, raw: object) -> NewTopic:
        if isinstance(raw, str):
            head, colon, count = raw.rpartition(":")
            raw = {"name": head, "partitions": int(count)} if colon and count.isdecimal() else {"name": raw}
        if not isinstance(raw, dict):
            raise self.refuse(raw)
        if unknown := [key for key in raw if key not in _TOPIC_KEYS]:
            raise ValueError(f"a topic has {', '.join(_TOPIC_KEYS)}; not {unknown[0]!r}")
        name, partitions, settings = raw.get("name"), raw.get("partitions", -1), raw.get("config", {})
        if not isinstance(name, str):
            raise ValueError("a topic needs a name")
        try:
            check_topic_name(name)
        except InvalidTopicName as error:
            raise ValueError(str(error)) from None
        if isinstance(partitions, bool) or not isinstance(partitions, int) or (partitions < 1 and "partitions" in raw):
            raise ValueError(f"topic {name!r}: partitions takes a whole number, at least 1, not {partitions!r}")
        if not isinstance(settings, dict):
            raise ValueError(f"topic {name!r}: config is a section of topic settings")
        return NewTopic(name, partitions, configs=dict(_settings(name, settings)))

    def show(self, value: tuple[NewTopic, ...]) -> str:
        if any(topic.configs for topic in value):
            return json.dumps(self.plain(value), ensure_ascii=False)
        return ",".join(t.name if t.partitions == -1 else f"{t.name}:{t.partitions}" for t in value)

    def plain(self, value: tuple[NewTopic, ...]) -> Plain:
        topics: list[dict[str, str | int | dict[str, str | None]]] = []
        for topic in value:
            topics.append({"name": topic.name})
            if topic.partitions != -1:
                topics[-1]["partitions"] = topic.partitions
            if topic.configs:
                topics[-1]["config"] = topic.configs
        return topics


def flat(tree: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """`retention.ms = 5` is a table within a table to TOML; here it is a name with a dot."""
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from flat(value, f"{above}{name}.")
        else:
            yield above + name, value


def _settings(topic: str, given: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for name, raw in flat(given):
        if name not in config.SETTINGS:
            raise ValueError(f"topic {topic!r}: there is no topic setting {name!r}")
        try:
            yield name, TopicValue(name).parse(raw)
        except ValueError as error:
            raise ValueError(f"topic {topic!r}: {name} {error}") from None
