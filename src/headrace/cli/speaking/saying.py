"""What is printed of what was heard: the door's own words, or for programs with -o json a list that grows, with -o
jsonl an object a line.

Records may hold anything. On a terminal control characters are escaped, so that nobody's record moves somebody's
cursor; elsewhere the bytes are as they are."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Self

import msgspec

from headrace.cli.exits import usage
from headrace.cli.options import Options
from headrace.cli.output import json_text, printable
from headrace.cli.record_values import text_of
from headrace.cli.speaking.wishes import Done, Heard

FORMS = ("table", "wide", "json", "jsonl")


class Saying:
    """`with Saying(options) as say:`; at the end a list has its bracket. `is_one`: there is one thing to say, and no
    list."""

    def __init__(self, options: Options, *, is_one: bool = False) -> None:
        form = options.output_or()
        if form not in FORMS:
            raise usage(f"-o {form} has no meaning here", "-o jsonl prints one JSON object for each message")
        self._is_json, self._is_quiet = form in ("json", "jsonl"), options.quiet
        self._is_list, self._is_first = form == "json" and not is_one, True
        self._is_terminal = sys.stdout.isatty()
        self.heard = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Who is stopped by Ctrl-C has heard all; who was refused before the first thing has nothing to list."""
        if self._is_list and not (self._is_first and kind is not None and issubclass(kind, Exception)):
            print("[]" if self._is_first else "\n]", flush=True)

    def __call__(self, words: str, told: Heard | Done | None) -> None:
        if isinstance(told, Heard):
            self.heard += 1
        if self._is_json:
            if told is not None and self._is_list:
                print(
                    f"{'[' if self._is_first else ','}\n  {json_text(told)}", end="", flush=True
                )  # whole, or not at all
                self._is_first = False
            elif told is not None:
                print(json_text(told), flush=True)
        elif told is None and self._is_quiet:
            pass
        else:
            print(printable(words) if self._is_terminal else words, flush=True)


def plain(value: Any) -> Any:
    """As JSON can have it: bytes as text where they are text, else as base64."""
    if isinstance(value, bytes | bytearray):
        return text_of(bytes(value))
    if isinstance(value, msgspec.msgpack.Ext):
        return {"ext": value.code, "data": text_of(bytes(value.data))}
    if isinstance(value, dict):
        return {key if isinstance(key, str) else json_text(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
