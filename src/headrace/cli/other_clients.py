"""Flags that hands and scripts know from the clients of the brokers whose protocols the doors speak: where to connect,
in their words. `publish`, `subscribe`, `create-topic` and `history` take them for `--server`.

| flag | of |
|---|---|
| `--host H`, `--port P`; these and `--client-id ID` also before the verb | the binary protocol's client |
| `--broker URL`, `--brokers URL,URL`, `--peers URL …` | the HTTP protocol's tools |

They are turned into ours before the command line is read, so that no help shows two names for one thing.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

WITH_CLIENT_ID = ("publish", "subscribe")
VERBS = (*WITH_CLIENT_ID, "create-topic", "history")
HOST, PORT, PEERS, CLIENT_ID = "--host", "--port", "--peers", "--client-id"
FLAGS = frozenset((HOST, PORT, "--broker", "--brokers", PEERS))
OURS = ("-s", "--server")
SWITCHES = ("-v", "-vv", "-q", "-h", "--verbose", "--quiet", "--no-color", "--help")
END = "--"  # of options

Taken = list[tuple[str, str]]


def translated(given: Sequence[str]) -> list[str]:
    """The command line in our words. As it is, if it is not one of these verbs', or says --server as well."""
    at = _verb(given)
    if at is None or any(word.partition("=")[0] in OURS for word in given):
        return list(given)
    before, first = _take(given[:at], {*FLAGS, CLIENT_ID})
    behind, second = _take(given[at + 1 :], FLAGS)
    has_id = given[at] in WITH_CLIENT_ID  # the others say it to nobody, as in that client
    own = [word for flag, value in first if flag == CLIENT_ID and has_id for word in (flag, value)]
    address = _address([pair for pair in (*first, *second) if pair[0] != CLIENT_ID])
    return [*before, *(["--server", address] if address else []), given[at], *own, *behind]


def _verb(given: Sequence[str]) -> int | None:
    """Where it stands, if it is one of these: behind options alone."""
    at = 0
    while at < len(given) and given[at].startswith("-"):
        at += 1 if "=" in given[at] or given[at] in SWITCHES else 2
    return at if at < len(given) and given[at] in VERBS else None


def _take(words: Sequence[str], flags: Collection[str]) -> tuple[list[str], Taken]:
    """What is left, and what was taken. A flag without its value is left, for whoever reads the rest."""
    left, taken, rest = list[str](), Taken(), list(words)
    while rest and rest[0] != END:
        word = rest.pop(0)
        name, equals, value = word.partition("=")
        if name not in flags or not (equals or rest):
            left.append(word)
            continue
        taken.append((name, value if equals else rest.pop(0)))
        while name == PEERS and rest and ":" in rest[0] and not rest[0].startswith("-"):
            taken.append((name, rest.pop(0)))
    return left + rest, taken


def _address(taken: Taken) -> str:
    """Hosts and ports, as --server has them; without a port, the door's own."""
    said = dict(taken)
    found = [value for name, value in taken if name not in (HOST, PORT)]
    if HOST in said or PORT in said:
        host = said.get(HOST, "127.0.0.1")
        host = f"[{host}]" if ":" in host and not host.startswith("[") else host
        found.insert(0, f"{host}:{said[PORT]}" if PORT in said else host)
    return ",".join(found)
