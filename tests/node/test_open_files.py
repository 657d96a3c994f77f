"""How many files a node may have open: what the system gives, also where it says one thing and means another."""

from __future__ import annotations

import resource

import pytest

from headrace.cli import serve

UNLIMITED = (1 << 63) - 1


class System:
    """Takes limits up to `most`, as macOS does though its hard limit says that there is none."""

    def __init__(self, soft: int, hard: int, most: int) -> None:
        self.soft, self.hard, self.most = soft, hard, most

    def getrlimit(self, _: int) -> tuple[int, int]:
        return self.soft, self.hard

    def setrlimit(self, _: int, limits: tuple[int, int]) -> None:
        if limits[0] > self.most or limits[1] != self.hard:
            raise ValueError("current limit exceeds maximum limit")
        self.soft = limits[0]


@pytest.mark.parametrize(
    ("system", "most"),
    [
        (System(1024, 524_288, UNLIMITED), 524_288),
        (System(4096, 4096, UNLIMITED), 4096),
        (System(256, UNLIMITED, 10_240), 10_240),
        (System(256, UNLIMITED, 245_760), 65_536),
        (System(256, UNLIMITED, 256), 256),
        (System(20_000, UNLIMITED, 15_000), 20_000),
    ],
)
def test_the_most_that_the_system_takes(monkeypatch: pytest.MonkeyPatch, system: System, most: int) -> None:
    monkeypatch.setattr(resource, "getrlimit", system.getrlimit)
    monkeypatch.setattr(resource, "setrlimit", system.setrlimit)
    assert serve._most_files() == most
    assert system.soft == most
