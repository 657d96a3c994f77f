"""`headrace group`: look at groups, delete them; `group_seek` moves them.

A group's positions are its members' while it has any. So seek and delete want it empty, and say how many members have
to be stopped; the server holds to that too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli import names
from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.exits import Refusal, not_found
from headrace.cli.group_seek import seek
from headrace.cli.group_values import (
    GROUP_COLUMNS,
    LAG_COLUMNS,
    MEMBER_COLUMNS,
    POSITION_COLUMNS,
    GroupDetail,
    GroupName,
    GroupNames,
    GroupRow,
    PositionRow,
    complete,
    detail_of,
    one,
)
from headrace.cli.options import current, note
from headrace.cli.output import Column, done, show, show_one
from headrace.cli.parsing import counted, show_seconds
from headrace.errors import GroupNotFound

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.group_values import GroupListing

app = Noun("Groups: list, describe with their lag, seek, delete.")
NO_GROUPS = "No groups yet; a consumer that joins one or commits makes it."


class Deleted(msgspec.Struct, frozen=True):
    group: str
    topics: tuple[str, ...]  # whose positions went; none: the whole group
    action: str  # deleted, or missing (--if-exists)


@app.command("list")
def list_(
    pattern: Annotated[
        str | None,
        typer.Argument(help="only names that this regular expression matches whole", autocompletion=complete),
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="only these: empty, stable, …")
    ] = None,
    lag: Annotated[bool, typer.Option("--lag", help="also members and lag; asks for every partition")] = False,
) -> None:
    """List the groups.

    Examples:
      headrace group list
      headrace group list 'orders-.*' --lag
      headrace group list --state empty -o json
    """
    matches = names.pattern(pattern, "headrace group list 'orders-.*'")
    states = {text.lower() for text in state or ()}

    async def work(client: Client) -> list[GroupRow]:
        found = [
            group
            for group in await client.admin.list_groups()
            if matches.fullmatch(group.name) and (not states or group.state.lower() in states)
        ]
        return [await _row(client, group, lag) for group in found]

    rows = with_client(work)
    show(rows, GROUP_COLUMNS + (LAG_COLUMNS if lag else []), empty=NO_GROUPS if pattern is None else "")
    if pattern is not None and not rows:
        raise not_found(f"no group matches {pattern}", "`headrace group list` shows what there is")


@app.command()
def describe(group: GroupName) -> None:
    """Show a group: its members, what each reads, and how far behind it is.

    Lag is told in records, and in time: how old the next record is that the group will read.

    Examples:
      headrace group describe billing
      headrace group describe billing -o wide
      headrace group describe billing -o json
    """
    found = with_client(lambda client: detail_of(client, group))
    options = current()
    if options.output_or() == "csv":
        show(found.positions, [Column(name) for name in PositionRow.__struct_fields__], options)
    elif options.output_or() not in ("table", "wide"):
        show_one(found, [Column(name) for name in GroupDetail.__struct_fields__], options)
    else:
        _tell(found)


@app.command()
def delete(
    groups: GroupNames,
    topic: Annotated[
        list[str] | None, typer.Option("-t", "--topic", metavar="TOPIC", help="only its positions in this topic")
    ] = None,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="one that does not exist is fine")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete groups that have no members, with all their positions.

    With --topic the group stays and forgets where it stood in that topic.

    Examples:
      headrace group delete billing
      headrace group delete billing-test-1 billing-test-2 --yes
      headrace group delete billing --topic orders --dry-run
    """
    wanted = list(dict.fromkeys(groups))

    async def find(client: Client) -> dict[str, list[tuple[str, int]]]:
        """By group, its positions; a group that there is not is left out."""
        found = {}
        for name in wanted:
            try:
                members = len((await one(client, name)).members)
            except Refusal:
                if not if_exists:
                    raise
                continue
            if members and not topic:
                raise Refusal(f"group {name} has {counted(members, 'member')}", "stop them, then delete it")
            positions = [(where.topic, where.partition) for where in await client.admin.group_offsets(name)]
            for missing in set(topic or ()) - {where[0] for where in positions}:
                raise not_found(f"group {name} has no position in topic {missing}", f"headrace group describe {name}")
            found[name] = [where for where in positions if not topic or where[0] in topic]
        return found

    found = with_client(find)
    rows = [Deleted(name, (), "missing") for name in wanted if name not in found]
    total = sum(map(len, found.values()))
    what = f"group {', '.join(found)}" if len(found) == 1 else f"{len(found)} groups: {', '.join(found)}"
    words = f"make {what} forget its" if topic else f"delete {what} with"
    if found and confirm(f"{words} {counted(total, 'position')}", yes=yes, dry_run=dry_run):

        async def work(client: Client) -> None:
            for name, positions in found.items():
                if topic:
                    await client.admin.delete_group_offsets(name, positions)
                else:
                    await _delete(client, name)
                rows.append(Deleted(name, tuple(topic or ()), "deleted"))

        with_client(work)
    _tell_deleted(rows)


app.command()(seek)


async def _delete(client: Client, name: str) -> None:
    try:
        await client.admin.delete_group(name)
    except GroupNotFound:  # it went by itself meanwhile: that is what was wanted
        note(f"Group {name} was gone already.")


async def _row(client: Client, group: GroupListing, lag: bool) -> GroupRow:
    members, records, seconds = None, None, None
    if lag:
        try:
            found = await detail_of(client, group.name)
            members, records, seconds = len(found.members), found.lag, found.lag_seconds
        except Refusal:  # it has gone since it was listed
            members = 0
    protocol = group.protocol_type
    return GroupRow(group.name, group.state, group.kind, protocol, group.coordinator, members, records, seconds)


def _tell(found: GroupDetail) -> None:
    options = current()
    head = [Column("name", "group"), Column("state"), Column("assignor", wide=not found.assignor)]
    head += [Column("kind", wide=True), Column("coordinator", wide=True), Column("lag")]
    head += [Column("lag_seconds", "behind", show=show_seconds)]
    show_one(found, head, options)
    if found.positions:
        print()
        show(found.positions, POSITION_COLUMNS, options)
    if found.members:
        print()
        show(found.members, MEMBER_COLUMNS, options)
    for row in found.positions:
        if row.committed is not None and row.start is not None and row.committed < row.start:
            gone = f"{row.start - row.committed} offsets of {row.topic} partition {row.partition}"
            note(f"{gone} were deleted before the group read them: it stands at {row.committed}, before the start.")
        if row.committed is not None and row.end is None:
            note(f"Topic {row.topic} is gone, or has no partition {row.partition}; the group's position there is left.")


def _tell_deleted(rows: list[Deleted]) -> None:
    options = current()
    if options.output_or() not in ("table", "wide"):
        show(rows, [Column(name) for name in Deleted.__struct_fields__], options)
        return
    for row in rows:
        if row.action == "missing":
            words = f"There is no group {row.group}."
        elif row.topics:
            words = f"Group {row.group} forgot its positions in {', '.join(row.topics)}."
        else:
            words = f"Deleted group {row.group}."
        done(words, row, options)
