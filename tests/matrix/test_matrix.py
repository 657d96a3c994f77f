"""What is published through each door is read through each: text, JSON and binary, small and at what every topic takes
by default. The largest of each door: test_largest.py."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import headrace
from tests.matrix import ports
from tests.matrix.ports import DOORS, KINDS
from tests.support import ServedBroker, serving

LARGE = 1_000_000  # the default max.message.bytes, with room for what frames a value at each door
LINE = 65_000  # of the 64 KiB that a line may have
COMMAND = 999_900  # of the million bytes that a command of msgpack may have
TEXT = 'Grüezi, "Welt" \\ \U0001f30d'
DOCUMENT: dict[str, Any] = {"id": 7, "tags": ["a", "ü"], "none": None, "deep": {"x": 0.5}}
BINARY = bytes(range(256))


def own(door: str, size: int) -> list[Any]:
    """Values as users of the door have them: text, JSON, bytes where it carries them, and a large one."""
    text = json.dumps(DOCUMENT, ensure_ascii=False)
    match door:
        case "kafka" | "binary":
            return [TEXT.encode(), text.encode(), BINARY, b"\n\r\\", bytes(size)]
        case "lines":
            return [TEXT, text, "x" * size]
        case "json" | "http":
            return [TEXT, DOCUMENT, [1, None, True], 0, "", "x" * (size - 2)]
        case _:
            return [
                ports.packed_text(TEXT.encode()),
                b"\xc3",
                b"\x81\xa1a\x01",
                ports.packed_bytes(BINARY),
                ports.packed_bytes(bytes(size)),
            ]


@pytest.mark.parametrize("into", DOORS)
def test_what_enters_through_one_door_is_read_through_every_other(into: str, doors: dict[str, Any]) -> None:
    topic = f"from-{into}"
    status, answer = doors["http"].ask("POST", f"/admin/topics?name={topic}&rf=1")
    assert status == 200, answer
    values = own(into, {"lines": LINE, "msgpack": COMMAND}.get(into, LARGE))
    stored = [doors[into].stored(value) for value in values]
    with ExitStack() as open_:
        readers = {door: open_.enter_context(port.reader(topic)) for door, port in doors.items()}
        for value in values:
            doors[into].publish(topic, value)
        for door, reader in readers.items():
            expected = [doors[door].shown(one, into) for one in stored]
            found = reader.expected(expected) if door == "msgpack" else reader.values(len(expected))
            assert len(found) == len(expected), f"{into} to {door}"
            for place, (got, wanted) in enumerate(zip(found, expected, strict=True)):
                assert got == wanted, f"{into} to {door}, value {place}: {str(got)[:100]} and not {str(wanted)[:100]}"


def test_a_topic_in_memory_is_read_through_every_door(doors: dict[str, Any]) -> None:
    """Who follows gets what comes; who can ask for what was before gets that, too."""
    value = ports.packed_text(b"hello")
    stored = doors["msgpack"].stored(value)
    shown = {door: doors[door].shown(stored, "msgpack") for door in DOORS}
    with ExitStack() as open_:
        following = {door: open_.enter_context(doors[door].reader("soft")) for door in ("lines", "msgpack")}
        doors["msgpack"].publish("soft", value)
        assert following["lines"].values(1) == [shown["lines"]]
        assert following["msgpack"].expected([stored]) == [stored]
    found = {"lines": [shown["lines"]], "msgpack": [stored]}
    for door in ("kafka", "binary", "json"):
        with doors[door].reader("soft") as reader:
            found[door] = reader.values(1)
    status, page = doors["http"].ask("GET", "/topics/soft/records?limit=10")
    assert status == 200, page
    found["http"] = [record["value"] for record in page["records"]]
    assert found == {door: [shown[door]] for door in DOORS}


@pytest.mark.parametrize("into", DOORS)
def test_a_topic_in_memory_takes_what_every_door_writes_and_shows_it_through_every_other(
    into: str, doors: dict[str, Any]
) -> None:
    topic, value = f"soft-{into}", own(into, 100)[0]
    doors["msgpack"].publish(topic, ports.packed_text(b"first"))  # which makes it
    with ExitStack() as open_:
        following = {door: open_.enter_context(doors[door].reader(topic)) for door in ("lines", "msgpack")}
        doors[into].publish(topic, value)
        stored = doors[into].stored(value)
        shown = {door: doors[door].shown(stored, into) for door in DOORS}
        found = {"lines": following["lines"].values(1), "msgpack": following["msgpack"].expected([shown["msgpack"]])}
        for door in ("kafka", "binary", "json"):
            found[door] = open_.enter_context(doors[door].reader(topic)).values(2)[1:]
    status, page = doors["http"].ask("GET", f"/topics/{topic}/records?limit=10")
    assert status == 200, page
    found["http"] = [record["value"] for record in page["records"]][1:]
    assert found == {door: [shown[door]] for door in DOORS}


def test_a_name_that_kafka_cannot_spell_is_served_to_who_asks_for_it(node: ServedBroker, doors: dict[str, Any]) -> None:
    """As people name topics of the other doors, with a slash; everybody else sees it in base32."""
    doors["lines"].publish("sensors/hall", "21.5")
    with headrace.connect(node.addresses["kafka"]) as client:
        with client.producer() as producer:
            producer.send("sensors/hall", "22.0")
        with client.consumer("sensors/hall", follow=False) as consumer:
            assert [record.value for record in consumer] == [b"21.5", b"22.0"]
        assert client.admin.topic("sensors/hall").partitions
        client.admin.delete_topic("sensors/hall")


def test_the_log_has_what_the_doors_wrote_after_a_kill(tmp_path: Path) -> None:
    """Of every door whose answer says that it is kept."""
    flags = [part for door in DOORS[1:] for part in (f"--{door}", "127.0.0.1:0")]
    with serving(tmp_path, *flags) as broker:
        port: Any
        for door in ("kafka", "binary", "lines", "json", "http"):
            port = KINDS[door](broker.addresses[door])
            if door in ("binary", "http"):  # which make no topics by themselves
                KINDS["http"](broker.addresses["http"]).ask("POST", f"/admin/topics?name=kept-{door}&rf=1")
            port.publish(f"kept-{door}", own(door, 100)[0])
        broker.kill()
        broker.start()
        for door in ("kafka", "binary", "lines", "json", "http"):
            port = KINDS[door](broker.addresses[door])
            stored = port.stored(own(door, 100)[0])
            with KINDS["kafka"](broker.addresses["kafka"]).reader(f"kept-{door}") as reader:
                assert reader.values(1) == [stored]
