"""A broker's refusals as errors of ours."""

from __future__ import annotations

from headrace import errors
from headrace.client.refusals import error_of
from headrace.wire.kafka.codes_client import NAMES


def test_every_code_becomes_an_error_that_names_what_was_asked() -> None:
    for code in [-1, *range(1, len(NAMES)), 999]:
        error = error_of(code, "topic 'orders'")
        assert isinstance(error, errors.HeadraceError)
        assert str(error).startswith("topic 'orders'")


def test_the_brokers_own_words_are_told() -> None:
    assert str(error_of(36, "topic 'a'", "it is there since May")) == "topic 'a': it is there since May"
    assert str(error_of(36, "topic 'a'", "topic 'a' exists already")) == "topic 'a' exists already", "once is enough"
    refused = error_of(29, "topic 'a'", "you may not")
    assert isinstance(refused, errors.BrokerRefused)
    assert (refused.code, refused.name) == (29, "TOPIC_AUTHORIZATION_FAILED")
    assert str(refused) == "topic 'a': you may not (TOPIC_AUTHORIZATION_FAILED, code 29)"


def test_codes_with_a_class_of_ours_have_it() -> None:
    assert type(error_of(3, "x")) is errors.UnknownTopic
    assert type(error_of(10, "x")) is errors.MessageTooLarge
    assert type(error_of(7, "x")) is errors.RequestTimedOut
    assert type(error_of(100, "x")) is errors.UnknownTopicId
