"""`binary`: a node with a binary door, which must not have found a fault in itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.doors_binary.running import Running, running


@pytest.fixture
async def binary(tmp_path: Path) -> AsyncIterator[Running]:
    async with running(tmp_path) as found:
        yield found
    assert not found.faults
