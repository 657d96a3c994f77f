"""The kinds of pipeline that there are: what each is for, and a file that runs as it stands, to begin with."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    about: str
    sample: str


KINDS: dict[str, Kind] = {
    "archive": Kind(
        "topic to Parquet or Delta, by date, small files made large",
        """\
name = "orders-archive"
servers = "127.0.0.1:9092"

[source]
topic = "orders"
format = "json"
schema = "id string, country string, amount double, at timestamp"

[archive]
path = "archive/orders"
time = "at"
""",
    ),
    "rollup": Kind(
        "event-time windows: count, sum, min, max, mean, quantile, distinct",
        """\
name = "orders-per-minute"
servers = "127.0.0.1:9092"

[source]
topic = "orders"
format = "json"
schema = "id string, country string, amount double, at timestamp"

[rollup]
time = "at"
window = "1 minute"
late = "10 minutes"
by = ["country"]
values = { orders = "count", revenue = "sum(amount)", p95 = "quantile(amount, 0.95)", ids = "distinct(id)" }

[target]
topic = "orders.per-minute"
key = "country"
""",
    ),
    "dedup": Kind(
        "rows once, by an id or key within a time",
        """\
name = "orders-once"
servers = "127.0.0.1:9092"

[source]
topic = "orders"
format = "json"
schema = "id string, country string, amount double, at timestamp"

[dedup]
by = ["id"]
time = "at"
within = "10 minutes"

[target]
topic = "orders.once"
key = "id"
""",
    ),
    "order": Kind(
        "rows in the order of their times, with a bound on how late one may come",
        """\
name = "orders-in-order"
servers = "127.0.0.1:9092"

[source]
topic = "orders"
format = "json"
schema = "id string, country string, amount double, at timestamp"

[order]
time = "at"
late = "10 seconds"
by = ["country"]

[target]
topic = "orders.in-order"
key = "country"
""",
    ),
    "replay": Kind(
        "an archive, or a topic between two times, to a topic, at a rate",
        """\
name = "orders-again"
servers = "127.0.0.1:9092"

[replay]
path = "archive/orders"
time = "at"
since = "2026-01-31T00:00:00Z"
until = "2026-02-01T00:00:00Z"
rate = 1000

[target]
topic = "orders.again"
key = "id"
""",
    ),
    "deadletter": Kind(
        "rows that fail go to a topic with the reason, and the stream goes on",
        """\
name = "orders-checked"
servers = "127.0.0.1:9092"

[source]
topic = "orders"
format = "json"
schema = "id string, country string, amount double, at timestamp"

[deadletter]
topic = "orders.bad"
checks = { "amount is not positive" = "amount > 0", "no id" = "id is not null" }

[target]
topic = "orders.checked"
key = "id"
""",
    ),
}
