"""The settings of topics and brokers: described with where each value comes from, changed one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

from headrace.client import backoff
from headrace.client.apis import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from headrace.client.asking import Asking
from headrace.client.refusals import error_of
from headrace.client.values import Setting, Synonym

TOPIC, BROKER = 2, 4
KINDS: Final = {"topic": TOPIC, "broker": BROKER, "cluster": BROKER}  # the cluster is the broker without a name

SOURCES: Final = {
    1: "topic",
    2: "broker",
    3: "cluster",
    4: "static",
    5: "default",
    6: "logger",
    7: "client-metrics",
    8: "group",
}
DEFAULT_SOURCE: Final = 5
TYPES: Final = ("unknown", "boolean", "string", "int", "short", "long", "double", "list", "class", "password")

SEEN_LIMIT_S: Final = 1.0  # how long a change is waited for to be shown

SET, DELETE, APPEND, SUBTRACT = range(4)


class Settings:
    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    async def describe(self, kind: str, name: str) -> list[Setting]:
        number = _number(kind)

        def fill(schema: Any) -> Any:
            resource = schema.DescribeConfigsResource(resource_type=number, resource_name=name, configuration_keys=None)
            with_documentation = (
                {"include_documentation": True} if schema.DescribeConfigsRequest.__version__ >= 3 else {}
            )
            return schema.DescribeConfigsRequest(resources=(resource,), include_synonyms=True, **with_documentation)

        if kind == "broker":  # only the node itself knows
            answer = await self._asking.node(_node_id(name), DESCRIBE_CONFIGS, fill)
        else:
            answer = await self._asking.any(DESCRIBE_CONFIGS, fill)
        (result,) = answer.results
        if result.error_code.value:
            raise error_of(result.error_code.value, f"settings of {kind} {name!r}".rstrip(" '"), result.error_message)
        return sorted((_setting(found) for found in result.configs), key=lambda setting: setting.name)

    async def alter(
        self,
        kind: str,
        name: str,
        put: Mapping[str, str],
        delete: Iterable[str],
        append: Mapping[str, str],
        subtract: Mapping[str, str],
        validate_only: bool,
    ) -> None:
        number, delete = _number(kind), tuple(delete)
        changes: list[tuple[str, int, str | None]] = [(key, SET, str(value)) for key, value in put.items()]
        changes += [(key, DELETE, None) for key in delete]
        changes += [(key, APPEND, str(value)) for key, value in append.items()]
        changes += [(key, SUBTRACT, str(value)) for key, value in subtract.items()]

        def fill(schema: Any) -> Any:
            altered = tuple(
                schema.AlterableConfig(name=key, config_operation=operation, value=value)
                for key, operation, value in changes
            )
            resource = schema.AlterConfigsResource(resource_type=number, resource_name=name, configs=altered)
            return schema.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)

        node_id = _node_id(name) if kind == "broker" else None
        answer = await self._asking.controller(INCREMENTAL_ALTER_CONFIGS, fill, _codes, node_id)
        (result,) = answer.responses
        if result.error_code.value:
            raise error_of(result.error_code.value, f"settings of {kind} {name!r}", result.error_message)
        if not validate_only:
            await self._until_seen(kind, name, {key: str(value) for key, value in put.items()}, set(delete))

    async def _until_seen(self, kind: str, name: str, put: Mapping[str, str], deleted: Collection[str]) -> None:
        """The node that decides tells the others, and itself, a moment later. It is done in any case, so a value that
        is written otherwise than it was given is not waited for long."""
        loop = asyncio.get_running_loop()
        deadline, looks = loop.time() + SEEN_LIMIT_S, 0
        while loop.time() < deadline:
            found = {setting.name: setting for setting in await self.describe(kind, name)}
            is_seen = all(key in found and found[key].value in (value, None) for key, value in put.items())
            if is_seen and not any(key in found and found[key].source == kind for key in deleted):
                return
            looks += 1
            await asyncio.sleep(backoff.wait_s(looks, 0.01))


def _codes(answer: Any) -> list[int]:
    return [result.error_code.value for result in answer.responses]


def _number(kind: str) -> int:
    if kind not in KINDS:
        raise ValueError(f"{kind!r} has no settings; one of {', '.join(KINDS)} has")
    return KINDS[kind]


def _node_id(name: str) -> int:
    if not name.isascii() or not name.isdigit():
        raise ValueError(f"a broker is named by its node's id, and {name!r} is not a number")
    return int(name)


def _setting(found: Any) -> Setting:
    synonyms = tuple(
        Synonym(one.name, one.value, SOURCES.get(int(one.source), "unknown")) for one in found.synonyms or ()
    )
    source, kind = int(found.config_source), int(getattr(found, "config_type", 0))
    return Setting(
        found.name,
        found.value,
        SOURCES.get(source, "unknown"),
        source == DEFAULT_SOURCE,
        found.read_only,
        found.is_sensitive,
        TYPES[kind] if 0 <= kind < len(TYPES) else "unknown",
        getattr(found, "documentation", None),
        synonyms,
    )
