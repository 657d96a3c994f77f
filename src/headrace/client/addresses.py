"""Addresses as people write them: `host:port`, `[::1]:9092`, several with commas between, the port may be missing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

DEFAULT_PORT: Final = 9092
MAX_PORT: Final = (1 << 16) - 1


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse(servers: str | Iterable[str]) -> tuple[Address, ...]:
    """ValueError says which text is not an address, and what is."""
    texts = servers.split(",") if isinstance(servers, str) else list(servers)
    found = tuple(dict.fromkeys(_one(text.strip()) for text in texts if text.strip()))
    if not found:
        raise ValueError("no server was named: give HOST:PORT, or several with commas between")
    return found


def _one(text: str) -> Address:
    scheme, slashes, rest = text.partition("://")
    if slashes:
        raise ValueError(f"{text!r}: leave out {scheme}://, and name the port of the Kafka door ({DEFAULT_PORT})")
    host, colon, port = text.rpartition(":")
    if text.startswith("["):  # IPv6, whose own colons are inside of brackets
        inside, bracket, rest = text[1:].partition("]")
        if not bracket or not inside or (rest and not rest.startswith(":")):
            raise _not_an_address(text)
        host, port = inside, rest[1:] if rest else str(DEFAULT_PORT)
    elif text.count(":") > 1:
        raise ValueError(f"{text!r}: an IPv6 address stands in brackets, as in [::1]:{DEFAULT_PORT}")
    elif not colon:
        host, port = text, str(DEFAULT_PORT)
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) <= MAX_PORT:
        raise _not_an_address(text)
    return Address(host, int(port))


def _not_an_address(text: str) -> ValueError:
    return ValueError(f"{text!r} is not an address: give HOST:PORT, as in 127.0.0.1:{DEFAULT_PORT}")
