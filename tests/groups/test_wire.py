"""The codecs of groups that are written by hand, against kio: its values from its bytes, its bytes from ours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.wire.kafka import (
    find_coordinator,
    header,
    heartbeat,
    join_group,
    leave_group,
    offset_commit,
    offset_fetch,
    sync_group,
)
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.primitives import NIL_UUID
from tests.wire import oracle

COUNT = 30


def _find_coordinator(entity: Any, version: int) -> object:
    keys = list(entity.coordinator_keys) if version >= 4 else [entity.key]
    return find_coordinator.FindCoordinatorRequest(keys, getattr(entity, "key_type", 0))


def _join_group(entity: Any, version: int) -> object:
    session_ms = oracle.milliseconds(entity.session_timeout)
    return join_group.JoinGroupRequest(
        entity.group_id,
        session_ms,
        oracle.milliseconds(entity.rebalance_timeout) if version >= 1 else session_ms,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
        entity.protocol_type,
        tuple((one.name, one.metadata) for one in entity.protocols),
    )


def _sync_group(entity: Any, version: int) -> object:
    return sync_group.SyncGroupRequest(
        entity.group_id,
        entity.generation_id,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
        getattr(entity, "protocol_type", None),
        getattr(entity, "protocol_name", None),
        {one.member_id: one.assignment for one in entity.assignments},
    )


def _heartbeat(entity: Any, version: int) -> object:
    instance_id = getattr(entity, "group_instance_id", None)
    return heartbeat.HeartbeatRequest(entity.group_id, entity.generation_id, entity.member_id, instance_id)


def _leave_group(entity: Any, version: int) -> object:
    if version < 3:
        members = [leave_group.LeavingMember(entity.member_id)]
    else:
        members = [leave_group.LeavingMember(one.member_id, one.group_instance_id) for one in entity.members]
    return leave_group.LeaveGroupRequest(entity.group_id, members)


def _topic(one: Any, version: int) -> Any:
    return (one.topic_id or NIL_UUID) if version >= 10 else one.name


def _offset_commit(entity: Any, version: int) -> object:
    topics = [
        (
            _topic(one, version),
            [
                offset_commit.AskedPosition(
                    p.partition_index,
                    p.committed_offset,
                    getattr(p, "committed_leader_epoch", -1),
                    p.committed_metadata,
                )
                for p in one.partitions
            ],
        )
        for one in entity.topics
    ]
    retention_ms = oracle.milliseconds(entity.retention_time) if version <= 4 else -1
    return offset_commit.OffsetCommitRequest(
        entity.group_id,
        entity.generation_id_or_member_epoch,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
        retention_ms,
        topics,
    )


def _asked_topics(topics: Any, version: int) -> Any:
    return None if topics is None else [(_topic(one, version), list(one.partition_indexes)) for one in topics]


def _offset_fetch(entity: Any, version: int) -> object:
    if version < 8:
        groups = [offset_fetch.AskedGroup(entity.group_id, _asked_topics(entity.topics, version))]
    else:
        groups = [
            offset_fetch.AskedGroup(
                one.group_id,
                _asked_topics(one.topics, version),
                getattr(one, "member_id", None),
                getattr(one, "member_epoch", -1),
            )
            for one in entity.groups
        ]
    return offset_fetch.OffsetFetchRequest(groups, getattr(entity, "require_stable", False))


REQUESTS: dict[Any, tuple[int, Callable[[Any, int], object]]] = {
    find_coordinator: (header.FIND_COORDINATOR, _find_coordinator),
    join_group: (header.JOIN_GROUP, _join_group),
    sync_group: (header.SYNC_GROUP, _sync_group),
    heartbeat: (header.HEARTBEAT, _heartbeat),
    leave_group: (header.LEAVE_GROUP, _leave_group),
    offset_commit: (header.OFFSET_COMMIT, _offset_commit),
    offset_fetch: (header.OFFSET_FETCH, _offset_fetch),
}
ALL = [(module, version) for module in REQUESTS for version in range(module.OLDEST, module.NEWEST + 1)]


@pytest.mark.parametrize(("module", "version"), ALL)
def test_a_request_reads_as_kio_wrote_it(module: Any, version: int) -> None:
    key, expected = REQUESTS[module]
    for entity in oracle.entities(oracle.schema(key, version, "request"), version, COUNT):
        raw = b"??" + oracle.written(entity)
        assert module.decode_request(memoryview(raw + b"behind it"), 2, len(raw), version) == expected(entity, version)


@pytest.mark.parametrize(("module", "version"), ALL)
def test_a_request_that_is_cut_off_or_too_long_is_refused(module: Any, version: int) -> None:
    key, _ = REQUESTS[module]
    (entity,) = oracle.entities(oracle.schema(key, version, "request"), 3, 1)
    raw = oracle.written(entity)
    for end in [*range(0, len(raw), 1 + len(raw) // 50), len(raw) - 1]:
        with pytest.raises(MalformedRequest):
            module.decode_request(raw + b"\0" * 8, 0, end, version)
    with pytest.raises(MalformedRequest):
        module.decode_request(raw + b"\0", 0, len(raw) + 1, version)


def _expected_response(module: Any, entity: Any, version: int) -> bytes:
    """Ours for what the entity says; it has no throttling, which we never ask for."""
    if module is heartbeat:
        return heartbeat.encode_response(version, 5, entity.error_code)
    if module is find_coordinator:
        ones = entity.coordinators if version >= 4 else [entity]
        found = [
            find_coordinator.Coordinator(
                getattr(one, "key", ""),
                one.node_id,
                one.host,
                one.port,
                one.error_code,
                getattr(one, "error_message", None),
            )
            for one in ones
        ]
        return find_coordinator.encode_response(version, 5, found)
    if module is join_group:
        members = [
            join_group.JoinGroupMember(one.member_id, getattr(one, "group_instance_id", None), one.metadata)
            for one in entity.members
        ]
        response = join_group.JoinGroupResponse(
            entity.error_code,
            entity.generation_id,
            getattr(entity, "protocol_type", None),
            entity.protocol_name,
            entity.leader,
            getattr(entity, "skip_assignment", False),
            entity.member_id,
            members,
        )
        return join_group.encode_response(version, 5, response)
    if module is sync_group:
        fields = (getattr(entity, "protocol_type", None), getattr(entity, "protocol_name", None), entity.assignment)
        return sync_group.encode_response(version, 5, sync_group.SyncGroupResponse(entity.error_code, *fields))
    if module is leave_group:
        left = [
            (leave_group.LeavingMember(one.member_id, one.group_instance_id), one.error_code)
            for one in getattr(entity, "members", ())
        ]
        return leave_group.encode_response(version, 5, entity.error_code, left)
    if module is offset_commit:
        topics = [
            (_topic(t, version), [(p.partition_index, p.error_code) for p in t.partitions]) for t in entity.topics
        ]
        return offset_commit.encode_response(version, 5, topics)
    groups = [
        offset_fetch.FoundGroup(
            getattr(group, "group_id", ""),
            [
                (
                    _topic(t, version),
                    [
                        offset_fetch.FoundPosition(
                            p.partition_index,
                            p.committed_offset,
                            getattr(p, "committed_leader_epoch", -1),
                            p.metadata,
                            p.error_code,
                        )
                        for p in t.partitions
                    ],
                )
                for t in group.topics
            ],
            getattr(group, "error_code", 0),
        )
        for group in (entity.groups if version >= 8 else [entity])
    ]
    return offset_fetch.encode_response(version, 5, groups)


@pytest.mark.parametrize(("module", "version"), ALL)
def test_an_answer_is_written_as_kio_writes_it(module: Any, version: int) -> None:
    key, _ = REQUESTS[module]
    for entity in oracle.entities(oracle.schema(key, version, "response"), version, COUNT):
        if hasattr(entity, "throttle_time"):
            entity = oracle.changed(entity, throttle_time=oracle.datetime.timedelta(0))
        assert _expected_response(module, entity, version) == header.answer(key, version, 5, oracle.written(entity))
