"""Requests that are neither Produce nor Fetch: each has one handler, which answers at once or later. One that has to
wait holds back those behind it."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import TYPE_CHECKING, Any

from headrace.doors.kafka import errors
from headrace.doors.kafka.answers import Answer, Later
from headrace.doors.kafka.context import Context
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.header import RequestHeader

if TYPE_CHECKING:
    from headrace.doors.kafka.connection import Connection


def begin(connection: Connection, buffer: memoryview, end: int, header: RequestHeader) -> None:
    answer, began = connection.place(Answer()), connection.now()
    api_key, version, correlation_id, client_id, _ = header
    door, peer, listener = connection.door, connection.peer, connection.listener
    context = Context(
        connection.broker, api_key, version, correlation_id, client_id, peer, listener, door.in_background
    )
    handled = door.handle(buffer, end, header, context)
    given = handled.given if isinstance(handled, Later) else handled
    if isinstance(given, bytes):
        _fill(connection, answer, given, api_key, began)
    elif isinstance(handled, Later):
        _wait_for_call(connection, answer, handled, api_key, began)
    elif not isinstance(handled, bytes):
        connection.block()
        door.spawn(_wait(connection, answer, handled, api_key, began), connection)


def _fill(connection: Connection, answer: Answer, given: bytes, api_key: int, began: float) -> None:
    """Its size counts, for a short question may have a long answer."""
    answer.buffers, answer.ready_bytes = (given,), len(given)
    connection.ready_bytes += len(given)
    connection.done(api_key, began)


def _wait_for_call(connection: Connection, answer: Answer, later: Later[Any], api_key: int, began: float) -> None:
    """Without a task."""
    connection.block()

    def take(given: bytes) -> None:
        _fill(connection, answer, given, api_key, began)
        connection.unblock_now()  # nothing else of this connection can be ready with it

    later.when_given(take)


async def _wait(connection: Connection, answer: Answer, handled: Awaitable[bytes], api_key: int, began: float) -> None:
    try:
        with errors.counted(partial(connection.door.metrics.failed, api_key)):
            given = await handled
        _fill(connection, answer, given, api_key, began)
    except MalformedRequest as error:
        connection.close(str(error))
    finally:
        connection.unblock()
