"""The private request of a streaming sink, spoken between our own client and our own broker on the Kafka door: several
transactions committed as one, and the ledgers that say which were (docs/transactions.md). Kafka has no such API: the
key is far from its own, and it is not advertised. Plain encoding.

request     action int8, query string, number int64, task string, timeout ms int32,
            members array of (transactional id string, producer id int64, epoch int16)
answer      error int16, text nullable string, transactional id nullable string, first int64, second int64;
            from version 1 on, ledgers array of (query string, write int64, batch int64, changed ms int64,
            open members int32)

Version 1 is for those who look after ledgers: it adds the actions LIST and FORGET. Tasks and drivers speak version 0.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import IntEnum
from typing import Final, NamedTuple

from headrace.ports import Buffer
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ASKED, Reader, array, string

SINK: Final = 20_000
VERSION: Final = 0  # of tasks and drivers
LEDGERS_VERSION: Final = 1
MAX_LEDGERS: Final = 1_000  # in one answer

_ACTION = struct.Struct(">b")
_NUMBER = struct.Struct(">q")
_TIMEOUT = struct.Struct(">i")
_PRODUCER = struct.Struct(">qh")
_ERROR = struct.Struct(">h")
_PAIR = struct.Struct(">qq")
_LEDGER = struct.Struct(">qqqi")


class Action(IntEnum):
    DRAW = 0  # a write's number, higher than every one before: answered as `first`
    OPEN = 1  # a member; `number` is the write's. Answered with its transactional id, producer id and epoch
    RENEW = 2  # the members of the query; `number` is the write's
    COMMIT = 3  # the members; `number` is the batch. Answered with 1 if it is in the ledger, and the ledger's batch
    ABORT = 4  # the same
    LIST = (
        5  # ledgers whose queries come after `query`. Answered with 1 if there are more, and how many there are in all
    )
    FORGET = 6  # the query's ledger. Answered with 1, and the ledger's batch


_LAST = {VERSION: Action.ABORT, LEDGERS_VERSION: Action.FORGET}  # of each version


class SinkRequest(NamedTuple):
    action: Action
    query: str = ""
    number: int = -1
    task: str = ""
    timeout_ms: int = 0
    members: Sequence[tuple[str, int, int]] = ()


class LedgerEntry(NamedTuple):
    query: str
    write: int  # the newest that was seen
    batch: int  # the last that was committed; -1: none yet
    changed_ms: int  # -1: not known
    open_members: int


class SinkResponse(NamedTuple):
    error: int
    message: str | None = None
    transactional_id: str | None = None
    first: int = -1
    second: int = -1
    ledgers: Sequence[LedgerEntry] = ()


def decode_request(buffer: Buffer, at: int, end: int, version: int) -> SinkRequest:
    reader = Reader(buffer, at, end, False, MAX_ASKED)
    try:
        action = Action(reader.int8())
    except ValueError as error:
        raise MalformedRequest(f"a sink's request: {error}") from error
    if action > _LAST[version]:
        raise MalformedRequest(f"a sink's request: version {version} has no action {action}")
    query, number, task, timeout_ms = reader.string(), reader.int64(), reader.string(), reader.int32()
    members = [(reader.string(), reader.int64(), reader.int16()) for _ in reader.array()]
    reader.finish()
    return SinkRequest(action, query, number, task, timeout_ms, members)


def encode_request(version: int, correlation_id: int, client_id: str | None, request: SinkRequest) -> bytes:
    body = bytearray(_ACTION.pack(request.action) + string(request.query, False) + _NUMBER.pack(request.number))
    body += string(request.task, False) + _TIMEOUT.pack(request.timeout_ms) + array(len(request.members), False)
    for transactional_id, producer_id, epoch in request.members:
        body += string(transactional_id, False) + _PRODUCER.pack(producer_id, epoch)
    return header.question(SINK, version, correlation_id, client_id, body)


def encode_response(version: int, correlation_id: int, answer: SinkResponse) -> bytes:
    body = _ERROR.pack(answer.error) + string(answer.message, False) + string(answer.transactional_id, False)
    body += _PAIR.pack(answer.first, answer.second)
    if version >= LEDGERS_VERSION:
        body += array(len(answer.ledgers), False) + b"".join(
            string(query, False) + _LEDGER.pack(*numbers) for query, *numbers in answer.ledgers
        )
    return header.answer(SINK, version, correlation_id, body)


def decode_response(buffer: Buffer, at: int, end: int, version: int) -> SinkResponse:
    reader = Reader(buffer, at, end, False, MAX_LEDGERS)
    answer = SinkResponse(
        reader.int16(), reader.nullable_string(), reader.nullable_string(), reader.int64(), reader.int64()
    )
    if version >= LEDGERS_VERSION:
        answer = answer._replace(ledgers=[_ledger(reader) for _ in reader.array()])
    reader.finish()
    return answer


def _ledger(reader: Reader) -> LedgerEntry:
    return LedgerEntry(reader.string(), reader.int64(), reader.int64(), reader.int64(), reader.int32())
