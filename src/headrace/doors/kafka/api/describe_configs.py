"""DescribeConfigs, 1 to 4: the settings of topics and of brokers, with where each value comes from and, when asked
for, every layer's word on it and what it does.

Tools ask for all topics at once: those with the same settings share what was made for the first, and in a long request
others have their turn in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Final

from headrace.broker.configuration import Described, Source, Synonym
from headrace.cluster.records import ALL_NODES
from headrace.doors.kafka import levels, resources
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.errors import code_for
from headrace.doors.kafka.registry import Api
from headrace.doors.kafka.resources import KINDS, SOURCES, UNKNOWN_KIND, Kind
from headrace.errors import HeadraceError
from headrace.ports import Buffer
from headrace.wire.kafka import describe_configs as wire
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import Code, InvalidRequest
from headrace.wire.kafka.header import DESCRIBE_CONFIGS

AT_ONCE: Final = 100  # resources that are described without a pause, some milliseconds
MAX_ANSWER_BYTES: Final = 64 << 20  # ten thousand topics with every word on them take half of it
MAX_SHARED: Final = 1000  # resources with different settings that are remembered while a request is answered


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes | Awaitable[bytes]:
    request = messages.decode(DESCRIBE_CONFIGS, context.version, buffer, at, end)
    answer = _Answer(context, request)
    if len(request.resources) > AT_ONCE:
        return _slowly(answer, request.resources)
    for resource in request.resources:
        answer.add(resource)
    return answer.encoded()


async def _slowly(answer: _Answer, asked: tuple[Any, ...]) -> bytes:
    for place, resource in enumerate(asked, 1):
        answer.add(resource)
        if place % AT_ONCE == 0:
            await asyncio.sleep(0)
    return answer.encoded()


class _Answer:
    def __init__(self, context: Context, request: Any) -> None:
        self._context, self._version = context, context.version
        self._synonyms: bool = request.include_synonyms
        self._documentation = context.version >= wire.DOCUMENTATION_FROM and request.include_documentation
        self._results: list[bytes] = []
        self._bytes = 0
        self._shared: dict[object, bytes] = {}

    def encoded(self) -> bytes:
        return wire.encode_response(self._version, self._context.correlation_id, self._results)

    def add(self, resource: Any) -> None:
        code, text, entries = Code.NONE, "", b""
        try:
            if self._bytes > MAX_ANSWER_BYTES:
                raise InvalidRequest(f"the answer would be over {MAX_ANSWER_BYTES} bytes: ask for fewer at once")
            entries = self._entries(resource)
        except HeadraceError as error:
            (code, text), entries = code_for(error), wire.encode_entries(self._version, ())
        kind, name = resource.resource_type, resource.resource_name
        self._results.append(wire.encode_result(self._version, code, text, kind, name, entries))
        self._bytes += len(self._results[-1])

    def _entries(self, resource: Any) -> bytes:
        kind, name = resources.kind_of(resource.resource_type), resource.resource_name
        keys = frozenset(resource.configuration_keys or ())
        own: dict[str, str] = {}
        if kind is Kind.TOPIC:
            own = resources.topic_of(self._context.broker, name).image.config
            same: object = (keys, tuple(sorted(own.items())))
        else:
            same = (keys, kind, name)
        entries = self._shared.get(same)
        if entries is None:
            settings = self._of_topic(own) if kind is Kind.TOPIC else _of_broker(self._context, resource)
            entries = self._encode(settings, keys)
            if len(self._shared) < MAX_SHARED:
                self._shared[same] = entries
        return entries

    def _of_topic(self, own: dict[str, str]) -> list[Described]:
        return self._context.broker.configuration.describe_topic(own)

    def _encode(self, settings: list[Described], keys: frozenset[str]) -> bytes:
        wanted = [self._entry(setting) for setting in settings if not keys or setting.name in keys]
        return wire.encode_entries(self._version, wanted)

    def _entry(self, setting: Described) -> wire.Entry:
        hidden = setting.sensitive
        synonyms = [
            wire.Synonym(one.name, None if hidden else one.value, SOURCES[one.source.value])
            for one in (setting.synonyms if self._synonyms else ())
        ]
        return wire.Entry(
            setting.name,
            None if hidden else setting.value,
            setting.read_only,
            SOURCES[setting.source.value],
            hidden,
            synonyms,
            KINDS.get(setting.kind, UNKNOWN_KIND),
            setting.doc if self._documentation else None,
        )


def _of_broker(context: Context, resource: Any) -> list[Described]:
    broker, name = context.broker, resource.resource_name
    if resource.resource_type == Kind.BROKER_LOGGER:
        resources.node_of(broker, name, or_all=False)
        return levels.describe(broker)
    if resources.node_of(broker, name, or_all=True) == ALL_NODES:
        return broker.configuration.describe_all_nodes()
    own = _of_the_door(context)
    names = {setting.name for setting in own}
    return own + [setting for setting in broker.configuration.describe_node() if setting.name not in names]


def _of_the_door(context: Context) -> list[Described]:
    """What clients of Kafka look for, and what is so without being set."""
    host, port = context.listener
    host = f"[{host}]" if ":" in host else host
    broker = context.broker
    return [
        _fixed("advertised.listeners", "list", f"PLAINTEXT://{host}:{port}", "Where clients reach this node."),
        _fixed("broker.id", "int", str(broker.node_id), "The node's number in its cluster."),
        _fixed("node.id", "int", str(broker.node_id), "The node's number in its cluster."),
        _fixed("log.dirs", "list", broker.store.path, "The directory that holds everything."),
    ]


def _fixed(name: str, kind: str, value: str, doc: str) -> Described:
    return Described(name, kind, doc, (Synonym(name, value, Source.STATIC),), read_only=True)


API = Api(DESCRIBE_CONFIGS, "DescribeConfigs", range(wire.OLDEST, wire.NEWEST + 1), handle)
