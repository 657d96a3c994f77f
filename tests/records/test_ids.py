"""What a record is called: its own id where it has one that is text, else a name made of its place."""

from __future__ import annotations

import pytest

from headrace.client.values import CREATE_TIME, Record
from headrace.records.ids import derived_id, id_of, own_id
from headrace.records.record import Headers
from headrace.wire.kafka.names import to_kafka


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ((("id", b"order-7"),), "order-7"),
        ((("a", b"x"), ("id", b"first"), ("id", b"second")), "first"),
        ((("id", "zwölf mal".encode()),), "zwölf mal"),
        ((), None),
        ((("ID", b"x"),), None),
        ((("id", b""),), None),
        ((("id", None), ("id", b"second")), None),
        ((("id", b"\xff\xfe"),), None),
    ],
)
def test_the_first_header_of_that_name_counts_if_it_is_text(headers: Headers, own: str | None) -> None:
    assert own_id(headers) == own
    assert id_of("t", 3, 9, headers) == (own or "msg_3-9_e47f9043")


def test_places_have_names_of_their_own() -> None:
    places = [
        (topic, partition, offset) for topic in ("a", "b", "ü") for partition in range(12) for offset in range(120)
    ]
    assert len({derived_id(*place) for place in places}) == len(places)


def test_however_kafka_spells_a_topic_its_records_have_the_same_names() -> None:
    name = "sensors/hall"
    assert to_kafka(name) != name
    found = {Record(spelt, 0, 5, 0, CREATE_TIME, None, b"", (), 0).id for spelt in (name, to_kafka(name))}
    assert found == {derived_id(name, 0, 5)}
