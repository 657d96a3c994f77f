"""A node for each file of tests. Whatever it had to endure, it must not have found a fault in itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.testing.served import ServedBroker

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
    with ServedBroker(tmp_path_factory.mktemp("node"), *flags) as broker:
        yield broker
        assert broker.stop() == 0
        broker.start()
    assert_no_fault(broker)


def assert_no_fault(broker: ServedBroker) -> None:
    log = broker.log()
    assert "node.fault" not in log and "Traceback" not in log, log[-5000:]
