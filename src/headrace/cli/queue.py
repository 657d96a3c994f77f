"""`headrace queue`: groups in which each record belongs to one member. Look at them, at what they gave up, and have it
delivered again.

Queues belong to doors (lines, binary), so they are asked for at the node's http door and not over the Kafka protocol.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from headrace.broker.queues.overview import QueueView
from headrace.cli import names
from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.commands import Noun
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.options import current, note
from headrace.cli.output import Column, done, show, show_one
from headrace.cli.parsing import counted, show_time
from headrace.cli.queue_values import (
    MEMBER_COLUMNS,
    PARTITION_COLUMNS,
    POLICY_COLUMNS,
    QUEUE_COLUMNS,
    DeadRow,
    Door,
    Group,
    Http,
    QueueDoor,
    Topic,
)

app = Noun("Queues: list, describe, their dead letters, deliver again.")
NO_QUEUES = "No queues yet; a client that joins a group of a topic makes one (SUB TOPIC GROUP of the lines door)."
MOST_DEAD = 1000  # that the node shows at once
VALUE_CELL = 40  # characters of a value in a table


class DeletedQueue(msgspec.Struct, frozen=True):
    door: str
    topic: str
    group: str


@app.command("list")
def list_(
    pattern: Annotated[
        str | None, typer.Argument(help="only topics that this regular expression matches whole")
    ] = None,
    door: Door = None,
    http: Http = None,
) -> None:
    """List the queues, with how far behind they are.

    Lag counts the records that are not settled. It is not known of a queue that nobody has opened since the node was
    started.

    Examples:
      headrace queue list
      headrace queue list 'orders.*' -o json
    """
    matches = names.pattern(pattern, "headrace queue list 'orders.*'")
    rows = [queue for queue in QueueDoor(http).every() if matches.fullmatch(queue.topic) and door in (None, queue.door)]
    show(rows, QUEUE_COLUMNS, empty=NO_QUEUES if pattern is None else "")
    if pattern is not None and not rows:
        raise not_found(f"no topic with a queue matches {pattern}", "`headrace queue list` shows what there is")


@app.command()
def describe(topic: Topic, group: Group, door: Door = None, http: Http = None) -> None:
    """Show a queue: its members, what they hold, how it delivers, and what became of its records.

    Examples:
      headrace queue describe orders workers
      headrace queue describe orders workers -o json
    """
    found = QueueDoor(http).one(topic, group, door)
    options = current()
    if options.output_or() not in ("table", "wide"):
        show_one(found, [Column(name) for name in QueueView.__struct_fields__], options)
        return
    counts = msgspec.structs.asdict(found.counts)
    row, columns = msgspec.structs.asdict(found) | counts, [*QUEUE_COLUMNS]
    if found.policy is not None and found.mode != "at-most-once":
        row |= msgspec.structs.asdict(found.policy)
        columns += POLICY_COLUMNS
    show_one(row, columns + [Column(name) for name, count in counts.items() if count], options)
    for rows, columns in ((found.partitions, PARTITION_COLUMNS), (found.members, MEMBER_COLUMNS)):
        if rows:
            print()
            show(rows, columns, options)


@app.command()
def dead(
    topic: Topic,
    group: Group,
    limit: Annotated[
        int, typer.Option("-n", "--limit", metavar="N", min=1, max=MOST_DEAD, help="at most so many")
    ] = 100,
    everything: Annotated[bool, typer.Option("--all", help="also those that were delivered again since")] = False,
    door: Door = None,
    http: Http = None,
) -> None:
    """Show what a queue gave up: records in its dead-letter topic, and why they are there.

    Examples:
      headrace queue dead orders workers
      headrace queue dead orders workers --all -o jsonl
    """
    asked = QueueDoor(http)
    queue = asked.one(topic, group, door)
    rows = asked.dead(queue, limit, everything)
    options = current()
    if options.output_or() not in ("table", "wide"):
        show(rows, [Column(name) for name in DeadRow.__struct_fields__], options)
        return
    shown = [{**msgspec.to_builtins(row.letter), "value": _cell(row.value)} for row in rows]
    columns = [Column(name, align="right") for name in ("partition", "offset", "attempts")]
    columns += [Column("reason"), Column("time_ms", "given up", show=show_time), Column("value", wide=False)]
    show(shown, columns, options, empty=f"Queue {group} of topic {topic} has no dead letters.")


@app.command()
def redeliver(
    topic: Topic,
    group: Group,
    record: Annotated[
        list[str] | None,
        typer.Option("--record", metavar="PARTITION:OFFSET", help="this one, settled or dead; several times for more"),
    ] = None,
    dry_run: DryRun = False,
    door: Door = None,
    http: Http = None,
) -> None:
    """Deliver dead letters again, to this queue alone, with all their attempts before them.

    All that came since the last time, or the records that are named by their place in the topic. They come from the
    topic itself: what retention has taken since stays in the dead-letter topic, and `headrace replay` copies it.

    Examples:
      headrace queue redeliver orders workers
      headrace queue redeliver orders workers --record 0:1042 --record 0:1050
    """
    places = [_place(text) for text in record or ()]
    asked = QueueDoor(http)
    queue = asked.one(topic, group, door)
    if dry_run:
        count = len(places) or len(asked.dead(queue, MOST_DEAD, everything=False))
        more = " or more" if count == MOST_DEAD else ""
        note(f"This would deliver {counted(count, 'record')}{more} again. Nothing was done (--dry-run).")
        return
    found = asked.redeliver(queue, places or None)
    done(f"{counted(found.records, 'record')} on the way to queue {group} of topic {topic}.", found)
    if found.gone:
        note(f"{counted(found.gone, 'record')} not: the topic does not hold them any more, its dead-letter topic does.")
    if found.unsettled:
        note(f"{counted(found.unsettled, 'record')} not: they are on their way anyhow.")


@app.command()
def delete(
    topic: Topic, group: Group, yes: Yes = False, dry_run: DryRun = False, door: Door = None, http: Http = None
) -> None:
    """Delete a queue that has no members, with all that it knows. Records stay, in its topic and the dead-letter topic.

    Examples:
      headrace queue delete orders workers
    """
    asked = QueueDoor(http)
    queue = asked.one(topic, group, door)
    if queue.members:
        raise Refusal(f"queue {group} of topic {topic} has {counted(len(queue.members), 'member')}", "stop them first")
    if confirm(f"delete queue {group} of topic {topic}", yes=yes, dry_run=dry_run):
        asked.delete(queue)
        row = DeletedQueue(queue.door, topic, group)
        done(f"Deleted queue {group} of topic {topic}.", row, current())


def _place(text: str) -> tuple[int, int]:
    partition, _, offset = text.rpartition(":")
    if not (partition.isdecimal() and offset.isdecimal()):
        raise usage(f"--record {text} is no place of a record", "--record PARTITION:OFFSET, as in --record 0:1042")
    return int(partition), int(offset)


def _cell(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return text if len(text) <= VALUE_CELL else text[: VALUE_CELL - 1] + "…"
