"""A SUBSCRIBE that asks for a range: the reply is a page of it (wire/binary/ranges.py)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.broker.ranges import Rows
from headrace.broker.topic import check_readable
from headrace.doors.binary import replies
from headrace.doors.binary.data import message, properties_of
from headrace.doors.binary.replies import Refused
from headrace.doors.tcp.paging import page
from headrace.records.ids import ID, derived_id, own_id
from headrace.records.record import Record
from headrace.wire.binary import ranges
from headrace.wire.binary.frame import can_carry

if TYPE_CHECKING:
    from headrace.doors.binary.connection import BinaryConnection
    from headrace.wire.ranges import Range


def asked(properties: Mapping[str, str]) -> Range:
    name = properties.get("topic")
    if not name:
        raise Refused(replies.MISSING_TOPIC)
    try:
        return ranges.asked(name, properties)
    except ValueError as error:
        raise Refused(str(error)) from error


async def reply(connection: BinaryConnection, sequence: int, wish: Range) -> bytes:
    """Waits until the client has taken enough of what was sent before."""
    name = wish.topic
    check_readable(name)
    await connection.room()
    topic = connection.topic(name)
    count = len(topic.partitions)
    if wish.partition is not None and wish.partition >= count:
        raise Refused(replies.no_partition(name, wish.partition))
    if wish.partition is None and count > 1 and wish.has_offsets:
        raise Refused(replies.missing_partition(name, count))

    def encode(rows: Rows) -> list[bytes]:
        return [message(record, _properties(name, partition, record)) for partition, record in rows]

    paged = await page(connection.door, topic, wish, encode)
    connection.door.metrics.delivered += len(paged.pieces)
    return replies.page(sequence, connection.now_ms, name, paged)


def _properties(topic: str, partition: int, record: Record) -> dict[str, str]:
    """With its place and its id, whatever the publisher said of them."""
    own = own_id(record.headers)
    if own is None or not can_carry(ID, own):
        own = derived_id(topic, partition, record.offset)
    return properties_of(topic, partition, record) | {"partition": str(partition), ID: own}
