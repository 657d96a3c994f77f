"""The summary at `/metrics`."""

from __future__ import annotations

from typing import Any

from headrace.doors.http.shapes.base import Shape


class Summary(
    Shape,
    example={
        "broker_id": 0,
        "leases": {"orders|billing": 1760000010.5},
        "owned_topics": ["orders"],
        "gossip": {"from_id": "0", "membership": [], "metadata": {"version": 7, "topics": {"orders": [0]}}},
    },
):
    """`leases`: groups that somebody holds, and when each ends, in seconds since 1970. `owned_topics`: those that this
    node leads. `gossip`: what it would tell another node."""

    broker_id: int
    leases: dict[str, float]
    owned_topics: list[str]
    gossip: dict[str, Any]
