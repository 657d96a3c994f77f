"""Log levels as Kafka's tools see them: a broker has loggers, each with a level. Ours are the nouns that events begin
with (`kafka`, `log`, `topic` …) and `root` for those without a level of their own. A change holds until the node stops.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.broker.alteration import Change, Op
from headrace.broker.broker import Broker
from headrace.broker.configuration import Described, Source, Synonym
from headrace.broker.values import shown
from headrace.errors import InvalidConfig
from headrace.wire.kafka.errors import InvalidRequest

ROOT = "root"
_OURS = {"TRACE": "debug", "DEBUG": "debug", "INFO": "info", "WARN": "warning", "ERROR": "error", "FATAL": "error"}
_KAFKAS = {"debug": "DEBUG", "info": "INFO", "warning": "WARN", "error": "ERROR"}


def describe(broker: Broker) -> list[Described]:
    levels = broker.loggers.levels() if broker.loggers is not None else {}
    return [
        Described(name, "string", "", (Synonym(name, _KAFKAS[level], Source.LOGGER),)) for name, level in levels.items()
    ]


def alter(broker: Broker, changes: Sequence[Change], trial: bool) -> None:
    """All of them or none; nothing at all in a trial."""
    known = broker.loggers.levels() if broker.loggers is not None else {}
    for name, op, value in changes:
        if op not in (Op.SET, Op.DELETE):
            raise InvalidRequest(f"a level is set or taken back; {op.value} is for lists")
        if name not in known:
            raise InvalidConfig(f"there is no logger {shown(name)}; there are {', '.join(known) or 'none'}")
        if op is Op.SET and value.strip().upper() not in _OURS:
            raise InvalidConfig(f"{name} takes {', '.join(_KAFKAS.values())}, not {shown(value)}")
        if op is Op.DELETE and name == ROOT:
            raise InvalidRequest("root has nothing to fall back to: set its level")
    if broker.loggers is not None and not trial:
        for name, op, value in changes:
            broker.loggers.set_level(name, _OURS[value.strip().upper()] if op is Op.SET else None)
