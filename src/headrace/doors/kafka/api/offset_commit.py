"""OffsetCommit, 2 to 10: positions of a group, acknowledged when they are synced. Unknown topics and partitions, and
texts that are too long, are told one by one; what is left is kept together.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from headrace.broker.groups.positions import NEVER, Commit, Position
from headrace.broker.topic import Topic
from headrace.doors.kafka.answers import Later
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.registry import Api
from headrace.errors import HeadraceError, PositionTooLarge, UnknownTopic, UnknownTopicId
from headrace.ports import Buffer
from headrace.wire.kafka import offset_commit as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import OFFSET_COMMIT

Codes = list[tuple[wire.Topic, list[tuple[int, int]]]]


def handle(buffer: Buffer, at: int, end: int, context: Context) -> Later[HeadraceError | None]:
    request = wire.decode_request(buffer, at, end, context.version)
    commits: list[Commit] = []
    codes: Codes = [(topic, _take(context, request, topic, asked, commits)) for topic, asked in request.topics]

    def encode(error: HeadraceError | None) -> bytes:
        told = codes if error is None else _refused(codes, code_for(error)[0])
        return wire.encode_response(context.version, context.correlation_id, told)

    later = Later(encode)
    context.broker.groups.commit(
        request.group_id, request.member_id, request.instance_id, request.generation, commits, later.give
    )
    return later


def _take(
    context: Context,
    request: wire.OffsetCommitRequest,
    named: wire.Topic,
    asked: Sequence[wire.AskedPosition],
    commits: list[Commit],
) -> list[tuple[int, int]]:
    topic = _topic(context, named)
    partitions = 0 if topic is None else len(topic.partitions)
    now_ms = context.broker.clock.now_ms()
    longest = context.broker.groups.settings.metadata_max_bytes
    expires_ms = NEVER if request.retention_ms == wire.NO_RETENTION else now_ms + request.retention_ms
    codes: list[tuple[int, int]] = []
    for index, offset, leader_epoch, text in asked:
        metadata = text or ""
        if topic is None or not 0 <= index < partitions:
            unknown = UnknownTopicId if isinstance(named, UUID) and topic is None else UnknownTopic
            codes.append((index, code_for(unknown(f"no partition {index} of {named}"))[0]))
        elif len(metadata) * 4 > longest and len(metadata.encode()) > longest:
            codes.append((index, code_for(PositionTooLarge(f"a text beside a position has up to {longest} bytes"))[0]))
        else:
            codes.append((index, Code.NONE))
            commits.append((topic.name, index, Position(offset, leader_epoch, metadata, now_ms, expires_ms)))
    return codes


def _refused(codes: Codes, code: int) -> Codes:
    """None of those that could be kept was."""
    return [(topic, [(index, was or code) for index, was in of]) for topic, of in codes]


def _topic(context: Context, named: wire.Topic) -> Topic | None:
    if isinstance(named, UUID):
        return context.broker.topic_by_id(named)
    return context.broker.topic(from_kafka(named))


API = Api(OFFSET_COMMIT, "OffsetCommit", range(wire.OLDEST, wire.NEWEST + 1), handle)
