"""One node with all six doors open."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.matrix.ports import DOORS, KINDS
from tests.support import ServedBroker, serving


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    flags = [part for door in DOORS[1:] for part in (f"--{door}", "127.0.0.1:0")]
    with serving(tmp_path_factory.mktemp("node"), *flags) as broker:
        yield broker


@pytest.fixture(scope="module")
def doors(node: ServedBroker) -> dict[str, Any]:
    return {door: kind(node.addresses[door]) for door, kind in KINDS.items()}
