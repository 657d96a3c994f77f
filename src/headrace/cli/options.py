"""The options that every command takes, before or after its noun, and what they come to.

A level of the command line (`headrace`, `topic`, `list`) that is given one of them notes it here while it is parsed;
deeper levels win, counts add up. A command asks `current()` when it runs. One process runs one command at a time, so
a module's own state is enough.

The server is the first of: `--server`, `--context`, HEADRACE_SERVER, HEADRACE_CONTEXT, the context in use,
127.0.0.1:9092.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Literal, cast, get_args

import msgspec

from headrace.cli import contexts
from headrace.cli.exits import usage
from headrace.cli.parsing import duration_ms

DEFAULT_SERVER = "127.0.0.1:9092"
DEFAULT_TIMEOUT_S = 30.0
SERVER_VARIABLE, CONTEXT_VARIABLE = "HEADRACE_SERVER", "HEADRACE_CONTEXT"

Output = Literal["table", "wide", "json", "jsonl", "yaml", "csv"]
OUTPUTS: tuple[str, ...] = get_args(Output)


class Options(msgspec.Struct, frozen=True):
    server: str = DEFAULT_SERVER
    server_from: str = "default"
    output: Output | None = None  # None: not asked; a command takes its own default, mostly the table
    verbosity: int = 0  # -v adds one, -q takes one
    color: bool = False
    timeout_s: float = DEFAULT_TIMEOUT_S

    @property
    def servers(self) -> list[str]:
        return [part.strip() for part in self.server.split(",") if part.strip()]

    def output_or(self, default: Output = "table") -> Output:
        return self.output or default

    @property
    def quiet(self) -> bool:
        return self.verbosity < 0

    @property
    def trace(self) -> bool:
        return self.verbosity >= 2


_given: dict[str, object] = {}


def forget() -> None:
    """Before a command line is read: nothing was asked yet."""
    _given.clear()


def give(name: str, value: object) -> None:
    """Notes what a level of the command line was given."""
    if value is None or value is False or value == 0:
        return
    if isinstance(value, int) and not isinstance(value, bool):
        value += cast(int, _given.get(name, 0))
    _given[name] = value


def is_given(name: str) -> bool:
    """Was it asked on the command line? For commands whose own default is another."""
    return name in _given


def verbosity() -> int:
    """Known as soon as the options are read, also when the rest of them makes no sense."""
    return cast(int, _given.get("verbose", 0)) - cast(int, _given.get("quiet", 0))


def current(environment: Mapping[str, str] = os.environ) -> Options:
    server, source = _server(environment)
    output = _given.get("output")
    if output is not None and output not in OUTPUTS:
        raise usage(f"-o {output} is not an output", f"one of {', '.join(OUTPUTS)}")
    timeout = _given.get("timeout")
    timeout_s = duration_ms(str(timeout)) / 1000 if timeout is not None else DEFAULT_TIMEOUT_S
    if timeout_s <= 0:
        raise usage("--timeout takes more than nothing", "--timeout 30s")
    return Options(
        server=server,
        server_from=source,
        output=cast("Output | None", output),
        verbosity=verbosity(),
        color=wants_color(environment),
        timeout_s=timeout_s,
    )


def wants_color(environment: Mapping[str, str] = os.environ) -> bool:
    """Only on a terminal that has colours, and not where somebody said no (no-color.org)."""
    if "no_color" in _given or environment.get("NO_COLOR") or environment.get("TERM") == "dumb":
        return False
    return sys.stdout.isatty()


def note(text: str) -> None:
    """A word beside the result, on standard error: what was done, what is worth knowing. -q keeps it back."""
    if verbosity() >= 0:
        print(text, file=sys.stderr)


def detail(text: str) -> None:
    """What only -v wants to know."""
    if verbosity() > 0:
        print(text, file=sys.stderr)


def _server(environment: Mapping[str, str]) -> tuple[str, str]:
    if (server := _given.get("server")) is not None:  # an empty one is refused: a script's variable may be unset
        return str(server), "--server"
    if (name := _given.get("context")) is not None:
        return contexts.Contexts.read(environment).named(str(name)).server, f"context {name}"
    if (from_environment := environment.get(SERVER_VARIABLE)) is not None:  # an empty one is refused, too
        return from_environment, SERVER_VARIABLE
    known = contexts.Contexts.read(environment)
    if (name := environment.get(CONTEXT_VARIABLE)) is not None:
        return known.named(name).server, f"context {name} ({CONTEXT_VARIABLE})"
    if known.current is not None:
        return known.named(known.current).server, f"context {known.current}"
    return DEFAULT_SERVER, "default"
