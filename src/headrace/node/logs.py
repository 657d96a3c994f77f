"""Structured logs: an event's name and its fields. For people on a terminal, one JSON object a line otherwise.

Names are stable: `noun.what-happened`. They go to standard error; standard output belongs to commands.
"""

from __future__ import annotations

import contextlib
import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import TextIO

LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}

# Every event that there is: what an operator has to act on, should know about, or may want to see.
LEVEL_OF = {
    "door.closed": "debug",
    "door.connections-full": "warning",
    "door.opened": "debug",
    "group.expired": "info",
    "group.generation": "debug",
    "group.not-loaded": "error",
    "kafka.closed": "debug",
    "kafka.connections-full": "warning",
    "kafka.opened": "debug",
    "kafka.slow": "warning",
    "lease.positions-expired": "info",
    "log.compacted": "info",
    "log.damage": "error",
    "log.failed": "error",
    "log.header-damaged": "error",
    "log.many-aborted": "warning",
    "log.not-compacted": "warning",
    "log.not-deleted": "warning",
    "log.not-opened": "error",
    "log.not-read": "warning",
    "log.not-saved": "warning",
    "log.not-synced": "warning",
    "log.snapshot-lost": "error",
    "log.stale": "warning",
    "log.torn": "warning",
    "metadata.not-recovered": "error",
    "msgpack.refused": "warning",
    "native.missing": "warning",
    "node.configured": "info",
    "node.fault": "error",
    "node.fewer-connections": "info",
    "node.not-ready": "warning",
    "node.ready": "info",
    "node.serving": "info",
    "node.settings": "warning",
    "node.stopped": "info",
    "node.stopping": "info",
    "produce.refused": "warning",
    "queue.created": "info",
    "queue.dead": "warning",
    "queue.dropped": "warning",
    "queue.expired": "info",
    "queue.lost": "warning",
    "queue.not-buried": "error",
    "queue.not-loaded": "error",
    "queue.not-opened": "warning",
    "topic.configured": "info",
    "topic.created": "info",
    "topic.deleted": "info",
    "topic.grown": "info",
    "topic.ids-full": "warning",
    "topic.memory-created": "debug",
    "topic.memory-dropped": "debug",
    "topic.not-created": "warning",
    "topic.stray": "warning",
    "topic.trimmed": "info",
    "topic.unreadable": "warning",
    "transaction.ledger-forgotten": "info",
    "transaction.marker-delayed": "warning",
    "transaction.marker-refused": "warning",
    "transaction.not-loaded": "error",
    "transaction.timed-out": "info",
}


class Logs:
    def __init__(
        self, style: str, level: str, out: TextIO | None = None, levels: Mapping[str, str] | None = None
    ) -> None:
        """`levels`: the least level of some events, by name or by what names begin with; the longest that fits."""
        self._out = out or sys.stderr
        human = style == "human" or (style == "auto" and self._out.isatty())
        self._line: Callable[[str, str, dict[str, object]], str] = _human if human else _json
        self._least = LEVELS[level]
        self._levels = {name: LEVELS[least] for name, least in (levels or {}).items()}

    def event(self, name: str, fields: dict[str, object]) -> None:
        """Never an error: a log that cannot be written must not stop what it tells of."""
        level = LEVEL_OF.get(name, "info")
        least = self._least_of(name) if self._levels else self._least
        if LEVELS[level] >= least:
            with contextlib.suppress(OSError, ValueError):
                self._out.write(self._line(level, name, fields) + "\n")
                self._out.flush()

    def levels(self) -> dict[str, str]:
        """The least level of what names begin with; `root` is that of all the others."""
        names = {level: name for name, level in LEVELS.items()}
        nouns = sorted({name.partition(".")[0] for name in LEVEL_OF})
        return {"root": names[self._least]} | {noun: names[self._least_of(noun)] for noun in nouns}

    def set_level(self, name: str, level: str | None) -> None:
        """While the node runs; None: that of `root` again."""
        if level is None:
            self._levels.pop(name, None)
        elif name == "root":
            self._least = LEVELS[level]
        else:
            self._levels[name] = LEVELS[level]

    def _least_of(self, name: str) -> int:
        fitting = [key for key in self._levels if name == key or name.startswith(f"{key}.")]
        return self._levels[max(fitting, key=len)] if fitting else self._least


def _json(level: str, name: str, fields: dict[str, object]) -> str:
    head: dict[str, object] = {"time": _now("%Y-%m-%dT%H:%M:%S"), "level": level, "event": name}
    return json.dumps(head | fields, default=str, ensure_ascii=False)


def _human(level: str, name: str, fields: dict[str, object]) -> str:
    mark = "" if level == "info" else f" {level.upper()}"
    return f"{_now('%H:%M:%S')}{mark} {name} " + " ".join(f"{key}={value}" for key, value in fields.items())


def _now(style: str) -> str:
    seconds = time.time()
    zone = "Z" if "T" in style else ""
    clock = time.gmtime(seconds) if zone else time.localtime(seconds)
    return f"{time.strftime(style, clock)}.{int(seconds % 1 * 1000):03d}{zone}"
