"""Memory is bounded by the node's own limits, whatever strangers claim, send or refuse to take; and the bound is not
a wall for others.

The node of these tests has small budgets (see conftest). What may come on top of a budget: the tails of the logs, the
allocator's own habits, and the buffers of the test's ordinary client.
"""

from __future__ import annotations

import contextlib
import struct
import time

import pytest

from headrace.testing.served import ServedBroker
from headrace.wire.kafka import fetch_client, header, metadata
from headrace.wire.kafka.fetch import FetchRequest
from headrace.wire.kafka.primitives import array, string
from tests.hostile.conftest import REQUEST_MEMORY_BYTES, UNSENT_BYTES
from tests.support import (
    FETCH_VERSION,
    MIB,
    Bystander,
    Closed,
    Peak,
    Wire,
    batch_of,
    fetch_request,
    no_leak,
    rss_bytes,
    wait_until,
)

BESIDES_BYTES = 64 * MIB
BATCH = batch_of([b"x" * 1_000_000])
OLD_BYTES = 100 * MIB


@pytest.fixture(scope="module")
def old_topic(node: ServedBroker) -> str:
    """A topic of which only the end is in the node's memory."""
    with Wire(node.address) as wire:
        wire.create_topic("old")
        for _ in range(OLD_BYTES // len(BATCH)):
            assert wire.produce("old", BATCH).error == 0
    return "old"


def test_claims_of_a_hundred_mebibytes_that_are_never_sent_cost_nothing(node: ServedBroker) -> None:
    with (
        no_leak(node.pid, node.address),
        Bystander(node.address, MIB - 1000) as other,
        Peak(node.pid) as peak,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(200):
            wire = stack.enter_context(Wire(node.address))
            wire.send(struct.pack(">i", 100 * MIB) + bytes(1000))
        time.sleep(1)
        other.assert_undisturbed()
    assert peak.grown_bytes < BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_many_claims_of_a_usual_megabyte_leave_room_for_those_who_send_one(node: ServedBroker) -> None:
    with (
        no_leak(node.pid, node.address),
        Bystander(node.address, MIB - 1000) as other,
        Peak(node.pid) as peak,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(500):
            wire = stack.enter_context(Wire(node.address))
            wire.send(struct.pack(">i", MIB) + bytes(20_000))
        time.sleep(1)
        other.assert_undisturbed()
    assert peak.grown_bytes < REQUEST_MEMORY_BYTES + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_requests_that_are_sent_for_real_share_a_budget_and_all_are_served(node: ServedBroker) -> None:
    """Twelve requests of 20 MiB each come side by side: almost four times the budget."""
    size, clients = 20 * MIB, 12
    with no_leak(node.pid, node.address), Bystander(node.address) as other, Peak(node.pid) as peak:
        with contextlib.ExitStack() as stack:
            wires = [stack.enter_context(Wire(node.address)) for _ in range(clients)]
            for wire in wires:
                wire.socket.setblocking(False)
            head = header.request_header(header.LIST_OFFSETS, 1, 1, "x")
            left = {wire: memoryview(struct.pack(">i", size) + head + bytes(size - len(head))) for wire in wires}
            deadline = time.monotonic() + 60
            while left and time.monotonic() < deadline:
                for wire in list(left):
                    try:
                        left[wire] = left[wire][wire.socket.send(left[wire][: 1 << 18]) :]
                    except BlockingIOError:
                        continue
                    if not left[wire]:
                        del left[wire]
            assert not left, "a request was never read to its end"
            for wire in wires:  # a request of nothing but zeros is none
                wire.socket.setblocking(True)
                assert wire.is_closed()
        other.assert_undisturbed()
    assert peak.grown_bytes < REQUEST_MEMORY_BYTES + size + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_a_request_of_a_hundred_mebibytes_of_names_is_refused_quickly(node: ServedBroker) -> None:
    """A byte on the wire may become a hundred in memory, and seconds on the loop."""
    body = struct.pack(">i", 40 * MIB) + bytes(80 * MIB)
    with no_leak(node.pid, node.address), Bystander(node.address) as other, Peak(node.pid) as peak:
        with Wire(node.address) as wire:
            with contextlib.suppress(Closed):
                wire.send(header.question(header.METADATA, 1, 1, "x", body))
            assert wire.is_closed()
        other.assert_undisturbed()
    assert peak.grown_bytes < 2 * len(body) + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_slow_writers_hold_little_and_nobody_up(node: ServedBroker) -> None:
    """A byte now and then, of a request that claims to be large."""
    with (
        no_leak(node.pid, node.address),
        Bystander(node.address, MIB - 1000) as other,
        Peak(node.pid) as peak,
        contextlib.ExitStack() as stack,
    ):
        wires = [stack.enter_context(Wire(node.address)) for _ in range(300)]
        for wire in wires:
            wire.send(struct.pack(">i", 90 * MIB) + bytes(100))
        for _ in range(5):
            time.sleep(0.4)
            for wire in wires:
                wire.send(b"\0")
        other.assert_undisturbed()
    assert peak.grown_bytes < BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_readers_that_never_read_hold_the_budget_and_no_more_and_others_read_on(
    node: ServedBroker, old_topic: str
) -> None:
    with no_leak(node.pid, node.address), Peak(node.pid) as peak, contextlib.ExitStack() as stack:
        for turn in range(60):
            wire = stack.enter_context(Wire(node.address, receive_bytes=4096))
            wire.send_fetch(old_topic, {0: turn})
        time.sleep(0.5)
        with Bystander(node.address) as other:
            other.assert_undisturbed()
        with Wire(node.address) as wire:
            offset = 0
            while offset < 20:
                fetched = wire.fetch(old_topic, offset)
                assert fetched.error == 0
                assert fetched.size >= len(BATCH), "a quick reader of old records is held up by the slow ones"
                offset += fetched.size // len(BATCH)
    assert peak.grown_bytes < 2 * UNSENT_BYTES + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_readers_that_never_read_are_closed_when_their_memory_is_needed(node: ServedBroker, old_topic: str) -> None:
    with no_leak(node.pid, node.address), contextlib.ExitStack() as stack:
        before = rss_bytes(node.pid)
        for turn in range(20):
            wire = stack.enter_context(Wire(node.address, receive_bytes=4096))
            wire.send_fetch(old_topic, {0: turn})
        wait_until(lambda: rss_bytes(node.pid) < before + UNSENT_BYTES + BESIDES_BYTES, 15)
        with Wire(node.address) as quick:
            deadline = time.monotonic() + 15
            while quick.fetch(old_topic, 0).size < 4 * len(BATCH):
                assert time.monotonic() < deadline, "the slow ones still hold everything"
                time.sleep(0.2)


def test_a_thousand_large_fetches_in_one_write_are_made_one_after_the_other(node: ServedBroker, old_topic: str) -> None:
    one = fetch_client.encode_request(FETCH_VERSION, 1, "x", fetch_request(old_topic, {0: 0}))
    with (
        no_leak(node.pid, node.address),
        Bystander(node.address) as other,
        Peak(node.pid) as peak,
        Wire(node.address, receive_bytes=4096) as wire,
    ):
        wire.send(one * 1000)
        time.sleep(2)
        other.assert_undisturbed()
    assert peak.grown_bytes < UNSENT_BYTES + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_large_fetches_behind_an_acknowledgement_that_waits_are_bounded_too(node: ServedBroker, old_topic: str) -> None:
    one = fetch_client.encode_request(FETCH_VERSION, 1, "x", fetch_request(old_topic, {0: 0}))
    with no_leak(node.pid, node.address), Peak(node.pid) as peak, Wire(node.address, receive_bytes=4096) as wire:
        for _ in range(20):
            wire.send_produce(old_topic, batch_of([b"synced"]), acks=-1)
            wire.send(one * 20)
        time.sleep(2)
    assert peak.grown_bytes < UNSENT_BYTES + BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_a_thousand_short_questions_in_one_write_do_not_pile_up_their_long_answers(node: ServedBroker) -> None:
    """All of the cluster, and the errors of a session's partitions, are told in a few bytes of question."""
    with Wire(node.address) as wire:
        wire.create_topic("wide", partitions=10_000)
        nowhere = fetch_request("nowhere", dict.fromkeys(range(10_000), 0), max_wait_ms=0, session_epoch=0)
        wire.send(fetch_client.encode_request(FETCH_VERSION, 1, "x", nowhere))
        _, frame, at = wire.receive_answer(header.FETCH, FETCH_VERSION)
        session_id = fetch_client.decode_response(frame, at, len(frame), FETCH_VERSION).session_id
    assert session_id
    goes_on = [
        FetchRequest(max_wait_ms=0, session_id=session_id, session_epoch=epoch, topics=[]) for epoch in range(1, 1001)
    ]
    for questions in (
        metadata.encode_request(12, 1, "x", metadata.MetadataRequest(None)) * 1000,
        b"".join(fetch_client.encode_request(FETCH_VERSION, 1, "x", one) for one in goes_on),
    ):
        with (
            no_leak(node.pid, node.address),
            Bystander(node.address) as other,
            Peak(node.pid) as peak,
            Wire(node.address, receive_bytes=4096) as wire,
        ):
            wire.send(questions)
            time.sleep(1)
            other.assert_undisturbed()
        assert peak.grown_bytes < BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"
    with Wire(node.address) as wire:
        wire.delete_topic("wide")


def test_fetch_sessions_that_nobody_closes_are_bounded(node: ServedBroker) -> None:
    """Each names many partitions that do not exist, and is left behind."""
    offsets = dict.fromkeys(range(20_000), 0)
    request = fetch_request("nowhere", offsets, max_wait_ms=0, session_epoch=0)
    frame = fetch_client.encode_request(FETCH_VERSION, 1, "x", request)
    with no_leak(node.pid, node.address), Peak(node.pid) as peak:
        for _ in range(24):
            with Wire(node.address) as wire:
                wire.send(frame)
                wire.receive()
    assert peak.grown_bytes < 2 * BESIDES_BYTES, f"{peak.grown_bytes >> 20} MiB"


def test_requests_with_as_much_in_them_as_is_taken_hold_nobody_up_for_long(node: ServedBroker) -> None:
    """All of a request is worked on at once, so its elements are counted."""
    many, too_many = 20_000, 99_000
    refused = [string(f"refused-{number}", False) + struct.pack(">ihii", 1, 5, 0, 0) for number in range(too_many)]
    unknown = [string(f"not/there/{number}", False) for number in range(many)]
    offsets = struct.pack(">iiq", 0, -1, -1)
    question, end = header.question, struct.pack(">ib", 1000, 0)
    requests = [
        question(header.CREATE_TOPICS, 2, 1, "x", array(many, False) + b"".join(refused[:many]) + end),
        question(header.CREATE_TOPICS, 2, 1, "x", array(too_many, False) + b"".join(refused) + end),
        question(header.METADATA, 4, 1, "x", array(many, False) + b"".join(unknown) + b"\1"),
        question(header.DELETE_TOPICS, 1, 1, "x", array(many, False) + b"".join(unknown) + end[:4]),
        question(
            header.LIST_OFFSETS,
            4,
            1,
            "x",
            struct.pack(">ibi", -1, 0, 1) + string("old", False) + array(many, False) + offsets * many,
        ),
        fetch_client.encode_request(
            FETCH_VERSION, 1, "x", fetch_request("old", dict.fromkeys(range(many), 0), max_wait_ms=0)
        ),
    ]
    for request in requests:
        with no_leak(node.pid, node.address), Bystander(node.address) as other, Peak(node.pid) as peak:
            with Wire(node.address) as wire, contextlib.suppress(Closed):
                wire.send(request)
                wire.receive()
            other.assert_undisturbed()
        assert peak.grown_bytes < 2 * BESIDES_BYTES
