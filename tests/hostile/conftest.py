"""A node for each file of tests, with small budgets."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.served import ServedBroker
from tests.support import serving

# Small enough that a test can reach them.
UNSENT_BYTES = 64 << 20
REQUEST_MEMORY_BYTES = 64 << 20
TAIL_BYTES = 1 << 20  # so that old records are read from files


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    limits = {
        "--unsent-bytes": UNSENT_BYTES,
        "--request-memory-bytes": REQUEST_MEMORY_BYTES,
        "--tail-memory-bytes": TAIL_BYTES,
    }
    flags = [text for flag, value in limits.items() for text in (flag, str(value))]
    with serving(tmp_path_factory.mktemp("node"), *flags) as broker:
        yield broker
