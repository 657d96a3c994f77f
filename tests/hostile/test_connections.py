"""Connections in odd numbers, at odd speeds and in odd order. Files and sockets are given back, others are served."""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from pathlib import Path

import pytest

from headrace.testing.served import ServedBroker
from headrace.wire.kafka import fetch_client, header, messages, produce_client
from tests.support import (
    FETCH_VERSION,
    MIB,
    Bystander,
    Closed,
    Wire,
    batch_of,
    cpu_s,
    fetch_request,
    no_leak,
    open_files,
    serving,
    wait_until,
)

PING = header.question(header.API_VERSIONS, 0, 1, "x", b"")


def test_ten_thousand_quick_connects_are_served_and_leave_nothing(node: ServedBroker) -> None:
    """One third says nothing, one third goes away without its answer, one third stays for it."""
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for turn in range(10_000):
            with Wire(node.address) as wire:
                if turn % 3 == 1:
                    wire.send(PING)
                elif turn % 3 == 2:
                    wire.ping()
        other.assert_undisturbed()


def test_connects_that_end_in_a_reset_leave_nothing(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for turn in range(500):
            wire = Wire(node.address)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if turn % 2:
                wire.send(PING * 3)
            wire.close()
        other.assert_undisturbed()


def test_a_thousand_open_connections_are_all_served(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address), contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(node.address)) for _ in range(1000)]
        for _ in range(2):
            for wire in wires:
                wire.send(PING)
            for wire in wires:
                assert wire.receive_answer(header.API_VERSIONS, 0)[0] == 1


def test_a_request_that_comes_byte_by_byte_is_answered(node: ServedBroker) -> None:
    with Wire(node.address) as wire:
        wire.create_topic("drip")
        for request in (PING, *split_produce("drip", 100)):
            for byte in request:
                wire.send(bytes((byte,)))
        wire.receive()
        wire.receive()
        assert len(wire.read_all("drip")) == 1


def split_produce(topic: str, size: int) -> list[bytes]:
    topics = [(topic, None, [(0, batch_of([b"x" * size]))])]
    return [b"".join(produce_client.encode_request(9, 2, "x", None, 1, 1000, topics))]


@pytest.mark.parametrize("step", [1000, 16_380, 65_536, 300_000])
def test_large_requests_in_pieces_of_any_size_arrive_whole(node: ServedBroker, step: int) -> None:
    topic = f"pieces-{step}"
    with Wire(node.address) as wire:
        wire.create_topic(topic, configs={"max.message.bytes": str(8 * MIB)})
        sizes = [100, 20_000, 900_000, 10, 5 * MIB, 16_000, 17_000, 70_000]
        stream = b"".join(piece for size in sizes for piece in split_produce(topic, size))
        for at in range(0, len(stream), step):
            wire.send(stream[at : at + step])
        assert [wire.receive_produced()[1].base_offset for _ in sizes] == list(range(len(sizes)))
        assert [len(record.value or b"") for record in wire.read_all(topic)] == sizes


def test_five_thousand_pipelined_fetches_are_answered_in_order(node: ServedBroker) -> None:
    with Wire(node.address) as wire, Bystander(node.address) as other:
        wire.create_topic("pipelined")
        wire.produce("pipelined", batch_of([b"x" * 1000]))
        asked = [wire.send_fetch("pipelined", {0: 0}) for _ in range(5_000)]
        for expected in asked:
            answered, (fetched,) = wire.receive_fetched()
            assert (answered, fetched.error, fetched.high_watermark) == (expected, 0, 1)
            assert fetched.size > 1000
        other.assert_undisturbed()


def test_many_requests_behind_one_that_waits_are_answered_after_it_in_order(node: ServedBroker) -> None:
    with Wire(node.address) as wire, Bystander(node.address) as other:
        wire.create_topic("waits")
        first = wire.send_fetch("waits", {0: 0}, max_wait_ms=1500)
        begin = time.monotonic()
        asked = [wire.next_id() for _ in range(3_000)]
        wire.send(*(header.question(header.API_VERSIONS, 0, one, "x", b"") for one in asked))
        assert wire.receive_fetched()[0] == first
        assert time.monotonic() - begin > 1.4
        assert [wire.receive_answer(header.API_VERSIONS, 0)[0] for _ in asked] == asked
        other.assert_undisturbed()


def test_a_large_request_behind_one_that_waits_is_read_to_its_end(node: ServedBroker) -> None:
    """The first opens the log of a new topic, or waits for records; the second has come only in part by then."""
    with Wire(node.address) as wire:
        for round_ in range(20):
            topic = f"behind-{round_}"
            wire.create_topic(topic)
            batch = batch_of([b"x" * 900_000])
            first, second = wire.send_produce(topic, batch_of([b"small"])), wire.send_produce(topic, batch)
            assert [wire.receive_produced()[0], wire.receive_produced()[0]] == [first, second]
        poll = wire.send_fetch(topic, {0: 2}, max_wait_ms=300)
        third = wire.send_produce(topic, batch)
        assert wire.receive_fetched()[0] == poll
        assert wire.receive_produced()[0] == third


def test_a_large_request_behind_answers_that_pile_up_is_read_to_its_end(node: ServedBroker) -> None:
    with Wire(node.address, receive_bytes=4096) as wire:
        wire.create_topic("piled")
        batch = batch_of([b"x" * 900_000])
        for _ in range(16):
            wire.produce("piled", batch)
        poll = fetch_client.encode_request(FETCH_VERSION, 1, "x", fetch_request("piled", {0: 0}))
        begun = split_produce("piled", 900_000)[0]
        wire.send(poll, begun[:100_000])
        time.sleep(0.5)
        assert wire.receive_fetched()[0] == 1
        wire.send(begun[100_000:])
        assert wire.receive_produced()[1].base_offset == 16


def test_a_long_poll_is_not_mistaken_for_a_stalled_request(tmp_path: Path) -> None:
    """Half of a request in our buffer is a stall only when it is the client that we wait for."""
    with serving(tmp_path, "--stall-ms", "1000") as node:
        with Wire(node.address) as wire:
            wire.create_topic("poll")
            poll = fetch_request("poll", {0: 0}, max_wait_ms=4000)
            wire.send(fetch_client.encode_request(FETCH_VERSION, 7, "x", poll), PING)
            assert wire.receive_fetched()[0] == 7
            wire.receive()
            wire.ping()
        with Wire(node.address) as wire:
            wire.send(fetch_client.encode_request(FETCH_VERSION, 7, "x", poll), PING[:2])
            time.sleep(0.3)
            wire.send(PING[2:-3])  # which is not read before the poll is over
            assert wire.receive_fetched()[0] == 7
            wire.send(PING[-3:])
            wire.receive()
            wire.ping()
        with Wire(node.address) as wire:
            wire.send(PING[:-3])
            assert wire.is_closed(5.0), "a request that does not go on is kept for ever"
        with Wire(node.address) as wire:
            wire.send(struct.pack(">i", 50 * MIB) + bytes(100))
            assert wire.is_closed(5.0), "a large request that does not go on is kept for ever"


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(tmp_path: Path) -> None:
    with (
        serving(tmp_path, "--idle-ms", "1500") as node,
        Wire(node.address) as idle,
        Wire(node.address) as busy,
        Wire(node.address) as polling,
    ):
        busy.create_topic("idle")
        idle.ping()
        asked = polling.send_fetch("idle", {0: 0}, max_wait_ms=5000)
        for _ in range(8):
            time.sleep(0.5)
            busy.ping()
        assert idle.is_closed(0.1)
        assert polling.receive_fetched()[0] == asked, "who waits for us is not idle"


def test_past_the_limit_a_connection_is_closed_at_once_and_those_before_it_are_served(tmp_path: Path) -> None:
    with serving(tmp_path, "--max-connections", "20") as node:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(node.address)) for _ in range(20)]
            for wire in wires:
                wire.ping()
            for _ in range(50):
                with Wire(node.address) as refused:
                    assert refused.is_closed()
            for wire in wires:
                wire.ping()
            assert node.log().count("kafka.connections-full") == 1, "one line says it, not one for each"
            wires[0].close()
            wait_until(lambda: can_ping(node.address))
        wait_until(lambda: can_ping(node.address))


def can_ping(address: str) -> bool:
    with contextlib.suppress(Closed), Wire(address) as wire:
        wire.ping()
        return True
    return False


def test_a_half_closed_client_gets_the_answer_it_earned(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address):
        for _ in range(50):
            with Wire(node.address) as wire:
                wire.send(PING)
                wire.socket.shutdown(socket.SHUT_WR)
                assert wire.receive_answer(header.API_VERSIONS, 0)[0] == 1
                assert wire.is_closed()


def test_clients_that_leave_in_the_middle_of_a_long_poll_leave_nothing(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        with Wire(node.address) as wire:
            wire.create_topic("left")
        for _ in range(300):
            with Wire(node.address) as wire:
                wire.send_fetch("left", {0: 0}, max_wait_ms=1500)
        other.assert_undisturbed()


def test_clients_that_leave_before_their_sync_leave_nothing(node: ServedBroker) -> None:
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        with Wire(node.address) as wire:
            wire.create_topic("unsynced")
        for _ in range(300):
            with Wire(node.address) as wire:
                for _ in range(3):
                    wire.send_produce("unsynced", batch_of([b"x"]), acks=-1)
        other.assert_undisturbed()
        with Wire(node.address) as wire:
            records = wire.read_all("unsynced")
            assert [record.offset for record in records] == list(range(len(records)))


def test_clients_that_leave_while_their_topic_is_made_leave_nothing(node: ServedBroker) -> None:
    schema = messages.schema("request", header.METADATA, 4)
    with no_leak(node.pid, node.address), Bystander(node.address) as other:
        for turn in range(100):
            asked = schema.MetadataRequestTopic(name=f"made-{turn}")
            request = schema.MetadataRequest(topics=(asked,), allow_auto_topic_creation=True)
            with Wire(node.address) as wire:
                wire.send(messages.encode_request(request, 1, "x"))
        other.assert_undisturbed()
    with Wire(node.address) as wire:
        assert wire.read_all("made-99") == []


def test_an_idle_node_with_idle_connections_costs_next_to_nothing(node: ServedBroker) -> None:
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(node.address)) for _ in range(300)]
        for wire in wires:
            wire.ping()
        polling = stack.enter_context(Wire(node.address))
        polling.create_topic("quiet")
        polling.send_fetch("quiet", {0: 0}, max_wait_ms=2000)
        before, files = cpu_s(node.pid), open_files(node.pid)
        time.sleep(2)
        assert cpu_s(node.pid) - before < 0.4, "something spins"
        assert open_files(node.pid) <= files
