"""One tree of settings out of several sources: the strongest source that has a value wins, and who lost is remembered,
so that `headrace config explain` can say why a value is what it is.

Flags over our variables over those of other brokers over a file over defaults. All problems of all sources are
gathered before anything is refused; a value that was overruled is checked too, because it waits there for the day when
nothing overrules it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeVar, cast

from headrace.broker import config
from headrace.errors import InvalidConfig
from headrace.node.settings import foreign, table
from headrace.node.settings.file import PLACES, File
from headrace.node.settings.foreign import CONFIG_FILE, ForeignFlags, ForeignVariables, ImpliedByBrokerId
from headrace.node.settings.kinds import MAX_PORT, Address, PartOfAddress
from headrace.node.settings.setting import TOPIC_DEFAULTS, Setting
from headrace.node.settings.sources import (
    CONFIG_FLAG,
    CONFIG_VARIABLE,
    Environment,
    Flags,
    Given,
    InvalidSettings,
    Origin,
    Problem,
    Slip,
    Source,
    nearest,
    unknown_variables,
)
from headrace.node.settings.table import BY_KEY, BY_VARIABLE, SETTINGS

NO_FILE = "off"
DEFAULT = Origin("default", "default")

V = TypeVar("V")


class Held(NamedTuple):
    """One setting's value, and who said so."""

    value: object
    origin: Origin
    overruled: tuple[Given, ...] = ()


class Tree:
    def __init__(self, sources: Sequence[Source]) -> None:
        """The strongest source first."""
        self.problems: list[Problem] = []
        given: dict[str, list[Given]] = {}
        for source in sources:
            for one in source.read(self.problems):
                given.setdefault(one.key, []).append(one)
        self._held = {setting.key: self._hold(setting, given.get(setting.key, [])) for setting in SETTINGS}
        self._number_json_port()
        self._check_together()
        self.warnings = [problem for problem in self.problems if isinstance(problem, Slip)]
        self.problems = [problem for problem in self.problems if not isinstance(problem, Slip)]
        self.problems.sort(key=_line)

    def value(self, setting: Setting[V]) -> V:
        return cast(V, self._held[setting.key].value)

    def held(self, setting: Setting[object]) -> Held:
        return self._held[setting.key]

    def topic_defaults(self) -> dict[str, str]:
        """Those that somebody chose."""
        return {
            setting.key.removeprefix(TOPIC_DEFAULTS): self.value(setting)
            for setting in table.TOPIC_SETTINGS
            if self._held[setting.key].origin is not DEFAULT
        }

    def refuse_problems(self) -> None:
        if self.problems:
            raise InvalidSettings(self.problems)

    def _hold(self, setting: Setting[object], given: list[Given]) -> Held:
        default = setting.kind.parse(setting.default)
        values: list[tuple[object, Given]] = [(default, Given(setting.key, setting.default, DEFAULT))]
        for one in reversed(given):  # from the weakest: half an address takes its other half from below
            raw = one.raw.over(values[0][0], default) if isinstance(one.raw, PartOfAddress) else one.raw
            try:
                values.insert(0, (setting.kind.parse(raw), Given(one.key, raw, one.origin)))
            except ValueError as error:
                self.problems.append(_problem(setting, one.origin, str(error)))
        (value, winner), *others = values
        return Held(value, winner.origin, tuple(other for _, other in others if other.origin is not DEFAULT))

    def _number_json_port(self) -> None:
        """Its default is 9000 and the node's id."""
        key, node_id = table.LISTEN["json"].key, self.value(table.NODE_ID)
        held = self._held[key]
        if held.origin is DEFAULT and isinstance(held.value, Address):
            port = held.value.port + node_id
            if port <= MAX_PORT:
                self._held[key] = Held(Address(held.value.host, port), DEFAULT)
            else:
                self._refuse(
                    f"no port of the json door has the number {port}: --json HOST:PORT moves it", table.NODE_ID
                )

    def _check_together(self) -> None:
        """What each value alone cannot know. A value that was refused stands here as its default, and is silent."""
        asked, most = self.value(table.DEFAULT_PARTITIONS), self.value(table.MAX_PARTITIONS)
        if asked > most:
            why = f"{asked} partitions by default, but {most} in all: no topic could be made"
            self._refuse(why, table.DEFAULT_PARTITIONS, table.MAX_PARTITIONS)
        topics = self.value(table.DEFAULT_TOPICS)
        wanted = sum(asked if topic.partitions == -1 else topic.partitions for topic in topics)
        if wanted > most:
            why = f"the topics have {wanted} partitions, but {most} there may be in all"
            self._refuse(why, table.DEFAULT_TOPICS, table.MAX_PARTITIONS)
        self._check_doors()
        self._check_topics()

    def _check_doors(self) -> None:
        by_address: dict[Address, Setting[Address | None]] = {}
        for listen in table.LISTEN.values():
            address = self.value(listen)
            if address is not None and address.port and by_address.setdefault(address, listen) is not listen:
                self._refuse(f"{address} cannot be the address of two doors", by_address[address], listen)

    def _check_topics(self) -> None:
        """Topic settings that contradict each other: among the defaults, or with what a topic says itself."""
        defaults = config.parse(self.topic_defaults())
        for topic in (None, *self.value(table.DEFAULT_TOPICS)):
            own: Mapping[str, str | None] = topic.configs if topic else {**self.topic_defaults()}
            try:
                config.check(config.parse(own, defaults), own)
            except InvalidConfig as error:
                if topic is not None:
                    self._refuse(f"topic {topic.name!r}: {error}", table.DEFAULT_TOPICS)
                    continue
                self._refuse(str(error), *table.TOPIC_SETTINGS)
                return

    def _refuse(self, why: str, *settings: Setting[object]) -> None:
        """At the place of the first that was not left at its default."""
        chosen = next((one for one in settings if self._held[one.key].origin is not DEFAULT), settings[0])
        self.problems.append(_problem(chosen, self._held[chosen.key].origin, why))


def load(flags: Mapping[str, str | None], environment: Mapping[str, str], places: Sequence[str] = PLACES) -> Tree:
    """What `serve` would be told by these. A file that was named must be there; one in the usual places may."""
    tree = Tree(list(sources(flags, environment, places)))
    for name in unknown_variables(environment):
        near = nearest(name, list(BY_VARIABLE))
        hint = f"; did you mean {near}?" if near else ""
        tree.warnings.append(Slip(name, f"is not a setting and has no effect{hint}"))
    return tree


def sources(
    flags: Mapping[str, str | None], environment: Mapping[str, str], places: Sequence[str] = PLACES
) -> list[Source]:
    path = file_path(flags, environment, places)
    file = [] if path is None else [File(path)]
    others = ForeignVariables(environment)
    return [
        Flags(flags),
        ForeignFlags(flags),
        Environment(environment),
        others,
        *file,
        ImpliedByBrokerId(environment),
    ]


def file_path(
    flags: Mapping[str, str | None], environment: Mapping[str, str], places: Sequence[str] = PLACES
) -> str | None:
    named = flags.get(CONFIG_FLAG) or environment.get(CONFIG_VARIABLE) or environment.get(CONFIG_FILE)
    if named:
        return None if named == NO_FILE else named
    return next((place for place in places if os.path.exists(place)), None)


def known(name: str) -> Setting[object] | None:
    """By its key, flag or variable, by a variable of another broker that sets it, by what Kafka calls it, or by the
    bare name of a topic setting."""
    from headrace.node.settings.file import by_other_name, canonical

    flag = name.removeprefix("--")
    found = BY_KEY.get(canonical(name)) or table.BY_FLAG.get(flag) or BY_VARIABLE.get(name)
    return found or BY_KEY.get(foreign.BY_VARIABLE.get(name) or by_other_name(name) or "")


def _problem(setting: Setting[object], origin: Origin, why: str) -> Problem:
    """Where to change it: the place itself, and the other names of the same thing."""
    if origin.source == "file":
        return Problem(origin.where, f"{setting.key}: {why}")
    mine = origin.where if origin.source != "default" else f"--{setting.flag}"
    others = [name for name in (setting.key, f"--{setting.flag}", setting.variable) if name != mine]
    return Problem(f"{mine} (or {', '.join(others)})", why)


def _line(problem: Problem) -> int:
    """What a file has wrong is told from its top to its bottom, after what has no line."""
    line = problem.where.rpartition(":")[2]
    return int(line) if line.isdecimal() else 0
