"""Named addresses, kept in one small file: `$XDG_CONFIG_HOME/headrace/contexts.toml`, else below `~/.config`.

    current = "staging"

    [contexts.staging]
    server = "10.0.0.5:9092,10.0.0.6:9092"
    note = "the one that may break"

It is TOML so that people can edit it; what we write we write whole, by a new file and a rename, so that a reader never
sees half of it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches

import msgspec

from headrace.cli.exits import not_found, usage

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Context(msgspec.Struct, frozen=True):
    server: str
    note: str = ""


class Contexts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    current: str | None = None
    contexts: dict[str, Context] = {}

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Contexts:
        path = path_of(environment)
        try:
            with open(path, "rb") as file:
                return msgspec.convert({"path": path, **tomllib.load(file)}, cls)
        except FileNotFoundError:
            return cls(path)
        except (tomllib.TOMLDecodeError, msgspec.ValidationError, UnicodeDecodeError) as error:
            raise usage(f"{path} is not a file of contexts: {error}", "mend it by hand, or remove it") from None

    def named(self, name: str) -> Context:
        if name in self.contexts:
            return self.contexts[name]
        if not name:
            raise usage("an empty name names no context", "`headrace context list` shows what there is")
        near = get_close_matches(name, self.contexts, 1)
        words = f"; did you mean {near[0]}?" if near else ""
        raise not_found(f"there is no context {name!r}{words}", f"`headrace context set {name} HOST:PORT` makes it")

    def save(self) -> None:
        folder = os.path.dirname(self.path)
        os.makedirs(folder, exist_ok=True)
        handle, new = tempfile.mkstemp(dir=folder, prefix=".contexts-")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                file.write(self.text())
            os.replace(new, self.path)
        except OSError:
            with contextlib.suppress(OSError):
                os.remove(new)
            raise

    def text(self) -> str:
        lines = [f"current = {_quoted(self.current)}", ""] if self.current is not None else []
        for name, context in sorted(self.contexts.items()):
            lines += [f"[contexts.{_quoted(name)}]", f"server = {_quoted(context.server)}"]
            lines += [f"note = {_quoted(context.note)}"] if context.note else []
            lines.append("")
        return "\n".join(lines)


def path_of(environment: Mapping[str, str]) -> str:
    base = environment.get("XDG_CONFIG_HOME") or os.path.join(environment.get("HOME") or "~", ".config")
    return os.path.join(os.path.expanduser(base), "headrace", "contexts.toml")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")  # TOML's basic strings are JSON's, but DEL


def complete(incomplete: str) -> list[tuple[str, str]]:
    """Names with their servers, for a shell."""
    known = Contexts.read(os.environ).contexts
    return [(name, context.server) for name, context in known.items() if name.startswith(incomplete)]
