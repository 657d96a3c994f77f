"""Orders to try the pipelines on: one a second of their own time, from ten minutes before midnight, so that an archive
has two dates. Some come a little late, some twice, some make no sense.

    python examples/orders.py 127.0.0.1:9092
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import headrace
from headrace.errors import HeadraceError

BEGAN: Final = datetime(2026, 1, 31, 23, 50, tzinfo=UTC)
COUNT: Final = 1200
TOPIC: Final = "orders"

Order = dict[str, Any]


def orders(count: int = COUNT) -> Iterator[Order]:
    """The same at every call."""
    chance = random.Random(7)
    for number in range(count):
        second = max(0, number - chance.choice([0, 0, 0, 1, 2, 5]))
        yield {
            "id": f"{number - (number % 10 == 9)}",
            "country": chance.choice(["ch", "ch", "de", "fr"]),
            "amount": round(chance.lognormvariate(3, 0.6), 2) * (-1 if number % 97 == 0 else 1),
            "at": (BEGAN + timedelta(seconds=second)).isoformat(),
        }


def last() -> Order:
    """A day later: with it, whatever waited for late orders before it waits no longer."""
    return {"id": "last", "country": "ch", "amount": 1.0, "at": (BEGAN + timedelta(days=1)).isoformat()}


def send(servers: str, some: Iterable[Order], topic: str = TOPIC) -> int:
    """How many there were."""
    count = 0
    with headrace.connect(servers) as client, client.producer() as producer:
        for order in some:
            producer.send(topic, json.dumps(order).encode())
            count += 1
    return count


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:9092"
    try:
        sent = send(where, [*orders(), last()])
    except HeadraceError as error:
        sys.exit(f"orders.py: {error}")
    print(f"sent {sent:,} orders to {TOPIC} at {where}")
