"""`headrace txn`: which transactions there are, what each holds open, and ending one that nobody ends.

An open transaction keeps everybody who reads committed records waiting, in every partition that it wrote to. `abort`
ends it as Kafka's own tools do: by its transactional id, which also fences the producer that has it; or, for one that
its coordinator forgot, by a marker written into the partition. What streaming queries committed is in `ledgers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli import names
from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.ledgers import forget, ledgers
from headrace.cli.options import current, note
from headrace.cli.output import Column, done, show, show_one
from headrace.cli.parsing import counted, duration_ms, one_of, whole_numbers
from headrace.cli.topics import TopicName
from headrace.cli.topics import complete as complete_topic
from headrace.cli.topics import one as topic_of
from headrace.cli.txn_values import (
    DETAIL_COLUMNS,
    PARTITION_COLUMNS,
    PRODUCER_COLUMNS,
    TRANSACTION_COLUMNS,
    Aborted,
    ProducerRow,
    TransactionalId,
    TransactionDetail,
    TransactionRow,
    complete,
    detail_of,
    one,
    producer_row,
)
from headrace.client.transactions import ONGOING, OPEN

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.group_values import ProducerState

STATES = (
    "Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort", "Dead", "PrepareEpochFence",
)  # fmt: skip

app = Noun("Transactions: list, describe, abort; the producers of a topic; the ledgers of streaming queries.")
NO_TRANSACTIONS = "No transactions; a producer with a transactional id makes one."
NONE_OPEN = "No producer is remembered there."


@app.command("list")
def list_(
    pattern: Annotated[
        str | None,
        typer.Argument(help="only ids that this regular expression matches whole", autocompletion=complete),
    ] = None,
    state: Annotated[
        list[str] | None, typer.Option("--state", metavar="STATE", help="only these: Ongoing, CompleteCommit, …")
    ] = None,
    open_for: Annotated[
        str | None, typer.Option("--open-for", metavar="TIME", help="only those open for at least so long, as in 5m")
    ] = None,
) -> None:
    """List the transactional ids that the server knows, and the state of each.

    Examples:
      headrace txn list
      headrace txn list --state Ongoing --open-for 5m
      headrace txn list 'billing-.*' -o json
    """
    matches = names.pattern(pattern, "headrace txn list 'billing-.*'")
    states = [one_of("--state", _spelt(text), STATES) for text in state or ()]
    open_for_ms = duration_ms(open_for) if open_for is not None else None

    async def work(client: Client) -> list[TransactionRow]:
        found = await client.admin.list_transactions(states, open_for_ms=open_for_ms)
        return [
            TransactionRow(listed.id, listed.state, listed.producer_id, listed.coordinator)
            for listed in found
            if matches.fullmatch(listed.id)
        ]

    show(with_client(work), TRANSACTION_COLUMNS, empty=NO_TRANSACTIONS)


@app.command()
def describe(transactional_id: TransactionalId) -> None:
    """Show a transaction: whose it is, how long it is open, and where it wrote.

    Examples:
      headrace txn describe billing-1
      headrace txn describe billing-1 -o json
    """
    found = with_client(lambda client: detail_of(client, transactional_id))
    options = current()
    if options.output_or() not in ("table", "wide"):
        show_one(found, [Column(name) for name in TransactionDetail.__struct_fields__], options)
        return
    show_one(found, DETAIL_COLUMNS, options)
    if found.partitions:
        print()
        show(found.partitions, PARTITION_COLUMNS, options)


@app.command()
def producers(
    topic: TopicName,
    partition: Annotated[
        str | None, typer.Option("-P", "--partition", metavar="N,…", help="only these", show_default="all")
    ] = None,
    only_open: Annotated[bool, typer.Option("--open", help="only those with an open transaction")] = False,
) -> None:
    """Show the producers that a topic's partitions remember, and where their open transactions begin.

    Examples:
      headrace txn producers orders
      headrace txn producers orders --open -o json
    """
    indexes = whole_numbers(partition) if partition is not None else None

    async def work(client: Client) -> list[ProducerRow]:
        await topic_of(client, topic)
        found = await client.admin.describe_producers(topic, indexes)
        return [
            producer_row(topic, index, state)
            for index, states in sorted(found.items())
            for state in states
            if not only_open or state.transaction_start is not None
        ]

    rows, options = with_client(work), current()
    every = [Column(name) for name in ProducerRow.__struct_fields__]
    show(rows, PRODUCER_COLUMNS if options.output_or() in ("table", "wide") else every, options, empty=NONE_OPEN)


@app.command()
def abort(
    transactional_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="the transactional id", autocompletion=complete)
    ] = None,
    topic: Annotated[
        str | None,
        typer.Option(
            "-t", "--topic", metavar="TOPIC", help="abort by a marker, in this topic", autocompletion=complete_topic
        ),
    ] = None,
    partition: Annotated[int | None, typer.Option("-P", "--partition", metavar="N", help="in this partition")] = None,
    start: Annotated[
        int | None, typer.Option("--start", metavar="OFFSET", help="of the transaction that begins here")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abort a transaction that is open, and that its producer does not end.

    By its id, the producer is fenced: it cannot go on under that id, and what it wrote is never read as committed. A
    transaction that the coordinator knows nothing of (`headrace txn producers` shows it, `headrace txn list` does not)
    is aborted by its place: --topic, --partition and --start.

    Examples:
      headrace txn abort billing-1
      headrace txn abort billing-1 --dry-run
      headrace txn abort --topic orders --partition 0 --start 4711 --yes
    """  # fmt: skip
    place = (topic, partition, start)
    if (transactional_id is None) == (place == (None, None, None)):
        raise usage("one of an id or a place is needed", "headrace txn abort ID, or --topic T --partition N --start N")
    if transactional_id is not None:
        _abort_by_id(transactional_id, yes, dry_run)
    elif topic is None or partition is None or start is None:
        raise usage("a place is --topic, --partition and --start", f"headrace txn producers {topic or 'TOPIC'} --open")
    else:
        _abort_by_place(topic, partition, start, yes, dry_run)


def _abort_by_id(transactional_id: str, yes: bool, dry_run: bool) -> None:
    found = with_client(lambda client: one(client, transactional_id))
    if found.state in OPEN and found.state != ONGOING:
        raise Refusal(
            f"{transactional_id} is being ended already: its state is {found.state}", "look again in a moment"
        )
    if found.state != ONGOING:
        raise not_found(
            f"{transactional_id} has no open transaction: its state is {found.state}",
            "headrace txn list --state Ongoing",
        )
    wrote = counted(len(found.partitions), "partition")
    what = f"abort the transaction of {transactional_id} in {wrote}, and fence its producer {found.producer_id}"
    applied = confirm(what, yes=yes, dry_run=dry_run)
    if applied:
        with_client(lambda client: client.admin.abort_transaction(transactional_id))
    words = f"Aborted the transaction of {transactional_id}." if applied else f"{transactional_id} could be aborted."
    done(words, Aborted(transactional_id, None, None, found.producer_id, found.producer_epoch, applied))


def _abort_by_place(topic: str, partition: int, start: int, yes: bool, dry_run: bool) -> None:
    async def find(client: Client) -> tuple[ProducerState, list[str]]:
        await topic_of(client, topic)
        known = await client.admin.describe_producers(topic, [partition])
        open_here = [state for state in known[partition] if state.transaction_start is not None]
        for state in open_here:
            if state.transaction_start == start:
                named = await client.admin.list_transactions(producer_ids=[state.producer_id])
                return state, [found.id for found in named]
        others = ", ".join(str(state.transaction_start) for state in open_here) or "none"
        raise not_found(
            f"{topic} partition {partition} has no open transaction that begins at {start}; those there are: {others}",
            f"headrace txn producers {topic} --open",
        )

    producer, ids = with_client(find)
    if ids:
        note(f"Producer {producer.producer_id} has the id {ids[0]}: `headrace txn abort {ids[0]}` is the better way.")
    what = f"write an abort marker for producer {producer.producer_id} into {topic} partition {partition}"
    applied = confirm(what, yes=yes, dry_run=dry_run)
    if applied:
        with_client(lambda client: client.admin.abort_hanging(topic, partition, start))
    words = f"Aborted what producer {producer.producer_id} had open in {topic} partition {partition}."
    if not applied:
        words = "It could be aborted."
    done(words, Aborted(None, topic, partition, producer.producer_id, producer.producer_epoch, applied))


app.command()(ledgers)
app.command()(forget)


def _spelt(text: str) -> str:
    """`ongoing` and `prepare-commit` are what they sound like."""
    plain = text.replace("-", "").lower()
    return next((state for state in STATES if state.lower() == plain), text)
