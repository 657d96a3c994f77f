"""`headrace txn ledgers` and `headrace txn forget`: what is kept of streaming queries is seen and let go."""

from __future__ import annotations

import pyarrow as pa
import pytest

import headrace
from headrace.cli import exits
from headrace.cli.ledgers import Forgotten
from headrace.client.group_values import Ledger
from tests.cli.running import Run
from tests.cli.test_completion import completions
from tests.cli.test_group import refused


def made(server: str, *queries: str, batch: int = 41) -> None:
    with headrace.connect(server) as client:
        write = client.admin.draw_write()
        for query in queries:
            client.admin.open_member(query, write, "0", 1)  # given up as soon as it is opened
            client.admin.commit_batch(query, batch, [])


def shown(cli: Run, pattern: str) -> list[str]:
    return [row.query for row in cli("txn", "ledgers", "--name", pattern, "-o", "json").rows(Ledger)]


def test_ledgers_are_listed_in_every_form(cli: Run, server: str) -> None:
    made(server, "spark:two", "spark:one", "other")
    rows = cli("txn", "ledgers", "--name", "spark:.*", "-o", "json").rows(Ledger)
    assert [(row.query, row.batch, row.open_members) for row in rows] == [("spark:one", 41, 0), ("spark:two", 41, 0)]
    table = cli("txn", "ledgers").out
    assert "LAST BATCH" in table and "LAST CHANGE" in table and "WRITE" not in table and "spark:one" in table
    assert "COORDINATOR" in cli("txn", "ledgers", "-o", "wide").out
    lines = cli("txn", "ledgers", "--name", "other", "-o", "csv").out.splitlines()
    assert lines[0] == "query,batch,changed_ms,open_members,write,coordinator" and lines[1].startswith("other,41,")
    assert "query: other" in cli("txn", "ledgers", "--name", "other", "-o", "yaml").out
    none = cli("txn", "ledgers", "--name", "nothing")
    assert (none.code, none.out) == (0, "") and "No ledgers" in none.err
    refused(cli("txn", "ledgers", "--name", "("), exits.USAGE, "regular expression")


def test_forgetting_asks_first_and_says_what_may_come_of_it(cli: Run, server: str, name: str) -> None:
    made(server, name)
    dry = cli("txn", "forget", name, "--dry-run", "-o", "json")
    assert dry.row(Forgotten) == Forgotten(name, 41, False)
    assert "may then write its last batch a second time" in dry.err
    refused(cli("txn", "forget", name), exits.REFUSED, "batch 41 as its last", "a second time", "--yes")
    assert shown(cli, name) == [name]
    ended = cli("txn", "forget", name, "--yes")
    assert ended.out == f"Forgot the ledger of {name}.\n", ended.err
    assert shown(cli, name) == []


def test_what_there_is_not_is_missed_and_the_nearest_is_named(cli: Run, server: str, name: str) -> None:
    made(server, name)
    near = f"{name[:-1]}x"
    refused(cli("txn", "forget", near, "--yes"), exits.NOT_FOUND, f"did you mean {name}", "headrace txn ledgers")
    assert shown(cli, name) == [name]


def test_a_query_that_is_being_written_is_refused(cli: Run, server: str, name: str) -> None:
    with headrace.connect(server) as client:
        client.admin.create_topic(name)
        member = client.admin.open_member(name, client.admin.draw_write(), "0", 60_000)
        # Opened and not used yet: only the server knows.
        refused(cli("txn", "forget", name, "--yes"), exits.REFUSED, "is being written")
        with client.column_producer(member=member) as producer:
            producer.put(name, pa.record_batch({"value": [b"v"]}))
        for how in ("--yes", "--dry-run"):
            refused(cli("txn", "forget", name, how), exits.REFUSED, "1 open transaction", "stop the query first")
        client.admin.commit_batch(name, 0, [member])
    assert cli("txn", "forget", name, "--yes").code == 0


def test_queries_are_completed(cli: Run, server: str) -> None:
    made(server, "complete-q1", "complete-q2")
    assert completions("txn forget comp", server) == ["complete-q1", "complete-q2"]
    assert completions("txn ledgers --name comp", server) == ["complete-q1", "complete-q2"]
    assert completions("txn forget comp", "127.0.0.1:1") == []


@pytest.mark.parametrize("words", [("ledgers",), ("forget", "q", "--yes")])
def test_a_server_that_is_not_ours_has_no_ledgers(kafka_address: str, words: tuple[str, ...]) -> None:
    refused(Run(kafka_address)("txn", *words), exits.REFUSED, "a broker that is not a Headrace has no ledgers")
