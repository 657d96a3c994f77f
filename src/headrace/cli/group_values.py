"""What is known of a group, as commands show it, and how it is asked for.

Lag is told twice: in records, from the committed offset to the end, and in seconds, by how old the record is that
the group reads next. A group that has read everything lags 0 and 0; where there is no position nothing is told.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.names import completed, missing
from headrace.cli.output import Column
from headrace.cli.parsing import show_seconds
from headrace.doors.kafka.names import from_kafka
from headrace.errors import GroupNotFound, UnknownTopic

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.group_values import Committed, Group, GroupMember
    from headrace.client.values import TopicPartition


class GroupRow(msgspec.Struct, frozen=True):
    name: str
    state: str
    kind: str
    protocol_type: str
    coordinator: int
    members: int | None  # with --lag, as the two behind it
    lag: int | None
    lag_seconds: float | None


class PositionRow(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    committed: int | None
    start: int | None  # of the log; what is before it cannot be read any more
    end: int | None
    lag: int | None
    lag_seconds: float | None
    member: str | None
    client_id: str | None
    host: str | None


class MemberRow(msgspec.Struct, frozen=True):
    member: str
    instance: str | None
    client_id: str
    host: str
    topics: tuple[str, ...]
    partitions: int


class GroupDetail(msgspec.Struct, frozen=True):
    name: str
    state: str
    kind: str
    protocol_type: str
    assignor: str
    coordinator: int
    lag: int | None
    lag_seconds: float | None
    members: tuple[MemberRow, ...]
    positions: tuple[PositionRow, ...]


class Ends(msgspec.Struct, frozen=True):
    start: int
    end: int


LAG = [
    Column("lag", align="right"),
    Column("lag_seconds", "behind", align="right", show=show_seconds),
]
GROUP_COLUMNS = [
    Column("name", "group"),
    Column("state"),
    Column("kind"),
    Column("protocol_type", "protocol", wide=True),
    Column("coordinator", wide=True, align="right"),
]
LAG_COLUMNS = [Column("members", align="right"), *LAG]
POSITION_COLUMNS = [
    Column("topic"),
    Column("partition", align="right"),
    Column("committed", align="right"),
    Column("start", wide=True, align="right"),
    Column("end", align="right"),
    *LAG,
    Column("client_id", "client"),
    Column("host", wide=True),
    Column("member", wide=True),
]
MEMBER_COLUMNS = [
    Column("member"),
    Column("client_id", "client"),
    Column("instance", wide=True),
    Column("host"),
    Column("topics", wide=True),
    Column("partitions", align="right"),
]


def complete(incomplete: str) -> list[str]:
    return completed(incomplete, _names)


async def _names(client: Client) -> list[str]:
    return [group.name for group in await client.admin.list_groups()]


GroupName = Annotated[str, typer.Argument(metavar="GROUP", help="the group's name", autocompletion=complete)]
GroupNames = Annotated[list[str], typer.Argument(metavar="GROUP", help="names of groups", autocompletion=complete)]


async def one(client: Client, name: str) -> Group:
    """The group; when there is none, the error names the nearest."""
    try:
        return (await client.admin.describe_groups([name]))[0]
    except GroupNotFound:
        known = await _names(client)
    raise missing("group", name, known, "headrace group list")


async def detail_of(client: Client, name: str) -> GroupDetail:
    group = await one(client, name)
    positions = await position_rows(client, await client.admin.group_offsets(name), group.members)
    lag, lag_seconds = total_lag(positions)
    members = tuple(
        MemberRow(m.id, m.instance_id, m.client_id, m.host, m.topics, len(m.partitions)) for m in group.members
    )
    return GroupDetail(
        group.name,
        group.state,
        group.kind,
        group.protocol_type,
        group.assignor,
        group.coordinator,
        lag,
        lag_seconds,
        members,
        tuple(positions),
    )


async def position_rows(
    client: Client, committed: Mapping[TopicPartition, Committed], members: Sequence[GroupMember] = ()
) -> list[PositionRow]:
    """Of every partition that has a position or an owner."""
    owners = {where: member for member in members for where in member.partitions}
    wanted = sorted({*committed, *owners})
    ends = await ends_of(client, {topic for topic, _ in wanted})
    behind: dict[tuple[str, int], int] = {
        where: max(committed[where].offset, ends[where].start)
        for where in wanted
        if where in committed and where in ends and committed[where].offset < ends[where].end
    }
    now_ms = time.time_ns() // 1_000_000
    times = await client.admin.record_times(behind)
    rows = []
    for where in wanted:
        offset = committed[where].offset if where in committed else None
        known, owner = ends.get(where), owners.get(where)
        lag = None if offset is None or known is None else max(0, known.end - offset)
        lag_seconds = None
        if where in times and times[where] >= 0:
            lag_seconds = max(0, now_ms - times[where]) / 1000
        elif lag == 0 or (where in behind and where not in times):  # nothing, or nothing but markers
            lag_seconds = 0.0
        rows.append(
            PositionRow(
                from_kafka(where.topic),
                where.partition,
                offset,
                known.start if known else None,
                known.end if known else None,
                lag,
                lag_seconds,
                owner.id if owner else None,
                owner.client_id if owner else None,
                owner.host if owner else None,
            )
        )
    return rows


def total_lag(rows: Sequence[PositionRow]) -> tuple[int | None, float | None]:
    """All records together, and the partition that is furthest behind in time."""
    lags = [row.lag for row in rows if row.lag is not None]
    seconds = [row.lag_seconds for row in rows if row.lag_seconds is not None]
    return (sum(lags) if lags else None), (max(seconds) if seconds else None)


async def ends_of(client: Client, topics: Iterable[str]) -> dict[tuple[str, int], Ends]:
    """Where each partition begins and ends; nothing of a topic that was deleted since."""
    found: dict[tuple[str, int], Ends] = {}
    for topic in sorted(topics):
        try:
            starts, ends = await client.admin.offsets(topic, "start"), await client.admin.offsets(topic, "end")
        except UnknownTopic:
            continue
        found |= {(topic, index): Ends(starts[index].offset, ends[index].offset) for index in starts}
    return found
