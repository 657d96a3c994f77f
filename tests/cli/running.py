"""Running a command line: inside this process where only its words matter, in one of its own where the terminal does.

`Ended.rows(Struct)` is how JSON is checked: the struct is the promise (`msgspec.json.schema` of it is the schema), so
the output must convert into it strictly, must have no field that the struct does not have, and must lack none.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from headrace.cli.main import main

S = TypeVar("S", bound=msgspec.Struct)
LIMIT_S = 60.0


class Ended(msgspec.Struct, frozen=True):
    code: int
    out: str
    err: str

    def rows(self, kind: type[S]) -> list[S]:
        """The JSON list that was printed, held against its schema."""
        assert self.code == 0, self.err
        found = msgspec.json.decode(self.out)
        assert isinstance(found, list), "a list of things is a JSON list"
        return [checked(item, kind) for item in found]

    def row(self, kind: type[S]) -> S:
        """The JSON object that was printed, held against its schema."""
        assert self.code == 0, self.err
        return checked(msgspec.json.decode(self.out), kind)

    def lines(self, kind: type[S]) -> list[S]:
        """One JSON object on each line, held against its schema."""
        assert self.code == 0, self.err
        return [checked(msgspec.json.decode(line), kind) for line in self.out.splitlines()]


def checked(item: object, kind: type[S]) -> S:
    """Strictly this struct: no other fields, none missing, no type bent, at any depth."""
    made = msgspec.convert(item, kind, strict=True)
    assert msgspec.json.decode(msgspec.json.encode(made)) == item, (
        "the JSON has fields that its schema does not, or lacks some"
    )
    assert msgspec.json.schema(kind)["$ref"]
    return made


class Run:
    """`run("topic", "list", "-o", "json")`; `stdin` is what is piped into it."""

    def __init__(self, server: str | None = None) -> None:
        self.server = server

    def __call__(self, *arguments: str, stdin: str | bytes = b"") -> Ended:
        """In this process: quick, and every line of it counts."""
        given = stdin.encode() if isinstance(stdin, str) else stdin
        out, err = _Stream(), _Stream()
        before = sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(given), encoding="utf-8")
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                try:
                    code = main(self.line(*arguments))
                except SystemExit as ended:  # argparse, in `serve`
                    code = int(ended.code or 0)
        finally:
            sys.stdin = before
        return Ended(code, out.text(), err.text())

    def apart(self, *arguments: str, stdin: bytes = b"", env: Mapping[str, str] | None = None) -> Ended:
        """In a process of its own, with pipes for streams."""
        done = self.start(*arguments, env=env)
        out, err = done.communicate(stdin, LIMIT_S)
        return Ended(done.returncode, out.decode(errors="replace"), err.decode(errors="replace"))

    def start(self, *arguments: str, env: Mapping[str, str] | None = None, **how: Any) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "headrace", *self.line(*arguments)]
        pipes: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, env=env, **(pipes | how))

    def line(self, *arguments: str) -> list[str]:
        return ["--server", self.server, *arguments] if self.server else list(arguments)


class _Stream(io.TextIOWrapper):
    """Text and bytes, as standard output takes both."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", errors="surrogateescape", newline="\n")

    def text(self) -> str:
        self.flush()
        raw = self.buffer
        assert isinstance(raw, io.BytesIO)
        return raw.getvalue().decode("utf-8", "backslashreplace")
