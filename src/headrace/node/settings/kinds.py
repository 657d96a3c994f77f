"""What a setting takes: a kind turns what a source gives (text of a flag or variable; what TOML or JSON has) into the
value, says in words what it takes, and writes the value so that reading it again gives the same.

A kind never knows where a value came from: it raises ValueError with `takes …, not …`, and who asked adds the place.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple, TypeVar

import msgspec

from headrace import units

UNBOUNDED = (1 << 63) - 1
OFF = "off"
MAX_PORT = 65_535
WORDS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, OFF: False, "0": False}

V = TypeVar("V")
Plain = None | bool | int | str | dict[str, str] | list[dict[str, str | int | dict[str, str | None]]]
"""A value as JSON has it: levels are an object, topics a list of objects."""


class Address(msgspec.Struct, frozen=True):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class PartOfAddress(NamedTuple):
    """What a source says that names hosts and ports apart: one of them may be missing, and is then what weaker
    sources say."""

    host: object = None
    port: object = None

    def over(self, below: object, default: object) -> str:
        beneath = below if isinstance(below, Address) else default
        assert isinstance(beneath, Address)
        host, port = self.host or beneath.host, beneath.port if self.port is None else self.port
        return f"[{host}]:{port}" if ":" in str(host) else f"{host}:{port}"


class Kind(ABC, Generic[V]):
    name: str
    """One word, for tables."""

    metavar: str
    least: int | None = None
    most: int | None = None

    @property
    @abstractmethod
    def takes(self) -> str:
        """In words, with the bounds: `a whole number, 1 or more`."""

    @abstractmethod
    def parse(self, raw: object) -> V: ...

    def show(self, value: V) -> str:
        """As a person writes it."""
        return str(value)

    def plain(self, value: V) -> Plain:
        """As a program reads it."""
        return self.show(value)

    def refuse(self, raw: object) -> ValueError:
        return ValueError(f"takes {self.takes}, not {_said(raw)}")


class Whole(Kind[int]):
    name, metavar = "number", "N"

    def __init__(self, least: int, most: int = UNBOUNDED) -> None:
        self.least, self.most = least, most if most < UNBOUNDED else None

    @property
    def takes(self) -> str:
        return f"a whole number, {self.bounds}"

    @property
    def bounds(self) -> str:
        assert self.least is not None
        if self.most is None:
            return f"at least {self.show(self.least)}"
        return f"{self.show(self.least)} to {self.show(self.most)}"

    def parse(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, int | str):
            raise self.refuse(raw)
        try:
            value = raw if isinstance(raw, int) else self.read(raw)
        except ValueError:
            raise self.refuse(raw) from None
        assert self.least is not None
        if value < self.least or value > (UNBOUNDED if self.most is None else self.most):
            raise ValueError(f"takes {self.bounds}, not {self.show(value)}")
        return value

    def read(self, text: str) -> int:
        return int(text)

    def plain(self, value: int) -> Plain:
        return value


class Size(Whole):
    name, metavar = "size", "SIZE"

    @property
    def takes(self) -> str:
        return f"a size ({self.bounds}): bytes, or with a unit as in 64KiB, 16MiB, 1GiB"

    def read(self, text: str) -> int:
        return units.size(text)

    def show(self, value: int) -> str:
        return units.size_text(value)


class Duration(Whole):
    name, metavar = "duration", "DURATION"

    @property
    def takes(self) -> str:
        return f"a duration ({self.bounds}): milliseconds, or with a unit as in 500ms, 30s, 10m, 12h, 7d"

    def read(self, text: str) -> int:
        return units.duration_ms(text)

    def show(self, value: int) -> str:
        return units.duration_text(value)


class Choice(Kind[str]):
    name = "choice"

    def __init__(self, *choices: str, metavar: str = "") -> None:
        self.choices = choices
        self.metavar = metavar or "|".join(choices)

    @property
    def takes(self) -> str:
        return f"{', '.join(self.choices[:-1])} or {self.choices[-1]}"

    def parse(self, raw: object) -> str:
        if not isinstance(raw, str) or raw not in self.choices:
            raise self.refuse(raw)
        return raw


class Switch(Kind[bool]):
    name, metavar, takes = "switch", "true|false", "true or false"

    def parse(self, raw: object) -> bool:
        value = raw if isinstance(raw, bool) else WORDS.get(raw.lower()) if isinstance(raw, str) else None
        if value is None:
            raise self.refuse(raw)
        return value

    def show(self, value: bool) -> str:
        return "true" if value else "false"

    def plain(self, value: bool) -> Plain:
        return value


class Place(Kind[str | None]):
    """A file or a folder; empty: none, where that is possible."""

    name = "path"

    def __init__(self, metavar: str, optional: bool = False) -> None:
        self.metavar, self._optional = metavar, optional

    @property
    def takes(self) -> str:
        what = "a folder's path" if self.metavar == "DIR" else "a file's path"
        return f"{what}; empty: none" if self._optional else what

    def parse(self, raw: object) -> str | None:
        if not isinstance(raw, str) or "\0" in raw or not (raw or self._optional):
            raise self.refuse(raw)
        return raw or None

    def show(self, value: str | None) -> str:
        return value or ""

    def plain(self, value: str | None) -> Plain:
        return value


class HostPort(Kind[Address | None]):
    """`[::1]:9092` for IPv6; without a host, loopback. `off` where there may be none; an advertised address is one
    that others can reach, so it has no port 0 and no host that means every address of this machine."""

    name, metavar = "address", "HOST:PORT"

    def __init__(self, advertised: bool = False) -> None:
        self._advertised = advertised

    @property
    def takes(self) -> str:
        return "HOST:PORT (as clients reach it), or nothing" if self._advertised else f"HOST:PORT or {OFF}"

    def parse(self, raw: object) -> Address | None:
        if raw == ("" if self._advertised else OFF):
            return None
        host, colon, port = raw.rpartition(":") if isinstance(raw, str) else ("", "", "")
        if not colon and port.isascii() and port.isdecimal():
            raise ValueError(f"takes a host too, as in 127.0.0.1:{port}, not {_said(raw)}")
        if not colon or not (port.isascii() and port.isdecimal()) or int(port) > MAX_PORT:
            raise self.refuse(raw)
        if ":" in host and not (host.startswith("[") and host.endswith("]")):
            raise ValueError(f"takes an IPv6 address in brackets, as in [::1]:9092, not {_said(raw)}")
        host = host.removeprefix("[").removesuffix("]")
        if self._advertised and (host in ("", "0.0.0.0", "::", "*") or port.strip("0") == ""):  # noqa: S104
            raise ValueError(f"takes a host and a port that clients can connect to, not {_said(raw)}")
        return Address(host or "127.0.0.1", int(port))

    def show(self, value: Address | None) -> str:
        return str(value) if value is not None else "" if self._advertised else OFF


def _said(raw: object) -> str:
    """What was given, as its writer would know it again."""
    if isinstance(raw, bool):
        return "true" if raw else "false"
    if isinstance(raw, str | int | float):
        return repr(raw)
    return "a list" if isinstance(raw, list) else "a section" if isinstance(raw, dict) else str(raw)
