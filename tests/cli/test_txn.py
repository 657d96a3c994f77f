"""`headrace txn` on ours and on Apache Kafka: an open transaction of another client is seen, and ended from outside."""

from __future__ import annotations

import time

import pytest
from confluent_kafka import KafkaException
from confluent_kafka import TopicPartition as Place

from headrace.cli import exits
from headrace.cli.txn_values import Aborted, ProducerRow, TransactionDetail, TransactionRow
from tests.cli.running import Run
from tests.cli.test_group import detail, refused, stand
from tests.client.members import joined
from tests.client.test_transactions import TIMEOUT_MS, transaction


def described(cli: Run, name: str) -> TransactionDetail:
    return cli("txn", "describe", name, "-o", "json").row(TransactionDetail)


def test_an_open_transaction_is_listed_and_described(both: Run, name: str) -> None:
    both("topic", "create", name, "-p", "2")
    with transaction(str(both.server), name, name) as producer:
        (row,) = both("txn", "list", name, "-o", "json").rows(TransactionRow)
        found = described(both, name)
        assert name in both("txn", "list", "--state", "ongoing").out
        assert name not in both("txn", "list", "--state", "Ongoing", "--open-for", "1h").out
        table = both("txn", "describe", name).out
        producer.commit_transaction(30)
    assert (row.id, row.state) == (name, "Ongoing")
    assert (found.state, found.producer_id, found.timeout_ms) == ("Ongoing", row.producer_id, TIMEOUT_MS)
    assert found.open_seconds is not None and found.open_seconds < 30
    assert [(part.topic, part.partition, part.start) for part in found.partitions] == [(name, 0, 0)]
    assert "OPEN FOR" in table and "45s" in table
    ended = described(both, name)
    assert (ended.partitions, ended.open_seconds) == ((), None) or ended.state == "PrepareCommit"


def test_aborting_asks_first_then_fences_the_producer(both: Run, name: str) -> None:
    both("topic", "create", name)
    with transaction(str(both.server), name, name) as producer:
        dry = both("txn", "abort", name, "--dry-run", "-o", "json").row(Aborted)
        assert (dry.id, dry.applied) == (name, False)
        refused(both("txn", "abort", name), exits.REFUSED, "1 partition", "fence", "--yes")
        assert described(both, name).state == "Ongoing"
        ended = both("txn", "abort", name, "--yes")
        assert ended.out == f"Aborted the transaction of {name}.\n", ended.err
        with pytest.raises(KafkaException):
            producer.commit_transaction(30)
    read = both("consume", name, "--committed")
    assert (read.code, read.out) == (0, ""), read.err
    refused(both("txn", "abort", name, "--yes"), exits.NOT_FOUND, "no open transaction")


def test_a_transaction_is_aborted_by_its_place(both: Run, name: str) -> None:
    both("topic", "create", name)
    with transaction(str(both.server), name, name) as producer:
        (row,) = both("txn", "producers", name, "--open", "-o", "json").rows(ProducerRow)
        assert (row.partition, row.transaction_start, row.last_sequence) == (0, 0, 1)
        place = ("--topic", name, "--partition", "0")
        refused(both("txn", "abort", *place, "--start", "1", "--yes"), exits.NOT_FOUND, "those there are: 0")
        refused(both("txn", "abort", *place), exits.USAGE, "--start")
        ended = both("txn", "abort", *place, "--start", "0", "--yes", "-o", "json")
        done = ended.row(Aborted)
        assert (done.topic, done.partition, done.producer_id, done.applied) == (name, 0, row.producer_id, True)
        assert f"headrace txn abort {name}" in ended.err  # its coordinator knows of it: that would be the better way
        assert both("txn", "producers", name, "--open", "-o", "json").rows(ProducerRow) == []
        producer.abort_transaction(30)


def test_what_there_is_not_is_missed(both: Run, name: str) -> None:
    refused(both("txn", "describe", name), exits.NOT_FOUND, "no transactional id")
    refused(both("txn", "abort", name, "--yes"), exits.NOT_FOUND, "no transactional id")
    refused(both("txn", "producers", name), exits.NOT_FOUND, "no topic")
    assert both("txn", "list", name, "-o", "json").rows(TransactionRow) == []


def test_what_makes_no_sense_is_refused(cli: Run) -> None:
    refused(cli("txn", "abort"), exits.USAGE, "an id or a place")
    refused(cli("txn", "abort", "one", "--topic", "t"), exits.USAGE, "an id or a place")
    refused(cli("txn", "list", "--state", "sleeping"), exits.USAGE, "Ongoing")
    refused(cli("txn", "list", "("), exits.USAGE, "regular expression")


def test_a_transaction_that_moves_a_group_is_shown_and_the_group_is_not_moved_meanwhile(both: Run, name: str) -> None:
    both("topic", "create", name)
    stand(both, name, name)
    with transaction(str(both.server), name, name) as producer, joined(str(both.server), name, name) as members:
        producer.send_offsets_to_transaction([Place(name, 0, 2)], members[0].consumer_group_metadata(), 30)
        found = described(both, name)
        assert {part.topic for part in found.partitions} == {name, "__consumer_offsets"}
        assert [row.committed for row in detail(both, name).positions] == [0]
        members[0].close()
        early = both("group", "seek", name, "--to", "end", "--yes", "--timeout", "1s")
        refused(early, exits.REFUSED, "transaction")
        producer.commit_transaction(30)
    deadline = time.monotonic() + 30
    while [row.committed for row in detail(both, name).positions] != [2]:  # decided, and seen a moment later
        assert time.monotonic() < deadline, "the group does not stand where the transaction put it"
