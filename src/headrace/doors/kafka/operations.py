"""What a client may do, in the bits of Kafka's AclOperation codes. Nobody is refused anything yet."""

from __future__ import annotations

from typing import Final

from headrace.wire.kafka.metadata import NOT_ASKED

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "NOT_ASKED", "TOPIC_OPERATIONS"]

TOPIC_OPERATIONS: Final = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
GROUP_OPERATIONS: Final = sum(1 << code for code in (3, 6, 8, 10, 11))
