"""`headrace group seek`: moves a group's positions. First the plan, then the question, then the change.

The plan is made of offsets that the log holds: what would be before the start or behind the end stops there, and that
is said. A position file has one `topic,partition,offset` on each line, as Kafka's own tool writes and reads them.
"""

from __future__ import annotations

import csv
import re
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.connecting import with_client
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.group_values import Ends, GroupName, ends_of, one
from headrace.cli.options import current, note
from headrace.cli.output import Column, plain_lines, printable, show
from headrace.cli.parsing import Position, counted, position, whole_numbers
from headrace.cli.topics import complete
from headrace.cli.topics import one as topic_of
from headrace.client.values import Time, TopicPartition
from headrace.doors.kafka.names import from_kafka, to_kafka
from headrace.errors import GroupNotFound

if TYPE_CHECKING:
    from headrace.aio import Client

MAX_FILE_BYTES = 64 << 20  # of a position file: more than a million partitions


class Sought(msgspec.Struct, frozen=True):
    group: str
    topic: str
    partition: int
    before: int | None  # None: the group had no position there
    after: int
    change: int | None
    applied: bool


class Asked(msgspec.Struct, frozen=True):
    """Where to: one of a position, a number of records to go on or back, or offsets by partition."""

    to: Position | None = None
    by: int | None = None
    offsets: dict[TopicPartition, int] | None = None


COLUMNS = [
    Column("topic"),
    Column("partition", align="right"),
    Column("before", "was", align="right"),
    Column("after", "is", align="right"),
    Column("change", align="right", show=lambda change: f"{change:+d}"),
]


To = Annotated[
    str | None, typer.Option("--to", metavar="POSITION", help="start, end, an offset, -N (before the end), @time")
]
By = Annotated[
    str | None, typer.Option("--by", metavar="±N", help="so many offsets on (+N) or back (-N) from where it is")
]
FromFile = Annotated[str | None, typer.Option("--from-file", metavar="FILE", help="to the positions in this file")]
ToFile = Annotated[
    str | None, typer.Option("--to-file", metavar="FILE", help="first write the positions as they are now")
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "-t",
        "--topic",
        metavar="TOPIC",
        help="only this; may be one that it never read",
        show_default="all that it has a position in",
        autocompletion=complete,
    ),
]
Partitions = Annotated[
    str | None, typer.Option("-P", "--partition", metavar="N,…", help="only these", show_default="all")
]


def seek(
    group: GroupName,
    to: To = None,
    by: By = None,
    from_file: FromFile = None,
    to_file: ToFile = None,
    topic: Topics = None,
    partition: Partitions = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Move a group to another position: to read again, or to skip.

    The group must have no members. --dry-run shows where each partition would go. A time means the first record of that
    time or later. What --to-file wrote brings --from-file back.

    Examples:
      headrace group seek billing --to @-10m --dry-run
      headrace group seek billing --to start --topic orders --yes
      headrace group seek billing --by -100 --topic orders --partition 0
      headrace group seek billing --to end --to-file before.csv --yes
      headrace group seek billing --from-file before.csv --yes
    """
    asked = _asked(to, by, from_file, to_file)
    indexes = whole_numbers(partition) if partition is not None else None
    plan, members = with_client(lambda client: _planned(client, group, asked, topic, indexes, to_file))
    moves = [row for row in plan if row.before != row.after]
    if asked == Asked():
        _show(plan)
        return
    if members and not dry_run:
        raise Refusal(
            f"group {group} has {counted(members, 'member')}, and its positions are theirs",
            "stop them, then seek; --dry-run shows the plan meanwhile",
        )
    if members:
        note(f"Group {group} has {counted(members, 'member')}: stop them before it is moved.")
    if not moves:
        note(f"Nothing to move: group {group} is there already.")
    elif _confirmed(group, moves, yes, dry_run):
        target = {(row.topic, row.partition): row.after for row in moves}
        with_client(lambda client: client.admin.alter_group_offsets(group, target))
        plan = [msgspec.structs.replace(row, applied=row.before != row.after) for row in plan]
    _show(plan)


def _asked(to: str | None, by: str | None, from_file: str | None, to_file: str | None) -> Asked:
    given = [name for name, value in (("--to", to), ("--by", by), ("--from-file", from_file)) if value is not None]
    if len(given) > 1:
        raise usage(f"{' and '.join(given)} say different things", "one of --to, --by, --from-file")
    if to is not None:
        return Asked(to=position(to, time.time_ns() // 1_000_000))
    if by is not None:
        if not re.fullmatch(r"[+-]?\d{1,18}", by):
            raise usage(f"--by does not take {by!r}", "so many offsets on or back: --by +100, --by -100")
        return Asked(by=int(by))
    if from_file is not None:
        return Asked(offsets=read_positions(from_file))
    if to_file is None:
        raise usage("where to was not said", "--to start|end|N|-N|@time, --by ±N or --from-file FILE")
    return Asked()


async def _planned(
    client: Client,
    group: str,
    asked: Asked,
    topics: list[str] | None,
    indexes: list[int] | None,
    to_file: str | None,
) -> tuple[list[Sought], int]:
    """The plan, and how many members the group has."""
    members = await _members(client, group, may_be_new=bool(topics or asked.offsets))
    committed = await client.admin.group_offsets(group, stable=True)
    before = {where: known.offset for where, known in committed.items()}
    wanted = await _wanted(client, group, asked, topics, indexes, before)
    if to_file is not None:
        write_positions(to_file, {where: before[where] for where in wanted if where in before})
    ends = await ends_of(client, {where.topic for where in wanted})
    gone = [where for where in wanted if where not in ends]
    for where in gone:
        note(f"Left out: {where.topic} partition {where.partition} is not there any more.")
    targets = await _targets(client, asked, {where: ends[where] for where in wanted if where in ends}, before)
    rows = []
    for where, after in sorted(targets.items()):
        was = before.get(where)
        rows.append(Sought(group, *where, was, after, None if was is None else after - was, False))
    return rows, members


async def _members(client: Client, group: str, *, may_be_new: bool) -> int:
    if not may_be_new:
        return len((await one(client, group)).members)
    try:
        (found,) = await client.admin.describe_groups([group])
    except GroupNotFound:
        note(f"There is no group {group} yet: it begins with these positions.")
        return 0
    return len(found.members)


async def _wanted(
    client: Client,
    group: str,
    asked: Asked,
    topics: list[str] | None,
    indexes: list[int] | None,
    before: Mapping[TopicPartition, int],
) -> list[TopicPartition]:
    found = sorted(asked.offsets if asked.offsets is not None else before)
    if topics and asked.offsets is None:
        found = []
        for name in dict.fromkeys(topics):
            known = await topic_of(client, name)
            found += [TopicPartition(to_kafka(from_kafka(name)), one.index) for one in known.partitions]
    if topics:
        plain = set(map(from_kafka, topics))
        found = [where for where in found if from_kafka(where.topic) in plain]
    if indexes is not None:
        found = [where for where in found if where.partition in indexes]
    if not found:
        words = " that was named" if topics or indexes is not None else ""
        raise not_found(f"group {group} has no position in any partition{words}", f"headrace group describe {group}")
    return found


async def _targets(
    client: Client, asked: Asked, ends: Mapping[TopicPartition, Ends], before: Mapping[TopicPartition, int]
) -> dict[TopicPartition, int]:
    times: dict[TopicPartition, int] = {}
    if isinstance(asked.to, Time):
        for topic in {where.topic for where in ends}:
            at = await client.admin.offsets(topic, asked.to)
            times |= {TopicPartition(topic, index): found.offset for index, found in at.items()}
    targets, bounded = {}, 0
    for where, known in ends.items():
        to = _target(asked, where, known, before.get(where), times)
        if to is None:
            note(f"Left out: the group has no position in {where.topic} partition {where.partition} to go on from.")
            continue
        targets[where] = min(max(to, known.start), known.end)
        bounded += targets[where] != to
    if bounded:
        note(f"In {counted(bounded, 'partition')} the log begins later or ends earlier: the plan stops there.")
    return targets


def _target(
    asked: Asked, where: TopicPartition, known: Ends, before: int | None, times: Mapping[TopicPartition, int]
) -> int | None:
    if asked.offsets is not None:
        return asked.offsets[where]
    if asked.by is not None:
        return None if before is None else before + asked.by
    if asked.to is None:
        return before
    if isinstance(asked.to, Time):
        return times[where] if times.get(where, -1) >= 0 else known.end  # nothing is that young
    if isinstance(asked.to, str):
        return known.start if asked.to == "start" else known.end
    return asked.to if asked.to >= 0 else max(known.start, known.end + asked.to)


def _confirmed(group: str, moves: list[Sought], yes: bool, dry_run: bool) -> bool:
    what = f"move group {group} in {counted(len(moves), 'partition')}"
    back = sum(-row.change for row in moves if row.change is not None and row.change < 0)
    on = sum(row.change for row in moves if row.change is not None and row.change > 0)
    told = [f"{back} offsets back" if back else "", f"{on} offsets on" if on else ""]
    if any(told):
        what += f" ({', '.join(filter(None, told))})"
    if not yes and not dry_run and sys.stdin.isatty() and sys.stderr.isatty():
        cells = [[printable(_cell(column, row)) for column in COLUMNS] for row in moves]
        print("\n".join(plain_lines(cells, COLUMNS)), file=sys.stderr)
    return confirm(what, yes=yes, dry_run=dry_run)


def _cell(column: Column, row: Sought) -> str:
    value = getattr(row, column.name)
    return "" if value is None else column.show(value) if column.show else str(value)


def _show(rows: list[Sought]) -> None:
    options = current()
    every = [Column(name) for name in Sought.__struct_fields__]
    show(rows, COLUMNS if options.output_or() in ("table", "wide") else every, options)


def read_positions(file: str) -> dict[TopicPartition, int]:
    found: dict[TopicPartition, int] = {}
    with open(file, newline="", encoding="utf-8") as lines:
        for number, row in enumerate(csv.reader(lines.read(MAX_FILE_BYTES).splitlines()), 1):
            if not row or (number == 1 and row == ["topic", "partition", "offset"]):
                continue
            if len(row) != 3 or not row[0] or not all(re.fullmatch(r"\d{1,18}", text) for text in row[1:]):
                raise usage(f"{file} line {number} is no position", "topic,partition,offset on each line")
            found[TopicPartition(row[0], int(row[1]))] = int(row[2])
    if not found:
        raise usage(f"{file} has no positions", "topic,partition,offset on each line")
    return found


def write_positions(file: str, positions: Mapping[TopicPartition, int]) -> None:
    with open(file, "x", newline="", encoding="utf-8") as out:
        csv.writer(out, lineterminator="\n").writerows((*where, offset) for where, offset in sorted(positions.items()))
    note(f"Wrote {counted(len(positions), 'position')} to {file}; --from-file {file} brings them back.")
