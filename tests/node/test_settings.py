"""Flags over environment over file over defaults, and errors that name the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.broker import config
from headrace.broker.broker import BrokerSettings
from headrace.doors.kafka.limits import KafkaLimits
from headrace.errors import InvalidConfig
from headrace.node.settings import SETTINGS, Address, InvalidSettings, Settings, load, read, unknown_variables
from headrace.node.settings.sources import Given, Origin
from headrace.node.settings.table import SECTIONS
from headrace.node.settings.tree import Tree, known


def test_a_flag_wins_over_its_variable_and_the_variable_over_the_default() -> None:
    environment = {"HEADRACE_KAFKA": "127.0.0.1:1", "HEADRACE_NODE_ID": "7"}
    settings = read({"kafka": "127.0.0.1:2"}, environment)
    assert settings.kafka == Address("127.0.0.1", 2)
    assert settings.node_id == 7
    assert settings.data == "headrace-data"


def test_a_variable_wins_over_the_file_and_the_file_over_the_default(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[kafka]\nlisten = "127.0.0.1:3"\n[node]\nid = 3\n')
    tree = load({"config": str(file)}, {"HEADRACE_KAFKA": "127.0.0.1:1"})
    listen, node_id = tree.held(known_setting("kafka.listen")), tree.held(known_setting("node.id"))
    assert (listen.value, listen.origin) == (Address("127.0.0.1", 1), Origin("environment", "HEADRACE_KAFKA"))
    assert [given.origin.where for given in listen.overruled] == [f"{file}:2"]
    assert (node_id.value, node_id.origin) == (3, Origin("file", f"{file}:4"))


def known_setting(name: str):
    setting = known(name)
    assert setting is not None
    return setting


def test_every_setting_has_a_flag_a_variable_a_section_and_a_default_that_works() -> None:
    for setting in SETTINGS:
        shown = setting.kind.show(setting.kind.parse(setting.default))
        assert read({setting.flag: shown}, {}) == read({}, {setting.variable: shown})
        assert setting.variable == "HEADRACE_" + setting.flag.upper().replace("-", "_")
        assert setting.section in SECTIONS
        assert setting.meaning.endswith(".")
        assert setting.kind.takes
    for names in ("key", "flag", "variable"):
        assert len({getattr(setting, names) for setting in SETTINGS}) == len(SETTINGS)


def test_without_a_word_a_node_has_the_defaults_that_its_parts_have() -> None:
    settings = read({}, {})
    assert settings.kafka_limits == KafkaLimits()
    assert settings.broker.default_partitions == BrokerSettings().default_partitions
    assert settings.broker.topic_defaults == {}
    plain = Settings("headrace-data")
    assert (settings.tail_memory_bytes, settings.kafka, settings.log_level) == (
        plain.tail_memory_bytes,
        plain.kafka,
        plain.log_level,
    )


def test_every_topic_setting_of_the_broker_can_be_given_a_default() -> None:
    settings = read({"topic-retention-ms": "2d", "topic-segment-bytes": "1MiB", "topic-flush-ms": "never"}, {})
    assert settings.broker.topic_defaults == {
        "retention.ms": "172800000",
        "segment.bytes": "1048576",
        "flush.ms": str((1 << 63) - 1),
    }
    assert {setting.key.removeprefix("topic.defaults.") for setting in SETTINGS} >= set(config.SETTINGS)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("off", None),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        (":9092", Address("127.0.0.1", 9092)),
    ],
)
def test_an_address_is_host_and_port_or_off(text: str, address: Address | None) -> None:
    assert read({"kafka": text}, {}).kafka == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka", "9092x"),
        ("kafka", "h:70000"),
        ("kafka", "::1:9092"),
        ("kafka", "h:٣"),
        ("kafka-advertised", "0.0.0.0:9092"),
        ("kafka-advertised", "broker:0"),
        ("node-id", "-1"),
        ("node-id", "x"),
        ("node-id", "1.5"),
        ("data", ""),
        ("log-level", "loud"),
        ("log-levels", "kafka=loud"),
        ("log-levels", "kafak=debug"),
        ("auto-create-topics", "maybe"),
        ("max-connections", "0"),
        ("idle-ms", "10 parsecs"),
        ("unsent-bytes", "1KiB"),
        ("default-topics", "a,a"),
        ("default-topics", "a:0"),
        ("default-topics", '[{"name": "a", "color": "red"}]'),
        ("default-topics", '[{"name": "a", "config": {"retention.ms": "soon"}}]'),
        ("default-topics", '[{"name": "a", "config": {"retention": 5}}]'),
        ("default-topics", "["),
        ("topic-retention-ms", "soon"),
        ("topic-cleanup-policy", "never"),
    ],
)
def test_a_bad_value_is_refused_with_the_flag_and_the_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"--{name}") as refused:
        read({name: value}, {})
    assert "HEADRACE_" in str(refused.value)


def test_an_address_is_written_so_that_it_can_be_read_again() -> None:
    assert str(Address("::1", 5)) == "[::1]:5"
    assert read({"kafka": str(Address("::1", 5))}, {}).kafka == Address("::1", 5)


def test_a_variable_that_only_looks_like_a_setting_is_found_and_the_nearest_is_named() -> None:
    environment = {"HEADRACE_DAAT": "x", "HEADRACE_DATA": "x", "HEADRACE_NATIVE": "0", "HOME": "/"}
    assert unknown_variables(environment) == ["HEADRACE_DAAT"]
    (warning,) = load({}, environment, ()).warnings
    assert "did you mean HEADRACE_DATA?" in str(warning)
    assert not load({}, environment, ()).problems


def test_more_partitions_by_default_than_there_may_be_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="--default-partitions"):
        read({"default-partitions": "30000"}, {})
    with pytest.raises(InvalidConfig, match="--default-topics"):
        read({"default-topics": "a:3", "max-partitions": "2"}, {})


def test_a_bound_that_is_none_is_not_named() -> None:
    with pytest.raises(InvalidConfig, match="takes at least 1, not 0"):
        read({"max-partitions": "0"}, {})


def test_two_doors_cannot_have_one_address() -> None:
    with pytest.raises(InvalidConfig, match="two doors"):
        read({"kafka": "127.0.0.1:8081"}, {})
    read({"kafka": "127.0.0.1:0", "http": "127.0.0.1:0"}, {})


def test_topic_settings_that_contradict_each_other_are_refused_where_they_stand(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text('[topic.defaults]\nheadrace.storage = "memory"\ncleanup.policy = "compact"\n')
    (problem,) = load({"config": str(file)}, {}).problems
    assert problem.where.startswith(f"{file}:")
    assert "memory is a ring" in problem.text
    compacted = '[{"name": "a", "config": {"headrace.storage": "memory", "cleanup.policy": "compact"}}]'
    with pytest.raises(InvalidConfig, match=r"--default-topics .* topic 'a'"):
        read({"default-topics": compacted}, {})
    ring = '[{"name": "a", "config": {"headrace.storage": "memory"}}]'
    read({"default-topics": ring, "topic-cleanup-policy": "compact"}, {})  # the default is for those that do not forget


def test_all_problems_are_told_at_once_and_an_overruled_value_is_looked_at_too(tmp_path: Path) -> None:
    file = tmp_path / "node.toml"
    file.write_text("[node]\nid = -1\nnmae = 1\n")
    flags = {"config": str(file), "node-id": "1", "kafka": "x", "kafak": "y"}
    with pytest.raises(InvalidSettings) as refused:
        read(flags, {"HEADRACE_IDLE_MS": "1ms"})
    places = [problem.where.partition(" ")[0] for problem in refused.value.problems]
    assert places == ["--kafak", "--kafka", "HEADRACE_IDLE_MS", f"{file}:2", f"{file}:3"]
    assert len(str(refused.value).splitlines()) == 5


def test_topics_that_are_made_at_the_start_are_text_or_json() -> None:
    plain = read({"default-topics": "orders:3, audit ,"}, {}).default_topics
    assert [(topic.name, topic.partitions) for topic in plain] == [("orders", 3), ("audit", -1)]
    (rich,) = read({"default-topics": '[{"name": "a", "config": {"retention": {"ms": "1d"}}}]'}, {}).default_topics
    assert rich.configs == {"retention.ms": "86400000"}


def test_levels_are_given_by_event_or_by_its_first_word() -> None:
    assert read({"log-levels": "kafka=debug, topic.created=warning"}, {}).log_levels == {
        "kafka": "debug",
        "topic.created": "warning",
    }


def test_a_setting_is_found_by_its_key_flag_or_variable() -> None:
    names = ("kafka.idle-ms", "kafka.idle_ms", "--idle-ms", "idle-ms", "HEADRACE_IDLE_MS")
    assert {known_setting(name).key for name in names} == {"kafka.idle-ms"}
    assert known("idle") is None


def test_another_source_takes_its_place_in_the_order() -> None:
    class Foreign:
        """Somebody's older variables, under our keys."""

        def read(self, problems):
            yield Given("node.id", "5", Origin("environment", "OLD_ID"))

    tree = Tree([Foreign()])
    assert tree.held(known_setting("node.id")) == (5, Origin("environment", "OLD_ID"), ())


def test_a_broker_is_told_what_its_node_was_started_with_in_the_names_that_kafka_has() -> None:
    static = {setting.name: setting for setting in read({"idle-ms": "5m"}, {}).broker.static}
    assert (static["connections.max.idle.ms"].value, static["connections.max.idle.ms"].is_default) == ("300000", False)
    assert static["listeners"].value == "PLAINTEXT://127.0.0.1:9092"
    assert static["headrace.kafka.stall-ms"].is_default
    assert {setting.kind for setting in static.values()} <= set(config.KINDS)
    assert not {name for name in static if name.startswith("headrace.topic.")}
