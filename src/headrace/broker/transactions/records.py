"""What the state topic holds, in Kafka's own formats: TransactionLogKey version 0, TransactionLogValue version 0 (from
older brokers) and 1.

Beside them lie the ledgers of queries, under keys of our own version, which Kafka's tools do not know and step over.

Version 1 ends with tagged fields: the previous and the next producer id, the transaction version. The epoch before the
last is a field of ours, with a tag that Kafka is far from: its tools step over it.
"""

from __future__ import annotations

import struct

from headrace.broker.transactions.events import Ledger
from headrace.broker.transactions.transaction import NONE, Place, State, Transaction
from headrace.errors import StorageFailed
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import MAX_ELEMENTS, Reader, array, string, tagged

KEY_VERSION = 0
LEDGER_KEY_VERSION = 0x4852
VALUE_VERSION = 1
LEDGER_VERSION = 1
_FLEXIBLE_FROM = 1

_PREVIOUS_ID, _NEXT_ID, _VERSION, _LAST_EPOCH = 0, 1, 2, 10_000  # tags

_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_HEAD = struct.Struct(">hqhib")  # version, producer id, epoch, timeout, state
_LEDGER = struct.Struct(">hqq")  # version, write epoch, batch; from version 1 on, when it changed (ms)
_TIMES = struct.Struct(">qq")


def encode_key(transactional_id: str) -> bytes:
    return _INT16.pack(KEY_VERSION) + string(transactional_id, False)


def encode_value(of: Transaction) -> bytes:
    out = bytearray(_HEAD.pack(VALUE_VERSION, of.producer_id, of.epoch, of.timeout_ms, of.state))
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(of.partitions):
        topics.setdefault(topic, []).append(partition)
    out += array(None if of.state == State.EMPTY else len(topics), True)
    for topic, partitions in topics.items():
        out += string(topic, True) + array(len(partitions), True)
        for partition in partitions:
            out += _INT32.pack(partition)
        out += b"\0"
    out += _TIMES.pack(of.updated_ms, of.started_ms)
    fields = [
        (_PREVIOUS_ID, of.previous_producer_id, _INT64),
        (_NEXT_ID, of.next_producer_id, _INT64),
        (_VERSION, of.version or NONE, _INT16),
        (_LAST_EPOCH, of.last_epoch, _INT16),
    ]
    out += tagged([(tag, layout.pack(value)) for tag, value, layout in fields if value != NONE])
    return bytes(out)


def decode_key(key: bytes) -> str | None:
    """The transactional id; None for a key of another kind."""
    reader = Reader(key, 0, len(key), False)
    try:
        return reader.string() if reader.int16() == KEY_VERSION else None
    except MalformedRequest as error:
        raise StorageFailed(f"a key in the transaction topic does not read: {error}") from error


def ledger_key(query: str) -> bytes:
    return _INT16.pack(LEDGER_KEY_VERSION) + string(query, False)


def encode_ledger(ledger: Ledger) -> tuple[bytes, bytes]:
    value = _LEDGER.pack(LEDGER_VERSION, ledger.write_epoch, ledger.batch) + _INT64.pack(ledger.changed_ms)
    return ledger_key(ledger.query), value


def decode_ledger(key: bytes, value: bytes | None) -> Ledger | str | None:
    """The query alone when its ledger is gone; None for a record of another kind."""
    try:
        if _INT16.unpack_from(key)[0] != LEDGER_KEY_VERSION:
            return None
        query = Reader(key, 2, len(key), False).string()
        if value is None:
            return query
        version, write_epoch, batch = _LEDGER.unpack_from(value)
        changed_ms = _INT64.unpack_from(value, _LEDGER.size)[0] if version >= LEDGER_VERSION else NONE
        return Ledger(query, write_epoch, batch, changed_ms)
    except (MalformedRequest, struct.error) as error:
        raise StorageFailed(f"the ledger of a query does not read: {error}") from error


def decode_value(transactional_id: str, value: bytes) -> Transaction:
    try:
        version = _INT16.unpack_from(value)[0]
        return _read(transactional_id, Reader(value, 2, len(value), version >= _FLEXIBLE_FROM, MAX_ELEMENTS))
    except (MalformedRequest, struct.error, ValueError) as error:
        raise StorageFailed(f"the state of transaction {transactional_id!r} does not read: {error}") from error


def _read(transactional_id: str, reader: Reader) -> Transaction:
    producer_id, epoch, timeout_ms = reader.int64(), reader.int16(), reader.int32()
    state = State(reader.int8())
    partitions: set[Place] = set()
    for _ in reader.nullable_array() or ():
        topic = reader.string()
        partitions.update((topic, reader.int32()) for _ in reader.array())
        reader.skip_tags()
    updated_ms, started_ms = reader.int64(), reader.int64()
    found = {_PREVIOUS_ID: NONE, _NEXT_ID: NONE, _VERSION: 0, _LAST_EPOCH: NONE}
    for tag in reader.tags():
        if tag in (_PREVIOUS_ID, _NEXT_ID):
            found[tag] = reader.int64()
        elif tag in (_VERSION, _LAST_EPOCH):
            found[tag] = reader.int16()
    return Transaction(
        transactional_id,
        producer_id,
        epoch,
        timeout_ms,
        state,
        frozenset(partitions),
        started_ms,
        updated_ms,
        found[_LAST_EPOCH],
        found[_PREVIOUS_ID],
        found[_NEXT_ID],
        found[_VERSION],
    )
