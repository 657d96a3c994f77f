"""Variables of the brokers whose clients the five doors serve: whoever comes from one of them starts a node as before.

They are weaker than ours and stronger than a file. Half of an address is enough (QB_SERVER_PORT alone): the other half
is what weaker sources say. What a node has no use for is told, never silently taken; a key for encryption is refused,
because who sets one believes that what is written is encrypted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from headrace.node.settings.kinds import PartOfAddress
from headrace.node.settings.sources import FOREIGN_FLAGS, Given, Origin, Problem, Slip

HTTP_PORT = 8080  # and BROKER_ID: where such a broker served HTTP when nobody said
JSON_PORT = 9000  # and the id, likewise
CONFIG_FILE = "QB_CONFIG_FILE"
ID = "BROKER_ID"


class Host(NamedTuple):
    """Two variables that together are an address."""

    host: str
    port: str
    key: str


ADDRESSES = (
    Host("QB_SERVER_HOST", "QB_SERVER_PORT", "binary.listen"),
    Host("WIBER_HOST", "WIBER_PORT", "lines.listen"),
    Host("BROKER_HTTP_HOST", "BROKER_HTTP_PORT", "http.listen"),
)
PLAIN = {
    "QB_DATA_DIR": "node.data",
    "WIBER_DATA_DIR": "node.data",
    "PUBSUB_DATA_DIR": "node.data",
    ID: "node.id",
    "QB_MAX_CONNECTIONS": "binary.max-connections",
    "QB_DEFAULT_PARTITIONS": "topics.default-partitions",
}
LEVELS = {"QB_LOG_LEVEL": "log.level", "RUST_LOG": "log.level"}
ADVERTISED = {"BROKER_API_BASE": "http.advertised", "SELF_API_BASE": "http.advertised"}
LEVEL_NAMES = {
    "trace": "debug",
    "debug": "debug",
    "info": "info",
    "warn": "warning",
    "warning": "warning",
    "error": "error",
    "critical": "error",
}
_ELECTION = "no election port is served: who leads is settled within the cluster"
_PEERS = "nodes of a cluster know each other from its metadata"
IDLE = {
    "QB_SNAPSHOT_DIR": "snapshots are kept beside the logs that they are of",
    "QB_SNAPSHOT_INTERVAL": "a log writes its snapshot with each segment and at the stop",
    "QB_MAX_RETRIES": "how often a client tries again is the client's to say",
    "MIN_SYNC_FOLLOWERS": "how many copies an acknowledgement waits for is the topic's min.insync.replicas",
    "ELECTION_HOST": _ELECTION,
    "ELECTION_PORT": _ELECTION,
    "DISCOVERY_SERVICE_URL": _PEERS,
    "BROKER_API_PEERS": _PEERS,
}
REFUSED = dict.fromkeys(
    ("PUBSUB_STORAGE_KEY", "STORAGE_ENCRYPTION_KEY"),
    "asks for encryption at rest, which is not there yet: unset it, and let the disk below encrypt",
)
"""Variables that would have no effect, and why; and those that a node must not start with."""


BY_VARIABLE: dict[str, str] = {
    **{name: pair.key for pair in ADDRESSES for name in (pair.host, pair.port)},
    **PLAIN,
    **LEVELS,
    **ADVERTISED,
}
"""The key that each of them sets."""


class ForeignVariables:
    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = {name: text for name, text in environment.items() if text}

    def read(self, problems: list[Problem]) -> Iterator[Given]:
        for pair in ADDRESSES:
            host, port = self._environment.get(pair.host), self._environment.get(pair.port)
            names = [name for name, given in ((pair.host, host), (pair.port, port)) if given is not None]
            if names:
                yield Given(pair.key, PartOfAddress(host, port), _from(" and ".join(names)))
        for name in self._given(PLAIN):
            yield Given(PLAIN[name], self._environment[name], _from(name))
        for name in self._given(LEVELS):
            if (level := _level(self._environment[name])) is not None:
                yield Given(LEVELS[name], level, _from(name))
            else:
                problems.append(Slip(name, f"has no effect: {self._environment[name]!r} names no level for all events"))
        for name in self._given(ADVERTISED):
            yield Given(ADVERTISED[name], _host_port(self._environment[name]), _from(name))
        problems += (Slip(name, f"has no effect: {IDLE[name]}") for name in self._given(IDLE))
        problems += (Problem(name, REFUSED[name]) for name in self._given(REFUSED))

    def _given(self, names: Mapping[str, str]) -> list[str]:
        return [name for name in names if name in self._environment]


class ForeignFlags:
    """`--broker-id N --host H --port P`, as a broker of the json protocol is told: the node's id, and where that door
    is. Its usual port is 9000 and the id."""

    def __init__(self, flags: Mapping[str, str | None]) -> None:
        self._id, self._host, self._port = (flags.get(name) for name in FOREIGN_FLAGS)

    def read(self, _: list[Problem]) -> Iterator[Given]:
        if self._id is None:
            return  # the others alone are no flags
        yield Given("node.id", self._id, Origin("flag", "--broker-id"))
        named = [name for name, given in (("--host", self._host), ("--port", self._port)) if given is not None]
        if named:
            is_number = self._id.isascii() and self._id.isdecimal()
            port = str(JSON_PORT + int(self._id)) if self._port is None and is_number else self._port
            yield Given("json.listen", PartOfAddress(self._host, port), Origin("flag", " and ".join(named)))


class ImpliedByBrokerId:
    """BROKER_ID alone was enough to start several brokers on one machine: each had a port and a folder by its number.
    Weaker than a file, which says what it means."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._id = environment.get(ID, "")

    def read(self, _: list[Problem]) -> Iterator[Given]:
        if self._id.isascii() and self._id.isdecimal():
            yield Given("http.listen", PartOfAddress(None, str(HTTP_PORT + int(self._id))), _from(ID))
            yield Given("node.data", f"data{self._id}", _from(ID))


def _from(name: str) -> Origin:
    return Origin("environment", name)


def _level(text: str) -> str | None:
    """Of `info`, `INFO` or `lbroker=debug,warn`: what is said for everything, not for one part."""
    return next((LEVEL_NAMES[word] for word in text.lower().replace(" ", "").split(",") if word in LEVEL_NAMES), None)


def _host_port(url: str) -> str:
    """What does not read as an URL is left as it is: the setting says what is wrong with it."""
    from urllib.parse import urlsplit  # who has no such variable need not wait for it

    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        return url
    host = parts.hostname
    return url if not host else f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
