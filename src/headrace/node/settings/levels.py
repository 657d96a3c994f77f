"""Log levels by event: `kafka = "debug"` for all events whose name begins so, `kafka.closed = "info"` for one."""

from __future__ import annotations

from headrace.node.logs import LEVEL_OF, LEVELS
from headrace.node.settings.kinds import Kind, Plain
from headrace.node.settings.topics import flat


class Levels(Kind[dict[str, str]]):
    name, metavar = "levels", "EVENT=LEVEL,…"

    takes = "EVENT=LEVEL with commas between, where an event is its whole name or the first word of it"

    def parse(self, raw: object) -> dict[str, str]:
        if isinstance(raw, str):
            parts = [part.partition("=") for part in raw.split(",") if part.strip()]
            raw = {name.strip(): level.strip() for name, _, level in parts}
        if not isinstance(raw, dict):
            raise self.refuse(raw)
        levels = {}
        for name, level in flat(raw):
            if not isinstance(level, str) or level not in LEVELS:
                raise ValueError(f"{name} takes {', '.join(LEVELS)}, not {level!r}")
            if not any(event == name or event.startswith(f"{name}.") for event in LEVEL_OF):
                raise ValueError(f"there is no event {name!r}; events begin with {', '.join(_nouns())}")
            levels[name] = level
        return levels

    def show(self, value: dict[str, str]) -> str:
        return ",".join(f"{name}={level}" for name, level in value.items())

    def plain(self, value: dict[str, str]) -> Plain:
        return dict(value)


def _nouns() -> list[str]:
    return sorted({event.partition(".")[0] for event in LEVEL_OF})
