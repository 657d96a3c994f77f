"""Fetch sessions over the life of their topics: made, deleted and made again while the session goes on."""

from __future__ import annotations

import pytest

from headrace.testing.served import ServedBroker
from headrace.wire.kafka import fetch_client, header
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.fetch import FetchedPartition, FetchResponse
from tests.support import FETCH_VERSION, Wire, batch_of, fetch_request


class SessionWire(Wire):
    """A connection that fetches in one session."""

    session_id = 0
    session_epoch = 0

    def poll(self, topic: str, offsets: dict[int, int], max_wait_ms: int = 0) -> FetchResponse:
        request = fetch_request(
            topic, offsets, max_wait_ms=max_wait_ms, session_id=self.session_id, session_epoch=self.session_epoch
        )
        self.send(fetch_client.encode_request(FETCH_VERSION, 1, "x", request))
        _, frame, at = self.receive_answer(header.FETCH, FETCH_VERSION)
        response = fetch_client.decode_response(frame, at, len(frame), FETCH_VERSION)
        self.session_id, self.session_epoch = response.session_id, self.session_epoch + 1
        return response


def partitions(response: FetchResponse) -> list[FetchedPartition]:
    assert response.error == 0
    return [fetched for topic in response.topics for fetched in topic.partitions]


def test_a_session_finds_a_topic_that_was_made_after_it_asked(node: ServedBroker) -> None:
    with SessionWire(node.address) as wire:
        (answer,) = partitions(wire.poll("later", {0: 0}))
        assert answer.error == Code.UNKNOWN_TOPIC_OR_PARTITION
        assert wire.session_id != 0
        wire.create_topic("later")
        wire.produce("later", batch_of([b"x"]))
        (answer,) = partitions(wire.poll("later", {}))
        assert (answer.error, answer.high_watermark) == (0, 1)


def test_a_session_goes_over_to_the_topic_that_was_made_again(node: ServedBroker) -> None:
    with SessionWire(node.address) as wire:
        wire.create_topic("again")
        wire.produce("again", batch_of([b"old"]))
        (answer,) = partitions(wire.poll("again", {0: 0}))
        assert answer.size
        wire.delete_topic("again")
        (answer,) = partitions(wire.poll("again", {}))
        assert answer.error == Code.UNKNOWN_TOPIC_OR_PARTITION
        wire.create_topic("again")
        wire.produce("again", batch_of([b"new"]))
        (answer,) = partitions(wire.poll("again", {}))
        assert answer.error == 0
        assert b"new" in b"".join(answer.pieces or [])


def test_a_session_tells_what_is_new_and_nothing_else(node: ServedBroker) -> None:
    with SessionWire(node.address) as wire:
        wire.create_topic("news", partitions=3)
        assert len(partitions(wire.poll("news", {0: 0, 1: 0, 2: 0}))) == 3
        assert partitions(wire.poll("news", {})) == []
        wire.produce("news", batch_of([b"x"]), partition=1)
        assert [answer.partition for answer in partitions(wire.poll("news", {}))] == [1]
        assert partitions(wire.poll("news", {1: 1})) == []


@pytest.mark.parametrize(
    ("session", "code"), [((77, 5), Code.FETCH_SESSION_ID_NOT_FOUND), ((None, 9), Code.INVALID_FETCH_SESSION_EPOCH)]
)
def test_a_session_that_is_not_there_is_named(node: ServedBroker, session: tuple[int | None, int], code: Code) -> None:
    with SessionWire(node.address) as wire:
        wire.create_topic(f"named-{code}")
        wire.poll(f"named-{code}", {0: 0})
        session_id, wire.session_epoch = session
        wire.session_id = wire.session_id if session_id is None else session_id
        assert wire.poll(f"named-{code}", {}).error == code
        wire.session_id, wire.session_epoch = 0, 0
        assert wire.poll(f"named-{code}", {0: 0}).error == 0
