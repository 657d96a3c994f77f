"""The largest message of each door, to the byte, read through each; one byte more gets the door's own answer, is stored
nowhere and harms nobody else. The same of the largest message of a topic."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import pytest

from headrace.compat import BrokerClient, LineClient
from headrace.compat.line_values import Inbox, LineRefused
from tests.matrix import largest, ports
from tests.matrix.ports import DOORS
from tests.matrix.test_refusals import refused, topic
from tests.support import ServedBroker

TOPIC_BYTES = 20_000


@pytest.mark.parametrize("into", DOORS)
def test_the_largest_message_of_a_door_is_read_through_every_other_and_one_byte_more_is_not_stored(
    into: str, node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, f"largest-{into}", **{"max.message.bytes": str(largest.TOPIC_BYTES)})
    sent = largest.message(into, name)
    with ExitStack() as open_:
        readers = {door: open_.enter_context(port.reader(name)) for door, port in doors.items()}
        with ports.connect(node.addresses[into]) as link:
            link.sendall(sent.data)
            assert largest.answer(into, link) == largest.stored(into, name)
        for door, reader in readers.items():
            expected = doors[door].shown(sent.stored, into)
            [found] = reader.expected([expected]) if door == "msgpack" else reader.values(1)
            is_same = found == expected  # and too long to be shown when it is not
            assert is_same, f"{into} to {door}"
        with ports.connect(node.addresses[into]) as link:
            assert largest.said_to_more(into, name, sent, link) == largest.OVER[into]
        doors["kafka"].publish(name, b"last")
        for door, reader in readers.items():  # those who read are there still, and the next message is this one
            expected = doors[door].shown(b"last", "kafka")
            [found] = reader.expected([expected]) if door == "msgpack" else reader.values(1)
            assert found == expected, f"{into} to {door}"


@pytest.mark.parametrize("into", DOORS)
def test_a_message_of_exactly_what_a_topic_takes_is_stored_and_one_byte_more_refused_alone(
    into: str, node: ServedBroker, doors: dict[str, Any]
) -> None:
    name = topic(node, f"exactly-{into}", **{"max.message.bytes": str(TOPIC_BYTES)})
    over, fits = (largest.of_content(into, name, TOPIC_BYTES + more) for more in (1, 0))
    before = refused(node)
    with ExitStack() as open_:
        link = open_.enter_context(ports.connect(node.addresses[into]))
        link.sendall(over.data)
        assert largest.answer(into, link) == largest.refused(into, over, TOPIC_BYTES)
        if into == "json":  # of which each request has its connection
            link = open_.enter_context(ports.connect(node.addresses[into]))
        link.sendall(fits.data)
        assert largest.answer(into, link) == largest.stored(into, name)
        with doors["kafka"].reader(name) as reader:
            assert reader.values(1) == [fits.stored]
        if into == "msgpack":
            assert refused(node) == before + 1


def test_our_clients_of_lines_and_binary_read_the_largest_message_of_all(node: ServedBroker) -> None:
    name = topic(node, "largest-of-all", **{"max.message.bytes": str(largest.TOPIC_BYTES)})
    sent = largest.message("kafka", name)
    with ports.connect(node.addresses["kafka"]) as link:
        link.sendall(sent.data)
        assert largest.answer("kafka", link) == largest.stored("kafka", name)
    with BrokerClient(*_place(node, "binary"), timeout=ports.LIMIT_S) as binary:
        [message] = binary.history(name, 1)
        assert len(message.body) == len(sent.stored)
    with LineClient(*_place(node, "lines"), timeout=ports.LIMIT_S) as lines:
        [line] = lines.history(name, 1)
        assert len(line.text) == len(sent.stored)


def test_a_line_that_our_client_cannot_hold_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.compat.line_values.MAX_RECEIVED_LINE", 100)
    inbox = Inbox()
    inbox.take(b"OK connected\nMSG t id 1 1.5 ")
    assert len(inbox.replies) == 1
    with pytest.raises(LineRefused, match="a line of more than 100 bytes came"):
        inbox.take(b"x" * 100)


def _place(node: ServedBroker, door: str) -> tuple[str, int]:
    host, _, port = node.addresses[door].rpartition(":")
    return host, int(port)
