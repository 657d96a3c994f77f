"""Where values come from. A source reads its own spelling (flags, variables, a file) and gives values under the
settings' own keys, each with its origin; what it does not understand it reports, and goes on.

Another source (a foreign configuration file, somebody's older variables) is a class with a `read` of the same shape,
put at its place in the order of precedence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple, Protocol

from headrace.errors import InvalidConfig
from headrace.node.settings.setting import Setting
from headrace.node.settings.table import BY_FLAG, BY_VARIABLE

PREFIX = "HEADRACE_"
CONFIG_FLAG, CONFIG_VARIABLE = "config", "HEADRACE_CONFIG"
FOREIGN_FLAGS = ("broker-id", "host", "port")  # of a broker of the json protocol; see foreign.py
OTHER_VARIABLES = {
    CONFIG_VARIABLE,
    "HEADRACE_SERVER",  # which server the command line asks
    "HEADRACE_CONTEXT",
    "HEADRACE_NATIVE",  # the kernels
    "HEADRACE_REQUIRE_CLIENTS",  # our tests
}


class Origin(NamedTuple):
    source: Literal["flag", "environment", "file", "default"]
    where: str
    """`--kafka`, `HEADRACE_KAFKA`, `headrace.toml:3`."""


class Given(NamedTuple):
    key: str
    raw: object
    origin: Origin


class Problem(NamedTuple):
    where: str
    text: str

    def __str__(self) -> str:
        return f"{self.where}: {self.text}"


class Slip(Problem):
    """What has no effect, and probably should."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"{self.where} {self.text}"


class InvalidSettings(InvalidConfig):
    """Everything that is wrong with what a node was told, not only the first of it."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = problems


class Source(Protocol):
    def read(self, problems: list[Problem]) -> Iterator[Given]: ...


class Flags:
    """By name without dashes in front; None where not given."""

    def __init__(self, given: Mapping[str, str | None]) -> None:
        self._given = given

    def read(self, problems: list[Problem]) -> Iterator[Given]:
        for name, text in self._given.items():
            if text is None or name == CONFIG_FLAG or (name in FOREIGN_FLAGS and FOREIGN_FLAGS[0] in self._given):
                continue
            if (setting := BY_FLAG.get(name)) is not None:
                yield Given(setting.key, text, Origin("flag", f"--{name}"))
            else:
                near = nearest(name, BY_FLAG)
                problems.append(Problem(f"--{name}", f"is not a flag{f'; did you mean --{near}?' if near else ''}"))


class Environment:
    """A variable that only looks like one of ours is no problem: whoever starts a container may not choose all of
    them (`unknown_variables` finds them, for a warning)."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = environment

    def read(self, problems: list[Problem]) -> Iterator[Given]:
        for name, setting in BY_VARIABLE.items():
            if name in self._environment:
                yield Given(setting.key, self._environment[name], Origin("environment", name))


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """What looks like a setting and is none: mostly a slip."""
    return sorted(
        name
        for name in environment
        if name.startswith(PREFIX) and name not in BY_VARIABLE and name not in OTHER_VARIABLES
    )


def nearest(name: str, known: Mapping[str, Setting[object]] | list[str]) -> str | None:
    from difflib import get_close_matches  # only whoever mistyped pays for it

    return next(iter(get_close_matches(name, list(known), 1)), None)
