"""What the door says of itself every ten seconds."""

from __future__ import annotations

import struct

from headrace.testing.broker import Broker
from tests.doors_msgpack.kit import Raw, publish, subscribe, text

PREFIX = "!system/metrics/"
FLOAT = b"\xcb"


def next_metric(client: Raw) -> tuple[str, int | float]:
    """One delivery, read by hand: names and numbers are short."""
    assert client.exactly(1) == b"\x92"
    first = client.exactly(1)[0]
    size = client.exactly(1)[0] if first == 0xD9 else first & 0x1F
    name = client.exactly(size).decode()
    assert name.startswith(PREFIX)
    kind = client.exactly(1)
    if kind == FLOAT:
        return name.removeprefix(PREFIX), struct.unpack(">d", client.exactly(8))[0]
    longer = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(kind[0])
    return name.removeprefix(PREFIX), kind[0] if longer is None else int.from_bytes(client.exactly(longer), "big")


def test_metrics_come_every_ten_seconds_and_count_what_happened() -> None:
    with Broker() as broker:
        address = broker.addresses["msgpack"]
        with Raw(address) as watcher, Raw(address) as client, Raw(address) as everything:
            everything.send(subscribe("*"))
            everything.in_order()
            watcher.send(subscribe(PREFIX + "*"))
            watcher.in_order()
            client.send(subscribe("x"), subscribe("?"), b"".join(publish("x", b"\x01") for _ in range(600)))
            watcher.socket.settimeout(15)
            first = dict(next_metric(watcher) for _ in range(5))
            assert first["connections"] == 3
            assert first["commands"] == 610
            assert first["messages-sent"] == 1202
            assert abs(first["commands-per-second"] - 61) < 3
            assert abs(first["messages-sent-per-second"] - 120) < 6
            assert all(isinstance(first[name], float) for name in first if name.endswith("-per-second"))
            second = dict(next_metric(watcher) for _ in range(5))
            assert second["commands"] == 0
            assert second["messages-sent"] == 5, "those of the last time"
            everything.exactly(600 * len(b"\x92\xa1x\x01"))
            everything.expect_nothing()
        assert all(name.startswith(PREFIX) or not name.startswith("!system/") for name in broker.topics())


def test_nothing_is_published_that_nobody_wants() -> None:
    with Broker() as broker:
        with Raw(broker.addresses["msgpack"]) as client:
            client.send(subscribe("*"), publish("seen", text("x")))
            assert not client.is_silent(5)
            client.exactly(len(b"\x92" + text("seen") + text("x")))
            assert client.is_silent(10.5)
        assert list(broker.topics()) == ["seen"]
