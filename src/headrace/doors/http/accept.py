"""The Accept header: how much a client would like an answer to be of a type."""

from __future__ import annotations

PLAIN = "text/plain"
OPENMETRICS = "application/openmetrics-text"
MAX_RANGES = 50  # of one header that are looked at


class Accept:
    def __init__(self, header: str) -> None:
        self._ranks: dict[str, float] = {}
        for part in header.split(",")[:MAX_RANGES]:
            name, *parameters = (piece.strip() for piece in part.split(";"))
            if name:
                self._ranks[name.lower()] = max(_quality(parameters), self._ranks.get(name.lower(), 0.0))

    def rank(self, name: str) -> float:
        """0 for what is not named as such: a wildcard is no wish for this type."""
        return self._ranks.get(name, 0.0)


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                return min(1.0, max(0.0, float(value)))
            except ValueError:
                return 0.0
    return 1.0
