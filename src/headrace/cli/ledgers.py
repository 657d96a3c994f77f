"""`headrace txn ledgers` and `headrace txn forget`: what the server keeps of streaming queries that write exactly once.

A ledger says which batch of a query was committed last, so that none is written twice. It stays until someone says that
nothing writes that query any more: only people know that, so `forget` says what it takes and asks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli import names
from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.connecting import with_client
from headrace.cli.exits import Refusal
from headrace.cli.output import Column, done, show
from headrace.cli.parsing import counted, show_time

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.group_values import Ledger

NO_LEDGERS = "No ledgers; a streaming query that writes exactly once makes one."
LEDGER_COLUMNS = [
    Column("query"),
    Column("batch", "last batch", align="right"),
    Column("changed_ms", "last change", show=show_time),
    Column("open_members", align="right"),
    Column("write", wide=True, align="right"),
    Column("coordinator", wide=True, align="right"),
]


class Forgotten(msgspec.Struct, frozen=True):
    query: str
    batch: int | None
    applied: bool


def complete(incomplete: str) -> list[str]:
    return names.completed(incomplete, _queries)


async def _queries(client: Client) -> list[str]:
    return [ledger.query for ledger in await client.admin.ledgers()]


def ledgers(
    name: Annotated[
        str | None,
        typer.Option(
            "--name",
            metavar="PATTERN",
            help="only queries that this regular expression matches whole",
            autocompletion=complete,
        ),
    ] = None,
) -> None:
    """List the ledgers of streaming queries: the last batch of each that was committed, and when.

    A query of Spark is `spark:` and its id, which is in its checkpoint; a batch write with a `writeId` is
    `spark-write:`, that, `/` and its topic (of older versions `spark-batch:` and the id alone); a batch write without
    one is `once:spark:` and a name by chance, and goes by itself after a day.

    Examples:
      headrace txn ledgers
      headrace txn ledgers --name 'spark:.*' -o json
    """  # fmt: skip
    matches = names.pattern(name, "headrace txn ledgers --name 'spark:.*'")

    async def work(client: Client) -> list[Ledger]:
        return [ledger for ledger in await client.admin.ledgers() if matches.fullmatch(ledger.query)]

    show(with_client(work), LEDGER_COLUMNS, empty=NO_LEDGERS)


def forget(
    query: Annotated[
        str, typer.Argument(metavar="QUERY", help="the query, as `txn ledgers` names it", autocompletion=complete)
    ],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Forget the ledger of a query that nothing writes any more.

    A query that goes on afterwards may write its last batch a second time: the ledger was what kept it from that. So
    forget only what was given up for good, with its checkpoint. A query that is being written is refused.

    Examples:
      headrace txn forget spark:0b5a1f04-6f35-4a1c-8f0e-3f9b8f4a7a52
      headrace txn forget spark-write:nightly/orders --dry-run
    """
    found = with_client(lambda client: _one(client, query))
    if found.open_members:
        under_way = counted(found.open_members, "open transaction")
        raise Refusal(f"{query} is being written: it has {under_way}", "stop the query first, or wait until they end")
    last = "no batch" if found.batch is None else f"batch {found.batch} as its last"
    what = (
        f"forget the ledger of {query}, with {last}; a query that goes on may then write its last batch a second time"
    )
    applied = confirm(what, yes=yes, dry_run=dry_run)
    if applied:
        with_client(lambda client: client.admin.forget_ledger(query))
    words = f"Forgot the ledger of {query}." if applied else f"The ledger of {query} could be forgotten."
    done(words, Forgotten(query, found.batch, applied))


async def _one(client: Client, query: str) -> Ledger:
    known = {ledger.query: ledger for ledger in await client.admin.ledgers()}
    if query not in known:
        raise names.missing("ledger of a query", query, known, "headrace txn ledgers")
    return known[query]
