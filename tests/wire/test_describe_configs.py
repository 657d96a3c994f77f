"""Answers to DescribeConfigs: kio is the judge of our bytes."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.wire.kafka import describe_configs, header, messages
from tests.wire import oracle

KEY = header.DESCRIBE_CONFIGS


def written(version: int, answer: Any) -> bytes:
    results = []
    for result in answer.results:
        entries = [
            describe_configs.Entry(
                entry.name,
                entry.value,
                entry.read_only,
                entry.config_source,
                entry.is_sensitive,
                [describe_configs.Synonym(one.name, one.value, one.source) for one in entry.synonyms],
                getattr(entry, "config_type", 0),
                getattr(entry, "documentation", None),
            )
            for entry in result.configs
        ]
        encoded = describe_configs.encode_entries(version, entries)
        results.append(
            describe_configs.encode_result(
                version, result.error_code, result.error_message, result.resource_type, result.resource_name, encoded
            )
        )
    return describe_configs.encode_response(version, 77, results)


@pytest.mark.parametrize("version", range(describe_configs.OLDEST, describe_configs.NEWEST + 1))
def test_an_answer_is_written_as_kio_writes_it(version: int) -> None:
    for entity in oracle.entities(oracle.schema(KEY, version, "response"), version, 20):
        answer = oracle.changed(entity, throttle_time=messages.NO_TIME)
        assert written(version, answer) == messages.encode(answer, 77)
