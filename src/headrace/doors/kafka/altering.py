"""What AlterConfigs and IncrementalAlterConfigs share: from the resources of a request to wishes, and answers.

Kafka's rules for both: a resource that is in the request twice is refused, each time; so is a resource that names a
setting twice, or sets one to null. A wrong value is INVALID_CONFIG for a topic, and INVALID_REQUEST for a broker.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

from headrace.broker.alteration import Alteration, Change
from headrace.doors.kafka import levels, resources
from headrace.doors.kafka.context import Context
from headrace.doors.kafka.finding import outcome
from headrace.doors.kafka.names import from_kafka
from headrace.doors.kafka.resources import Kind
from headrace.errors import HeadraceError, InvalidConfig
from headrace.wire.kafka import messages
from headrace.wire.kafka.errors import InvalidRequest


class Asked(NamedTuple):
    """One resource of a request; `changes` may be why they make no sense."""

    kind: int
    name: str
    changes: Sequence[Change] | HeadraceError
    replace: bool


async def answers(context: Context, asked: Sequence[Asked], validate_only: bool) -> list[HeadraceError | None]:
    times = Counter((one.kind, one.name) for one in asked)
    wishes: dict[int, Alteration] = {}
    ended: list[HeadraceError | None] = [None] * len(asked)
    for place, one in enumerate(asked):
        try:
            if times[one.kind, one.name] > 1:
                raise InvalidRequest("each resource is in a request at most once")
            if resources.kind_of(one.kind) is Kind.BROKER_LOGGER:
                _alter_levels(context, one, validate_only)
            else:
                wishes[place] = _wish(context, one)
        except HeadraceError as error:
            ended[place] = error
    try:
        said = await context.broker.alter_configs(list(wishes.values()), validate_only)
    except HeadraceError as error:
        said = [error] * len(wishes)
    for place, answer in zip(wishes, said, strict=True):
        ended[place] = answer
        if isinstance(answer, InvalidConfig) and asked[place].kind == Kind.BROKER:
            ended[place] = InvalidRequest(str(answer))
    return ended


def _wish(context: Context, one: Asked) -> Alteration:
    changes = _changes(one)
    if one.kind == Kind.TOPIC:
        resources.topic_of(context.broker, one.name)
        return Alteration(from_kafka(one.name), changes, replace=one.replace)
    node_id = resources.node_of(context.broker, one.name, or_all=True)
    return Alteration(None, changes, node_id, one.replace)


def _alter_levels(context: Context, one: Asked, trial: bool) -> None:
    resources.node_of(context.broker, one.name, or_all=False)
    if one.replace:
        raise InvalidRequest("levels are set one by one: IncrementalAlterConfigs does it")
    levels.alter(context.broker, _changes(one), trial)


def _changes(one: Asked) -> tuple[Change, ...]:
    if isinstance(one.changes, HeadraceError):
        raise one.changes
    repeated = [name for name, times in Counter(change.name for change in one.changes).items() if times > 1]
    if repeated:
        raise InvalidRequest(f"{repeated[0][:100]} is in the request more than once")
    return tuple(one.changes)


def results(kind: Any, asked: Sequence[Asked], ended: Sequence[HeadraceError | None]) -> tuple[Any, ...]:
    """`kind`: the structure that holds one answer."""
    return tuple(
        messages.build(kind, **outcome(error), resource_type=one.kind, resource_name=one.name)
        for one, error in zip(asked, ended, strict=True)
    )
