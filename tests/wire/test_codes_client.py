"""Kafka's error codes as a client meets them, held against kio's, which come from Kafka's own source."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from headrace.wire.kafka.codes_client import NAMES, RETRIABLE, name_of
from headrace.wire.kafka.errors import Code


def test_every_code_has_kafkas_name() -> None:
    for code in ErrorCode:
        assert name_of(code.value) == code.name.upper()
    assert len(NAMES) == len(ErrorCode) - 1  # -1 is not in the list


def test_the_codes_that_may_be_tried_again_are_kafkas() -> None:
    assert {code.value for code in ErrorCode if code.retriable} == RETRIABLE


def test_the_codes_that_we_send_have_the_same_names() -> None:
    for code in Code:
        assert name_of(code) == code.name


def test_a_code_from_the_future_is_named_by_its_number() -> None:
    assert name_of(999) == "UNKNOWN_CODE_999"
    assert name_of(-7) == "UNKNOWN_CODE_-7"
