"""The short turn: what one read brought is one request, a Produce of one batch or a Fetch of one partition, and nothing
is under way. That is how a client talks that waits for each answer, so it is answered without the order of answers, and
with few functions (see `single`)."""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from headrace.doors.kafka import single, single_fetch
from headrace.doors.kafka.api import fetch
from headrace.doors.kafka.ends import send, send_now
from headrace.wire.kafka import kernel
from headrace.wire.kafka.frame import MIN_REQUEST_BYTES, SIZE_BYTES
from headrace.wire.kafka.header import FETCH, PRODUCE, read_header

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection

# Looking at the clock twice a turn costs as much as all counting. So only those who wait for a sync are timed always;
# of other turns that produce, the one after as many requests of all connections as have none of these bits.
UNTIMED = 7
_SIZE = Struct(">i")


def take(connection: Connection, buffer: memoryview, end: int) -> bool:
    """False: it is something else, and nothing was done."""
    size = end - SIZE_BYTES
    if not MIN_REQUEST_BYTES <= size <= connection.max_request_bytes or connection.door.stopping:
        return False
    if _SIZE.unpack_from(buffer)[0] != size:
        return False
    connection.large = False
    if buffer[SIZE_BYTES + 1] == FETCH:
        return _fetch(connection, buffer, end)
    found = kernel.single(buffer, SIZE_BYTES, end)
    if found is None:
        return False
    if connection.timing:
        connection.turn_at = connection.now()
    if found[2] != single.LEADER:
        pending = single.stage(connection, buffer, found, None)
        if pending is None:
            return False
        connection.staged.append(pending)
        connection.end_turn()
        return True
    answer = single.written(connection, buffer, found)
    if answer is None:
        return False
    if not connection.closed:
        send_now(connection, answer)
    metrics = connection.metrics
    metrics.produced += 1
    if connection.timing:
        metrics.done(PRODUCE, connection.now() - connection.turn_at)
        connection.timing = False
    elif not metrics.produced & UNTIMED:
        connection.timing = True
    return True


def _fetch(connection: Connection, buffer: memoryview, end: int) -> bool:
    asked = kernel.single_fetch(buffer, SIZE_BYTES, end)
    if asked is None:
        return False
    found = single_fetch.answer(connection, asked)
    if found is not None:
        send(connection, found[0])
    else:
        fetch.begin(connection, buffer, end, read_header(buffer, SIZE_BYTES, end))
        connection.end_turn()
    return True
