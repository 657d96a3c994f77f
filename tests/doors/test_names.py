"""Topic names at the Kafka door."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.doors.kafka.names import RESERVED_PREFIX, checked, from_kafka, is_legal, to_kafka
from headrace.errors import InvalidTopicName


@pytest.mark.parametrize("name", ["a", "orders.eu-1_x", "A" * 249, "..."])
def test_a_name_that_kafka_can_spell_stays_as_it_is(name: str) -> None:
    assert to_kafka(name) == from_kafka(name) == checked(name) == name


@pytest.mark.parametrize("name", ["übung", "a b", "!system/positions", "a/b", "東京", RESERVED_PREFIX + "x"])
def test_any_other_name_appears_under_the_prefix_and_comes_back(name: str) -> None:
    spelled = to_kafka(name)
    assert spelled.startswith(RESERVED_PREFIX)
    assert spelled != name
    assert from_kafka(spelled) == checked(spelled) == name


@given(st.text(min_size=1, max_size=60), st.text(min_size=1, max_size=60))
def test_two_names_never_look_alike(one: str, other: str) -> None:
    assert from_kafka(to_kafka(one)) == one
    assert (to_kafka(one) == to_kafka(other)) == (one == other)


@given(st.text(alphabet="abcdefghijklmnopqrstuvwxyz234567=", max_size=40))
def test_what_looks_like_ours_and_is_not_is_left_alone(tail: str) -> None:
    plain = from_kafka(RESERVED_PREFIX + tail)
    assert plain == RESERVED_PREFIX + tail or to_kafka(plain) == RESERVED_PREFIX + tail


@pytest.mark.parametrize("name", ["", ".", "..", "a" * 250, "a b", "ü", "a\n", RESERVED_PREFIX, RESERVED_PREFIX + "1!"])
def test_a_name_that_kafka_refuses_is_refused(name: str) -> None:
    assert not is_legal(name) or name.startswith(RESERVED_PREFIX)
    with pytest.raises(InvalidTopicName):
        checked(name)
