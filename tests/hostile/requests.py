"""A request of every kind and version that the node takes, made from Kafka's own schemas with odd values in them.

None of them waits: a Fetch that asks for records which never come would hold up the test, not the node.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import NamedTuple
from uuid import UUID

from headrace.doors.kafka import registry
from headrace.wire.kafka import fetch_client, header, messages, produce_client, sink
from headrace.wire.kafka.fetch import FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.sink import Action, SinkRequest
from tests.support import Closed, Wire, batch_of
from tests.wire import oracle

USUAL_BYTES = range(40, 260)  # long enough to have something in its arrays, short enough to send every prefix
CANDIDATES = 40
PROBE_ID = 0x50524F42  # the correlation id of the question behind each odd request
METADATA_BY_NAME = range(10, 12)  # has room for an id and no name, and does not take it yet


class Sample(NamedTuple):
    api_key: int
    version: int
    frame: bytes  # without its size

    def __repr__(self) -> str:
        return f"{registry.name_of(self.api_key)} {self.version}"


def samples(topic: str, topic_id: UUID) -> Iterator[Sample]:
    for key, api in sorted(registry.apis().items()):
        for version in api.versions:
            if key == header.PRODUCE:
                yield Sample(key, version, produce(version, topic, topic_id))
            elif key == header.FETCH:
                yield Sample(key, version, fetch(version, topic, topic_id))
            else:
                yield Sample(key, version, odd(key, version))
    members = [("q#0", 1, 2), ("q#1", 3, 4)]
    for version, action in ((0, Action.COMMIT), (1, Action.LIST), (1, Action.FORGET)):
        request = SinkRequest(action, "q", 1, "0", 1000, members)
        yield Sample(sink.SINK, version, sink.encode_request(version, 1, "odd", request)[4:])


def produce(version: int, topic: str, topic_id: UUID, acks: int = 1) -> bytes:
    name, by_id = (None, topic_id) if version >= 13 else (topic, None)
    topics = [(name, by_id, [(0, batch_of([b"prefix"])), (7, batch_of([b"no such partition"]))])]
    return b"".join(produce_client.encode_request(version, 1, "odd", None, acks, 1000, topics))[4:]


def fetch(version: int, topic: str, topic_id: UUID) -> bytes:
    name, by_id = (None, topic_id) if version >= 13 else (topic, None)
    asked = [FetchPartition(0, -1, 0, -1, -1, 1000), FetchPartition(9, -1, 1 << 40, -1, -1, 1 << 30)]
    request = FetchRequest(
        max_wait_ms=0, min_bytes=0, max_bytes=1000, session_id=0, session_epoch=-1,
        topics=[FetchTopic(name, by_id, asked)],
    )  # fmt: skip
    return fetch_client.encode_request(version, 1, "odd", request)[4:]


def odd(key: int, version: int) -> bytes:
    schema = oracle.schema(key, version, "request")
    entities = oracle.entities(schema, version, CANDIDATES)
    if key == header.METADATA and version in METADATA_BY_NAME:
        entities = [one for one in entities if all(topic.name is not None for topic in one.topics or ())]
    frames = [messages.encode_request(entity, 1, "odd")[4:] for entity in entities]
    usual = [frame for frame in frames if len(frame) in USUAL_BYTES]
    return max(usual, key=len) if usual else min(frames, key=len)


def endure(wire: Wire, frame: bytes) -> bool:
    """Sends a frame and an ordinary question behind it. True when the node answers that one, False when it closes."""
    probe = header.question(header.API_VERSIONS, 0, PROBE_ID, None, b"")
    try:
        wire.send(len(frame).to_bytes(4, "big"), frame, probe)
        while int.from_bytes(wire.receive()[:4], "big") != PROBE_ID:
            pass
    except Closed:
        return False
    return True


def flipped(frame: bytes, chance: random.Random, at_least: int = 0) -> bytes:
    """With one to three bits turned, from byte `at_least` on."""
    changed = bytearray(frame)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        bit = chance.randrange(8 * at_least, 8 * len(changed))
        changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)
