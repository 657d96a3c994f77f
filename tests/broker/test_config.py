"""Topic settings: every one has a default, a check and words."""

from __future__ import annotations

import pytest

from headrace.broker.config import MAX_LONG, SETTINGS, TopicConfig, parse
from headrace.errors import InvalidConfig


def test_without_settings_a_topic_has_the_defaults() -> None:
    config = parse({})
    assert config.retention_ms == 7 * 24 * 3600 * 1000
    assert (config.retention_bytes, config.is_memory, config.is_log_append_time) == (-1, False, False)


def test_every_field_has_its_setting_and_every_setting_its_words() -> None:
    assert {setting.field for setting in SETTINGS.values()} == set(TopicConfig.__struct_fields__)
    assert all(setting.doc.endswith(".") for setting in SETTINGS.values())


def test_every_default_is_a_value_that_its_setting_takes() -> None:
    for setting in SETTINGS.values():
        assert setting.parse(str(setting.default)) == setting.default


def test_null_stands_for_the_default() -> None:
    assert parse({"retention.ms": None}) == parse({})


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("retention.ms", "soon", "whole number"),
        ("retention.ms", "-2", "-1 to"),
        ("retention.ms", str(MAX_LONG + 1), "-1 to"),
        ("segment.bytes", "10", "16384 to"),
        ("max.message.bytes", str((128 << 20) + 1), "0 to 134217728"),
        ("message.timestamp.type", "Never", "CreateTime or LogAppendTime"),
        ("headrace.storage", "tape", "disk or memory"),
        ("cleanup.policy", "compact", "takes delete"),
        ("no.such.thing", "1", "no topic setting"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=name.replace(".", r"\.")) as refused:
        parse({name: value})
    assert words in str(refused.value)
