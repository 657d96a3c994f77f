"""Keys as large as a message may be, and larger."""

from __future__ import annotations

from headrace.records.record import Record
from tests.broker.kit import Node, published

MIB = 1 << 20


async def test_a_record_whose_key_is_over_the_limit_is_refused_and_those_beside_it_are_taken() -> None:
    node = Node()
    await node.topic("t", partitions=3)
    keys = (b"short", bytes(4 * MIB), bytes(MIB // 2))
    told = await published(node, "t", *(Record(key, b"v") for key in keys))
    assert sorted(type(one).__name__ for one in told) == ["MessageTooLarge", "Published", "Published"]
