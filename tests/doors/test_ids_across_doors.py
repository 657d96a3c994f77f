"""One id, published through door after door: stored once, and every publisher is told so in its own protocol."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headrace.records.codec import encode
from headrace.records.record import Record
from headrace.testing.served import ServedBroker
from tests.support import Wire, serving

WINDOW = {"headrace.dedup.window.ms": "600000"}
PUBLISH = 7


@contextlib.contextmanager
def connected(address: str) -> Iterator[socket.socket]:
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        yield connection


def by_lines(broker: ServedBroker, *lines: str) -> list[str]:
    with connected(broker.addresses["lines"]) as connection, connection.makefile("rw", newline="\n") as stream:
        assert stream.readline() == "OK connected\n"
        answers = []
        for line in lines:
            stream.write(line + "\n")
            stream.flush()
            answers.append(stream.readline().rstrip("\n"))
        return answers


def by_http(broker: ServedBroker, topic: str, body: dict[str, Any]) -> dict[str, Any]:
    url = f"http://{broker.addresses['http']}/topics/{topic}/publish"
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as answer:
        found: dict[str, Any] = json.load(answer)
        return found


def by_binary(broker: ServedBroker, body: bytes, **properties: str) -> dict[str, str]:
    block = b"".join(f"{name}={value}".encode() + b"\0" for name, value in properties.items())
    size = 32 + len(block) + len(body)
    frame = struct.pack(">IIQQII", size, PUBLISH, 1, int(time.time() * 1000), len(block), len(body)) + block + body
    with connected(broker.addresses["binary"]) as connection:
        connection.sendall(frame)
        answer = b""
        while len(answer) < 4 or len(answer) < int.from_bytes(answer[:4]):
            answer += connection.recv(65536)
        length = int.from_bytes(answer[24:28])
        pairs = answer[32 : 32 + length].decode().split("\0")[:-1]
        return dict(pair.split("=", 1) for pair in pairs)


def by_kafka(broker: ServedBroker, name: str, value: bytes) -> int:
    record = Record(None, value, (("id", name.encode()),), int(time.time() * 1000))
    with Wire(broker.address) as wire:
        result = wire.produce("t", bytes(encode([record])), acks=-1)
        assert result.error == 0
        return result.base_offset


def stored(broker: ServedBroker) -> list[bytes | None]:
    with Wire(broker.address) as wire:
        return [record.value for record in wire.read_all("t")]


def test_an_id_is_stored_once_whatever_the_doors(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        with Wire(broker.address) as wire:
            wire.create_topic("t", 1, WINDOW)
        assert by_lines(broker, "PUB t --id a first", "PUB t --id b second") == ["OK published"] * 2
        broker.kill()
        broker.start()
        assert by_lines(broker, "PUB t --id a again") == ["OK duplicate"]
        assert by_kafka(broker, "a", b"again") == 0
        answer = by_binary(broker, b"again", topic="t", client_id="c", id="b")
        assert (answer["status"], answer["offset"]) == ("success", "1")
        answer = by_http(broker, "t", {"value": "again", "headers": {"id": "b"}})
        assert answer["offset"] == 1 and answer["duplicate"] is True
        assert by_http(broker, "t", {"value": "third", "headers": {"id": "c"}})["offset"] == 2
        assert by_lines(broker, "PUB t --id c again") == ["OK duplicate"]
        assert stored(broker) == [b"first", b"second", b'"third"']
