"""DescribeConfigs, AlterConfigs and IncrementalAlterConfigs in every version, over a socket of a real node."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.broker.settings import StaticSetting
from headrace.doors.kafka.api.describe_configs import MAX_ANSWER_BYTES
from headrace.wire.kafka import header, messages, metadata
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.metadata import AskedTopic, MetadataRequest
from tests.doors.asking import Asker, another, asking, create, record

TOPIC, BROKER, LOGGER, METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
OF_TOPIC, OF_NODE, OF_ALL, STATIC, DEFAULT, OF_LOGGER = range(1, 7)
DAY_MS = 86_400_000


async def describe(
    asker: Asker, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **more: bool
) -> Any:
    fields = {
        "resources": [{"resource_type": kind, "resource_name": name, "configuration_keys": keys}],
        "include_synonyms": more.get("synonyms", False),
    }
    if version >= 3:
        fields["include_documentation"] = more.get("documentation", False)
    answer = await asker.ask_by_schema(header.DESCRIBE_CONFIGS, version, fields)
    (result,) = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


async def values(asker: Asker, kind: int, name: str) -> dict[str, tuple[str, int]]:
    result = await describe(asker, kind, name)
    return {one.name: (one.value, one.config_source) for one in result.configs}


async def alter(asker: Asker, *resources: Any, version: int = 1, trial: bool = False) -> list[int]:
    """Incrementally; each resource is (kind, name, [(setting, operation, value)…])."""
    fields = {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": n, "config_operation": op, "value": value} for n, op, value in configs],
            }
            for kind, name, configs in resources
        ],
        "validate_only": trial,
    }
    answer = await asker.ask_by_schema(header.INCREMENTAL_ALTER_CONFIGS, version, fields)
    assert [(one.resource_type, one.resource_name) for one in answer.responses] == [one[:2] for one in resources]
    return [one.error_code for one in answer.responses]


async def replace(asker: Asker, kind: int, name: str, configs: dict[str, str | None], version: int = 2) -> int:
    fields = {
        "resources": [
            {
                "resource_type": kind,
                "resource_name": name,
                "configs": [{"name": n, "value": value} for n, value in configs.items()],
            }
        ],
        "validate_only": False,
    }
    answer = await asker.ask_by_schema(header.ALTER_CONFIGS, version, fields)
    return int(answer.responses[0].error_code)


# Describing


@pytest.mark.parametrize("version", range(1, 5))
async def test_a_topics_settings_are_told_with_their_sources(asker: Asker, version: int) -> None:
    await create(asker, "t", configs={"retention.ms": "5"})
    result = await describe(asker, TOPIC, "t", version=version, synonyms=True, documentation=True)
    assert result.error_code == Code.NONE
    found = {one.name: one for one in result.configs}
    assert (found["retention.ms"].value, found["retention.ms"].config_source) == ("5", OF_TOPIC)
    assert found["segment.bytes"].config_source == DEFAULT and not found["segment.bytes"].read_only
    assert [(one.name, one.source) for one in found["retention.ms"].synonyms] == [
        ("retention.ms", OF_TOPIC),
        ("log.retention.ms", DEFAULT),
    ]
    if version >= 3:
        assert (found["retention.ms"].config_type, found["cleanup.policy"].config_type) == (5, 7)
        assert "kept" in found["retention.ms"].documentation


async def test_what_is_not_asked_for_is_not_told(asker: Asker) -> None:
    await create(asker, "t")
    result = await describe(asker, TOPIC, "t", ["retention.ms", "no.such"])
    assert [(one.name, one.synonyms, one.documentation) for one in result.configs] == [("retention.ms", (), None)]
    assert len((await describe(asker, TOPIC, "t", [])).configs) > 10


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", Code.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "bad name!", Code.INVALID_TOPIC_EXCEPTION),
        (TOPIC, "", Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "7", Code.INVALID_REQUEST),
        (BROKER, "zero", Code.INVALID_REQUEST),
        (LOGGER, "", Code.INVALID_REQUEST),
        (METRICS, "m", Code.INVALID_REQUEST),
        (GROUP, "g", Code.INVALID_REQUEST),
        (0, "", Code.INVALID_REQUEST),
        (127, "x" * 30_000, Code.INVALID_REQUEST),
    ],
)
async def test_what_has_no_settings_is_refused_when_it_is_described(
    asker: Asker, kind: int, name: str, code: Code
) -> None:
    result = await describe(asker, kind, name)
    assert (result.error_code, result.configs) == (code, ())
    assert result.error_message


async def test_a_node_tells_what_it_was_started_with_and_what_can_be_changed(tmp_path: Path) -> None:
    static = (
        StaticSetting("limit", "5"),
        StaticSetting("log.dirs", "x"),
        StaticSetting("password", "secret", sensitive=True),
    )
    async with asking(tmp_path, static=static, topic_defaults={"retention.ms": "77"}) as asker:
        result = await describe(asker, BROKER, "0", synonyms=True)
        found = {one.name: one for one in result.configs}
        assert (found["limit"].value, found["limit"].read_only) == ("5", True)
        assert (found["log.dirs"].value, found["node.id"].value) == (asker.node.store.path, "0")
        address = asker.node.addresses["kafka"]
        assert found["advertised.listeners"].value == f"PLAINTEXT://{address}"
        assert len(found) == len(result.configs)
        assert (found["password"].value, found["password"].is_sensitive) == (None, True)
        assert (found["log.retention.ms"].value, found["log.retention.ms"].config_source) == ("77", STATIC)
        assert found["num.partitions"].read_only is False
        assert (await describe(asker, BROKER, "")).configs == ()


async def test_a_request_for_very_many_is_answered_up_to_a_limit_and_others_have_their_turn(asker: Asker) -> None:
    await create(asker, "t")
    schema = messages.schema("request", header.DESCRIBE_CONFIGS, 4)
    one = schema.DescribeConfigsResource(resource_type=BROKER, resource_name="0", configuration_keys=None)
    request = schema.DescribeConfigsRequest(
        resources=(one,) * 19_999, include_synonyms=True, include_documentation=True
    )
    async with another(asker) as other:
        asking = asyncio.ensure_future(asker.answer(messages.encode_request(request, 1, None)))
        assert (await describe(other, TOPIC, "t")).error_code == Code.NONE
        raw = await asking
    assert MAX_ANSWER_BYTES < len(raw) < MAX_ANSWER_BYTES * 1.1
    assert b"ask for fewer at once" in raw[-100:]


# Changing


@pytest.mark.parametrize("version", range(2))
async def test_a_setting_that_is_changed_is_in_force_at_once(asker: Asker, version: int) -> None:
    await create(asker, "t")
    assert (await asker.produce("t", 0, [record(1)])).error == Code.NONE
    assert await alter(asker, (TOPIC, "t", [("max.message.bytes", SET, "10")]), version=version) == [Code.NONE]
    assert (await asker.produce("t", 0, [record(1)])).error == Code.MESSAGE_TOO_LARGE
    assert await alter(asker, (TOPIC, "t", [("max.message.bytes", DELETE, None)]), version=version) == [Code.NONE]
    assert (await asker.produce("t", 0, [record(1)])).error == Code.NONE


@pytest.mark.parametrize("version", range(3))
async def test_the_old_way_replaces_all_settings(asker: Asker, version: int) -> None:
    await create(asker, "t", configs={"retention.ms": "5"})
    assert await replace(asker, TOPIC, "t", {"segment.ms": "6"}, version) == Code.NONE
    found = await values(asker, TOPIC, "t")
    assert (found["retention.ms"], found["segment.ms"]) == ((str(7 * DAY_MS), DEFAULT), ("6", OF_TOPIC))
    assert await replace(asker, TOPIC, "t", {"segment.ms": None}, version) == Code.INVALID_REQUEST
    assert await replace(asker, TOPIC, "t", {"segment.ms": "x"}, version) == Code.INVALID_CONFIG
    assert await replace(asker, TOPIC, "none", {"segment.ms": "1"}, version) == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_settings_of_nodes_are_the_defaults_of_topics(asker: Asker) -> None:
    await create(asker, "t")
    name = "log.retention.ms"
    assert await alter(asker, (BROKER, "", [(name, SET, "6")])) == [Code.NONE]
    assert (await values(asker, TOPIC, "t"))["retention.ms"] == ("6", OF_ALL)
    assert await alter(asker, (BROKER, "0", [(name, SET, "7")])) == [Code.NONE]
    assert (await values(asker, TOPIC, "t"))["retention.ms"] == ("7", OF_NODE)
    assert await values(asker, BROKER, "") == {name: ("6", OF_ALL)}
    assert (await values(asker, BROKER, "0"))[name] == ("7", OF_NODE)


async def test_clients_can_be_kept_from_creating_topics_while_the_node_runs(asker: Asker) -> None:
    asked = MetadataRequest([AskedTopic("new", None)])
    assert await alter(asker, (BROKER, "", [("auto.create.topics.enable", SET, "false")])) == [Code.NONE]
    _, (topic,) = await asker.ask(metadata, header.METADATA, 9, asked)
    assert topic.error == Code.UNKNOWN_TOPIC_OR_PARTITION
    assert await alter(asker, (BROKER, "", [("auto.create.topics.enable", DELETE, None)])) == [Code.NONE]
    _, (topic,) = await asker.ask(metadata, header.METADATA, 9, asked)
    assert topic.error == Code.NONE


async def test_a_trial_changes_nothing(asker: Asker) -> None:
    await create(asker, "t")
    wishes = [(TOPIC, "t", [("retention.ms", SET, "5")]), (BROKER, "", [("log.retention.ms", SET, "x")])]
    assert await alter(asker, *wishes, trial=True) == [Code.NONE, Code.INVALID_REQUEST]
    assert (await values(asker, TOPIC, "t"))["retention.ms"][1] == DEFAULT


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code"),
    [
        (TOPIC, "t", [("no.such", SET, "1")], Code.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, "9" * 40)], Code.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, "x" * 30_000)], Code.INVALID_CONFIG),
        (TOPIC, "t", [("compression.type", SET, "zstd")], Code.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", APPEND, "1")], Code.INVALID_CONFIG),
        (TOPIC, "t", [("retention.ms", SET, None)], Code.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", 4, "1")], Code.INVALID_REQUEST),
        (TOPIC, "t", [("retention.ms", SET, "1"), ("retention.ms", DELETE, None)], Code.INVALID_REQUEST),
        (TOPIC, "t", [("no.such", DELETE, None)], Code.NONE),
        (TOPIC, "t", [], Code.NONE),
        (TOPIC, "bad name!", [("retention.ms", SET, "1")], Code.INVALID_TOPIC_EXCEPTION),
        (BROKER, "", [("log.dirs", SET, "1")], Code.INVALID_REQUEST),
        (BROKER, "", [("message.max.bytes", SET, "-1")], Code.INVALID_REQUEST),
        (BROKER, "1", [("message.max.bytes", SET, "1")], Code.INVALID_REQUEST),
        (LOGGER, "0", [("no.such", SET, "INFO")], Code.INVALID_CONFIG),
        (LOGGER, "0", [("log", SET, "LOUD")], Code.INVALID_CONFIG),
        (LOGGER, "0", [("log", APPEND, "INFO")], Code.INVALID_REQUEST),
        (LOGGER, "0", [("root", DELETE, None)], Code.INVALID_REQUEST),
        (LOGGER, "0", [("log", SET, "INFO"), ("log", SET, "WARN")], Code.INVALID_REQUEST),
        (LOGGER, "7", [("log", SET, "INFO")], Code.INVALID_REQUEST),
        (LOGGER, "", [("log", SET, "INFO")], Code.INVALID_REQUEST),
        (METRICS, "m", [("a", SET, "b")], Code.INVALID_REQUEST),
        (-1, "m", [], Code.INVALID_REQUEST),
    ],
)
async def test_every_wrong_wish_has_kafkas_code(asker: Asker, kind: int, name: str, configs: Any, code: Code) -> None:
    await create(asker, "t")
    assert await alter(asker, (kind, name, configs)) == [code]


async def test_a_resource_that_is_named_twice_is_refused_and_the_others_are_not(asker: Asker) -> None:
    await create(asker, "t")
    await create(asker, "u")
    twice = (TOPIC, "t", [("retention.ms", SET, "5")])
    codes = await alter(asker, twice, (TOPIC, "u", [("retention.ms", SET, "5")]), twice)
    assert codes == [Code.INVALID_REQUEST, Code.NONE, Code.INVALID_REQUEST]
    assert (await values(asker, TOPIC, "u"))["retention.ms"] == ("5", OF_TOPIC)
    assert (await values(asker, TOPIC, "t"))["retention.ms"][1] == DEFAULT


async def test_log_levels_are_changed_while_the_node_runs(asker: Asker) -> None:
    async def levels() -> dict[str, str]:
        found = await values(asker, LOGGER, "0")
        assert {source for _, source in found.values()} == {OF_LOGGER}
        return {name: level for name, (level, _) in found.items()}

    assert {"root", "kafka", "log", "topic"} <= set(await levels())
    assert set((await levels()).values()) == {"INFO"}
    assert await alter(asker, (LOGGER, "0", [("kafka", SET, "debug"), ("root", SET, "WARN")])) == [Code.NONE]
    assert ((await levels())["kafka"], (await levels())["log"]) == ("DEBUG", "WARN")
    assert await alter(asker, (LOGGER, "0", [("kafka", SET, "ERROR")]), trial=True) == [Code.NONE]
    assert await alter(asker, (LOGGER, "0", [("kafka", DELETE, None)])) == [Code.NONE]
    assert set((await levels()).values()) == {"WARN"}
    assert await replace(asker, LOGGER, "0", {"kafka": "INFO"}) == Code.INVALID_REQUEST


async def test_a_node_that_stops_refuses_changes_and_says_so(asker: Asker) -> None:
    await create(asker, "t")
    asker.node.broker.close()
    wishes = [(TOPIC, "t", [("retention.ms", SET, "5")]), (BROKER, "", [("log.retention.ms", SET, "5")])]
    assert await alter(asker, *wishes) == [Code.NOT_LEADER_OR_FOLLOWER] * 2


# What there is


@pytest.mark.parametrize(
    ("kinds", "found"),
    [
        ([], {("t", TOPIC), ("0", BROKER), ("0", LOGGER)}),
        ([TOPIC], {("t", TOPIC)}),
        ([BROKER, BROKER], {("0", BROKER)}),
        ([METRICS, GROUP], set()),
    ],
)
async def test_what_has_settings_is_listed(asker: Asker, kinds: list[int], found: set[tuple[str, int]]) -> None:
    await create(asker, "t")
    answer = await asker.ask_by_schema(header.LIST_CONFIG_RESOURCES, 1, {"resource_types": kinds})
    assert answer.error_code == Code.NONE
    assert {(one.resource_name, one.resource_type) for one in answer.config_resources} == found


async def test_an_unknown_kind_of_resource_is_refused_and_version_0_knows_none_of_ours(asker: Asker) -> None:
    answer = await asker.ask_by_schema(header.LIST_CONFIG_RESOURCES, 1, {"resource_types": [TOPIC, 77]})
    assert (answer.error_code, answer.config_resources) == (Code.UNSUPPORTED_VERSION, ())
    answer = await asker.ask_by_schema(header.LIST_CONFIG_RESOURCES, 0, {})
    assert (answer.error_code, answer.config_resources) == (Code.NONE, ())
