"""`headrace topic`: look at topics, make them, delete them; `topic_changes` has alter and trim.

What destroys asks first and says what would go, in records and bytes. What is shown is what the server says: a size or
an offset that it does not tell is missing, never zero.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.options import current
from headrace.cli.output import Column, done, show, show_one
from headrace.cli.parsing import counted, pair
from headrace.cli.topic_changes import alter, trim
from headrace.cli.topic_values import (
    PARTITION_COLUMNS,
    SETTING_COLUMNS,
    TOPIC_COLUMNS,
    Created,
    Deleted,
    TopicDetail,
    TopicRow,
    config_value,
    created,
    detail_of,
    known_settings,
    list_of,
    row_of,
    sizes_of,
)
from headrace.cli.topics import ByPattern, TopicName, TopicNames, complete, every, several
from headrace.doors.kafka.names import from_kafka
from headrace.errors import TopicExists

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import Topic

app = Noun("Topics: create, list, describe, alter, trim, delete.")
NO_TOPICS = "No topics yet; `headrace topic create NAME` makes one, and so does the first record sent to it."


@app.command("list")
def list_(
    pattern: Annotated[
        str | None,
        typer.Argument(help="only names that this regular expression matches whole", autocompletion=complete),
    ] = None,
    internal: Annotated[bool, typer.Option("--internal", help="also those that the server keeps for itself")] = False,
) -> None:
    """List the topics.

    Examples:
      headrace topic list
      headrace topic list 'orders-.*' -o wide
      headrace topic list -o json
    """

    async def work(client: Client) -> list[TopicRow]:
        if pattern is not None:
            found = await several(client, [pattern], regex=True, internal=internal)
        else:
            found = await every(client, internal=internal)
        sizes = await sizes_of(client)
        return [row_of(topic, sizes) for topic in found]

    show(with_client(work), TOPIC_COLUMNS, empty=NO_TOPICS)


@app.command()
def describe(topic: TopicName) -> None:
    """Show a topic: its partitions with their offsets and sizes, and its settings.

    The table has the settings that differ from their defaults; -o wide has all of them.

    Examples:
      headrace topic describe orders
      headrace topic describe orders -o json
    """
    found = with_client(lambda client: detail_of(client, topic))
    options = current()
    form = options.output_or()
    if form not in ("table", "wide"):
        show_one(found, [Column(name) for name in TopicDetail.__struct_fields__], options)
        return
    head = [Column("name"), Column("topic_id"), Column("internal", wide=not found.internal)]
    show_one(found, head, options)
    print()
    show(found.partitions, PARTITION_COLUMNS, options)
    settings = [s for s in found.config if form == "wide" or not s.is_default]
    if settings:
        print()
        show(settings, SETTING_COLUMNS, options)


@app.command()
def create(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC", help="names of the new topics")],
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", metavar="N", min=1, help="how many", show_default="the server's")
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option("-r", "--replication", metavar="N", min=1, help="copies of each", show_default="the server's"),
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", metavar="NAME=VALUE", help="a setting, as in retention.ms=7d")
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="one that exists is fine")] = False,
    dry_run: DryRun = False,
) -> None:
    """Make topics.

    Settings whose names end in .ms and .bytes also take units: 7d, 1h30m, 64MiB.

    Examples:
      headrace topic create orders
      headrace topic create orders payments --partitions 6 -c retention.ms=7d
      headrace topic create cache -c headrace.storage=memory -c retention.bytes=64MiB
    """
    settings = dict(config_value(*pair(text, "a setting", "retention.ms=7d")) for text in config or ())

    async def work(client: Client) -> list[Created]:
        made = []
        for name in topics:
            try:
                topic = await client.admin.create_topic(
                    name,
                    partitions=partitions or -1,
                    replication=replication or -1,
                    config=settings,
                    validate_only=dry_run,
                )
                row = Created(name, partitions, replication, "valid") if dry_run else created(topic, "created")
                made.append(row)
            except TopicExists:
                if not if_not_exists:
                    raise
                made.append(created(await client.admin.topic(name), "exists"))
        return made

    with known_settings(settings):
        rows = with_client(work)
    options = current()
    if options.output_or() not in ("table", "wide"):
        show(rows, [Column(name) for name in Created.__struct_fields__], options)
        return
    for row in rows:
        words = {"created": "Created", "exists": "There is already", "valid": "Would create"}[row.action]
        count = f" with {counted(row.partitions, 'partition')}" if row.partitions else ""
        done(f"{words} topic {row.name}{count}.", row, options)


@app.command()
def delete(
    topics: TopicNames,
    regex: ByPattern = False,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="one that does not exist is fine")] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete topics with everything in them.

    Examples:
      headrace topic delete orders
      headrace topic delete --regex 'test-.*' --dry-run
      headrace topic delete orders payments --yes
    """

    async def find(client: Client) -> tuple[list[Topic], list[str], dict[str, int]]:
        gone: list[str] = []
        wanted = list(topics)
        if if_exists and not regex:
            known = {topic.name for topic in await every(client, internal=True)}
            gone = [name for name in topics if from_kafka(name) not in known]
            wanted = [name for name in topics if from_kafka(name) in known]
        return await several(client, wanted, regex=regex), gone, await sizes_of(client)

    found, gone, sizes = with_client(find)
    rows = [Deleted(name, "missing") for name in gone]
    if found and confirm(f"delete {list_of(found, sizes)}", yes=yes, dry_run=dry_run):

        async def work(client: Client) -> None:
            for topic in found:
                await client.admin.delete_topic(topic.name)
                rows.append(Deleted(topic.name, "deleted"))

        with_client(work)
    _tell_deleted(rows)


app.command()(alter)
app.command()(trim)


def _tell_deleted(rows: list[Deleted]) -> None:
    options = current()
    if options.output_or() not in ("table", "wide"):
        show(rows, [Column(name) for name in Deleted.__struct_fields__], options)
        return
    for row in rows:
        done(
            f"Deleted topic {row.name}." if row.action == "deleted" else f"There is no topic {row.name}.", row, options
        )
