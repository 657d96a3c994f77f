"""The kernels in plain Python: the native ones' specification, test oracle and fallback."""

from __future__ import annotations

import struct

from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.records.batch import BatchHeader, validate
from headrace.wire.kafka.header import PRODUCE
from headrace.wire.kafka.primitives import READ_ERRORS
from headrace.wire.kafka.produce import BY_ID, FLEXIBLE, NEWEST, OLDEST, encode_single, single_request

# version, correlation id, acks, timeout in ms, the topic's name (from version 13: the bytes of its id), partition,
# where its batch starts and ends in the buffer, the header of the batch
Single = tuple[int, int, int, int, str | bytes, int, int, int, BatchHeader]

_HEAD = struct.Struct(">hhih")  # api key, version, correlation id, length of the client id


def single(buffer: Buffer, at: int, end: int) -> Single | None:
    """The Produce request that fills `at` to `end` (its frame without the size), if it is for one topic, one partition
    and no transaction, has no tags, and its one batch is one that a log may take: checked as by `validate`.

    None: it is something else, or not as it should be; the general way finds out what.
    """
    if not 0 <= at <= end <= len(buffer):
        raise ValueError(f"{at} to {end} is not within the {len(buffer)} bytes of the buffer")
    if end - at < _HEAD.size:
        return None
    api_key, version, correlation_id, client_id_bytes = _HEAD.unpack_from(buffer, at)
    if api_key != PRODUCE or not OLDEST <= version <= NEWEST or client_id_bytes < -1:
        return None
    body = at + _HEAD.size + max(0, client_id_bytes)
    if version >= FLEXIBLE:
        if body >= end or buffer[body] != 0:
            return None
        body += 1
    try:
        request = single_request(buffer, body, end, version)
        if request is None:
            return None
        ((name, topic_id, ((partition, start, stop),)),) = request.topics
        topic = topic_id.bytes if version >= BY_ID and topic_id is not None else name
        header = validate(buffer, start, stop)
    except (*READ_ERRORS, HeadraceError):
        return None
    assert topic is not None
    return version, correlation_id, request.acks, request.timeout_ms, topic, partition, start, stop, header


def single_answer(single: Single, base_offset: int, append_time_ms: int, log_start_offset: int) -> bytes:
    """The answer to such a request, which went well."""
    version, correlation_id, _, _, topic, partition, _, _, _ = single
    raw = topic.encode() if isinstance(topic, str) else topic
    return encode_single(version, correlation_id, raw, partition, base_offset, append_time_ms, log_start_offset)
