"""A configuration file: TOML, or JSON of the same shape, or JSON in the shape that the binary protocol's own broker had
(broker_json). Sections are the parts of a key before its last dot; `_` and `-` in a key are the same.

Every problem has the file and, where it can be known, the line. A file that does not read at all is one problem; in
one that does, every key is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from headrace.node.settings.setting import TOPIC_DEFAULTS
from headrace.node.settings.sources import Given, Origin, Problem, nearest
from headrace.node.settings.table import BY_KEY, SECTIONS
from headrace.node.settings.topics import flat

PLACES = ("headrace.toml", "headrace.json", "config/broker.json", "/etc/headrace/headrace.toml")
"""Looked at in this order when none is named; the first that exists is read."""

Path = tuple[str, ...]
COARSE_UNIT = re.compile(r"\.(hours|minutes)$")  # of a second name that Kafka has for what it counts in ms
MAX_FILE_BYTES = 1 << 20  # a hundred thousand settings; more is some other file
_AT_LINE = r"\s*\(at line (\d+), column \d+\)$"


class File:
    def __init__(self, path: str) -> None:
        self.path = path
        self._is_json = False
        self._lines: dict[Path, int] = {}

    def read(self, problems: list[Problem]) -> Iterator[Given]:
        text = self._text(problems)
        tree = self._tree(text, problems) if text is not None else None
        if tree is None:
            return
        first: dict[str, Given] = {}
        for given in self._given(tree, problems):
            if (other := first.setdefault(given.key, given)) is not given:
                where = other.origin.where
                problems.append(
                    Problem(given.origin.where, f"{given.key} was given before, at {where}; once is enough")
                )
            else:
                yield given

    def _given(self, tree: Mapping[str, object], problems: list[Problem]) -> Iterator[Given]:
        if self._is_json:
            from headrace.node.settings import broker_json

            if broker_json.is_one(tree):
                return broker_json.read(tree, self.path, self._where, problems)
        return self._walk(tree, (), problems)

    def _text(self, problems: list[Problem]) -> str | None:
        try:
            with open(self.path, "rb") as file:
                raw = file.read(MAX_FILE_BYTES + 1)
            if len(raw) > MAX_FILE_BYTES:
                problems.append(Problem(self.path, f"is over {MAX_FILE_BYTES} bytes: that is no configuration"))
                return None
            return raw.decode("utf-8-sig").replace("\r\n", "\n")
        except OSError as error:
            problems.append(Problem(self.path, f"cannot be read: {error.strerror}"))
        except UnicodeDecodeError as error:
            problems.append(Problem(self.path, f"is not UTF-8 text: {error.reason} at byte {error.start}"))
        return None

    def _tree(self, text: str, problems: list[Problem]) -> Mapping[str, object] | None:
        if self.path.endswith(".json") or text.lstrip().startswith("{"):
            self._is_json = True
            return self._json(text, problems)
        import tomllib  # a node without a file need not wait for these

        from headrace.node.settings.lines import in_toml

        try:
            tree = tomllib.loads(text + "\n")  # or what is wrong with its last line has no line
        except tomllib.TOMLDecodeError as error:
            problems.append(self._broken(str(error), text))
            return None
        except RecursionError:
            problems.append(Problem(self.path, "is nested too deeply"))
            return None
        for path, line in in_toml(text):
            for depth in range(1, len(path) + 1):  # a dotted key makes the sections that it names
                self._lines.setdefault(path[:depth], line)
        return tree

    def _json(self, text: str, problems: list[Problem]) -> Mapping[str, object] | None:
        import json

        from headrace.node.settings.lines import in_json

        try:
            tree = json.loads(text)
        except json.JSONDecodeError as error:
            problems.append(Problem(f"{self.path}:{error.lineno}", f"is not JSON: {error.msg}"))
            return None
        except RecursionError:
            problems.append(Problem(self.path, "is nested too deeply"))
            return None
        if not isinstance(tree, dict):
            problems.append(Problem(self.path, "holds no object; it begins with {"))
            return None
        for path, line in in_json(text):
            if path in self._lines:
                before = f"was given before, at line {self._lines[path]}; once is enough"
                problems.append(Problem(f"{self.path}:{line}", f"{'.'.join(path)} {before}"))
            self._lines[path] = line
        return tree

    def _broken(self, words: str, text: str) -> Problem:
        at = re.search(_AT_LINE, words)
        lines = text.rstrip().split("\n")
        line = int(at[1]) if at else len(lines)  # without one it is the end
        shown = lines[line - 1].strip() if line <= len(lines) else ""
        why = words[: at.start()] if at else words
        if "twice" in why or "overwrite" in why:
            why = "is there already: a key or section is given twice"
        return Problem(f"{self.path}:{line}", f"{why}: {shown!r}")

    def _walk(self, tree: Mapping[str, object], above: Path, problems: list[Problem]) -> Iterator[Given]:
        for name, raw in tree.items():
            path = (*above, name)
            key = canonical(".".join(path))
            where = self._where(path)
            if key in BY_KEY:
                yield Given(key, raw, Origin("file", where))
            elif isinstance(raw, dict) and _is_section(key):
                yield from self._walk(raw, path, problems)
            else:
                problems += (Problem(where, words) for words in _unknown(key, raw))

    def _where(self, path: Path) -> str:
        while path and path not in self._lines:
            path = path[:-1]
        return f"{self.path}:{self._lines[path]}" if path else self.path


def canonical(key: str) -> str:
    return key.replace("_", "-")


def _unknown(key: str, raw: object) -> list[str]:
    if isinstance(raw, dict) and not _is_section(key):
        inside = [f"{key}.{name}" for name, _ in flat(raw)]
        return [unknown(name) for name in inside if by_other_name(name)] or [unknown(key, is_section=True)]
    return [unknown(key)]


def unknown(key: str, is_section: bool = False) -> str:
    """Why there is no such key, and which one was perhaps meant."""
    if _is_section(key):
        inside = [known for known in BY_KEY if known.startswith(f"{key}.")]
        return f"{key} is a section, not a setting; in it are {', '.join(inside[:5])}{' …' if inside[5:] else ''}"
    if is_section:
        near = nearest(key, list(SECTIONS))
        return f"[{key}] is not a section; " + (
            f"did you mean [{near}]?" if near else f"there are {', '.join(SECTIONS)}"
        )
    near = by_other_name(key) or nearest(key, BY_KEY)
    hint = f"; did you mean {near} ({BY_KEY[near].kind.takes})?" if near else "; `headrace config show` lists them all"
    return f"{key} is not a setting{hint}"


def _is_section(key: str) -> bool:
    return any(known.startswith(f"{key}.") for known in BY_KEY)


def by_other_name(key: str) -> str | None:
    """What Kafka calls it, in any unit (log.retention.hours), its flag, or a topic setting that was put elsewhere."""
    as_topics = TOPIC_DEFAULTS + key.removeprefix("topic.").removeprefix("topics.")
    names = {key, COARSE_UNIT.sub(".ms", key)}
    return next((s.key for s in BY_KEY.values() if names & {s.kafka_name, s.flag} or as_topics == s.key), None)
