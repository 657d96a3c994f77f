"""OffsetFetch, 1 to 10: where groups are. A partition without a position, and a group that nobody knows, are no error:
the offset is -1.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headrace.broker.groups.hosted import Hosted
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka, to_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, UnknownTopicId, UnstablePosition
from headrace.ports import Buffer
from headrace.wire.kafka import offset_fetch as wire
from headrace.wire.kafka.header import OFFSET_FETCH

FoundTopic = tuple[wire.Topic, list[wire.FoundPosition]]


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    request = wire.decode_request(buffer, at, end, context.version)
    groups = [_group(context, group, request.require_stable) for group in request.groups]
    return wire.encode_response(context.version, context.correlation_id, groups)


def _group(context: Context, asked: wire.AskedGroup, stable: bool) -> wire.FoundGroup:
    try:
        hosted = context.broker.groups.find(asked.group_id)
    except HeadraceError as error:
        return _refused(context, asked, code_for(error)[0])
    if asked.topics is None:
        return wire.FoundGroup(asked.group_id, [] if hosted is None else _all(context, hosted, stable))
    return wire.FoundGroup(asked.group_id, [_topic(context, hosted, *one, stable) for one in asked.topics])


def _refused(context: Context, asked: wire.AskedGroup, code: int) -> wire.FoundGroup:
    """Before version 2 the answer has room for errors of partitions alone."""
    topics = asked.topics if context.version < 2 and asked.topics is not None else ()
    found = [(topic, [wire.FoundPosition(index, error=code) for index in indexes]) for topic, indexes in topics]
    return wire.FoundGroup(asked.group_id, found, code)


def _all(context: Context, hosted: Hosted, stable: bool) -> list[FoundTopic]:
    found: list[FoundTopic] = []
    for name, indexes in hosted.positions.topics():
        named: wire.Topic = to_kafka(name)
        if context.version >= wire.IDS_FROM:
            topic = context.broker.topic(name)
            if topic is None:  # it goes with its topic, in a moment
                continue
            named = topic.id
        found.append((named, [_position(hosted, name, index, stable) for index in indexes]))
    return found


def _topic(
    context: Context, hosted: Hosted | None, named: wire.Topic, indexes: Sequence[int], stable: bool
) -> FoundTopic:
    if isinstance(named, UUID):
        topic = context.broker.topic_by_id(named)
        if topic is None:
            code = code_for(UnknownTopicId(f"no topic {named}"))[0]
            return named, [wire.FoundPosition(index, error=code) for index in indexes]
        name = topic.name
    else:
        name = from_kafka(named)
    if hosted is None:
        return named, [wire.FoundPosition(index) for index in indexes]
    return named, [_position(hosted, name, index, stable) for index in indexes]


def _position(hosted: Hosted, name: str, index: int, stable: bool) -> wire.FoundPosition:
    if stable and hosted.positions.is_pending(name, index):
        code = code_for(UnstablePosition(f"a transaction on {name}/{index} has not ended"))[0]
        return wire.FoundPosition(index, error=code)
    position = hosted.positions.get(name, index)
    if position is None:
        return wire.FoundPosition(index)
    return wire.FoundPosition(index, position.offset, position.leader_epoch, position.metadata)


API = Api(OFFSET_FETCH, "OffsetFetch", range(wire.OLDEST, wire.NEWEST + 1), handle)
