"""A node and one who asks it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest_asyncio

from tests.doors.asking import Asker, asking, create


@pytest_asyncio.fixture
async def asker(tmp_path: Path) -> AsyncIterator[Asker]:
    async with asking(tmp_path) as one:
        await create(one, "t", partitions=2)
        yield one
