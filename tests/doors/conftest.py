"""A node and one who asks it, for every test of the door that wants them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.doors.asking import Asker, asking


@pytest_asyncio.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as one:
        yield one
