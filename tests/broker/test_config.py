"""Topic settings: every one has a default, a check and words."""

from __future__ import annotations

import pytest

from headrace.broker.config import KINDS, REFUSED, SETTINGS, TopicConfig, check, parse
from headrace.broker.values import MAX_LONG
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
        ("retention.ms", "1_000", "whole number"),
        ("retention.ms", "\u0661", "whole number"),
        ("cleanup.policy", "shred", "takes delete or compact"),
        ("cleanup.policy", "", "takes delete or compact"),
        ("cleanup.policy", "delete,delete", "takes delete or compact"),
        ("compression.type", "zstd", "takes 'producer' alone"),
        ("preallocate", "true", "grow as they are written"),
        ("min.cleanable.dirty.ratio", "1.5", "0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "0 to 1"),
        ("segment.jitter.ms", "5", "no effect here"),
        ("remote.storage.enable", "true", "no tiered storage"),
        ("no.such.thing", "1", "no topic setting"),
    ],
)
def test_a_value_that_a_setting_does_not_take_is_refused_by_name(name: str, value: str, words: str) -> None:
    with pytest.raises(InvalidConfig, match=name.replace(".", r"\.")) as refused:
        parse({name: value})
    assert words in str(refused.value)


def test_blanks_around_a_value_do_not_matter() -> None:
    assert parse({"retention.ms": " 5 ", "cleanup.policy": "delete , compact"}) == parse(
        {"retention.ms": "5", "cleanup.policy": "delete,compact"}
    )


def test_a_setting_is_offered_or_refused_and_never_both() -> None:
    assert not set(REFUSED) & set(SETTINGS)
    assert {setting.kind for setting in SETTINGS.values()} <= set(KINDS)
    names = [setting.broker_name for setting in SETTINGS.values() if setting.broker_name]
    assert len(names) == len(set(names))


def test_a_compacted_topic_keeps_its_records_whatever_their_age() -> None:
    config = parse({"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"})
    assert config.is_compacted and not config.is_deleted
    assert (config.for_log().retention_ms, config.for_log().retention_bytes) == (-1, -1)
    both = parse({"cleanup.policy": "compact,delete", "retention.ms": "1"})
    assert both.is_compacted and both.for_log().retention_ms == 1


@pytest.mark.parametrize(
    "wish",
    [
        {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "9"},
        {"headrace.storage": "memory", "cleanup.policy": "compact"},
    ],
)
def test_settings_that_contradict_each_other_are_refused_when_they_are_chosen(wish: dict[str, str]) -> None:
    with pytest.raises(InvalidConfig):
        check(parse(dict(wish)), wish)
