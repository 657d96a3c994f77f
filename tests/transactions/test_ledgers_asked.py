"""Ledgers over a socket, and through restarts, power losses and compaction of the topic that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.broker.broker import BrokerSettings
from headrace.broker.transactions.coordinator import TOPIC
from headrace.broker.transactions.events import CommitBatch, OpenMember
from headrace.broker.transactions.records import ledger_key
from headrace.broker.transactions.sink import MAX_QUERIES
from headrace.errors import CoordinatorLoading, ProducerFenced, UnknownLedger
from headrace.log.config import DAY_MS
from headrace.log.log import Log
from headrace.node.metrics.reading import read as metrics
from headrace.wire.kafka import sink
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.sink import MAX_LEDGERS, Action, LedgerEntry, SinkRequest, SinkResponse
from tests.broker.kit import Node, settle
from tests.doors.asking import Asker, another, asking, create
from tests.log.keyed import compact, records, roll
from tests.transactions.client import Producer, read
from tests.transactions.sink_desk import TIMEOUT_MS, Q


async def ask(asker: Asker, *fields: Any, version: int = 1) -> SinkResponse:
    answer: SinkResponse = await asker.ask(sink, sink.SINK, version, SinkRequest(*fields))
    return answer


async def written(asker: Asker, query: str = Q, batch: int = 5) -> int:
    """One batch of one record, committed; the number of its write."""
    write = (await ask(asker, Action.DRAW, version=0)).first
    opened = await ask(asker, Action.OPEN, query, write, "0.0", TIMEOUT_MS, version=0)
    assert opened.error == 0 and opened.transactional_id is not None
    producer = Producer(asker, opened.transactional_id)
    producer.go_on(opened.first, opened.second)
    assert (await producer.produce("t", 0, query.encode())).error == 0
    member = (opened.transactional_id, opened.first, opened.second)
    assert (await ask(asker, Action.COMMIT, query, batch, "", 0, [member], version=0)).error == 0
    return write


async def forgotten(asker: Asker, query: str = Q) -> SinkResponse:
    """Asked again while markers are on their way, as a client does."""
    while (answer := await ask(asker, Action.FORGET, query)).error == Code.CONCURRENT_TRANSACTIONS:
        pass
    return answer


async def test_ledgers_are_listed_and_forgotten_and_stay_so_after_a_restart(tmp_path: Path) -> None:
    async with asking(tmp_path) as asker:
        await create(asker, "t")
        assert await ask(asker, Action.LIST) == SinkResponse(0, None, None, 0, 0, [])
        for query in ("b", "a", Q):
            write = await written(asker, query)
        answer = await ask(asker, Action.LIST)
        assert (answer.error, answer.first, answer.second) == (0, 0, 3)
        assert [entry.query for entry in answer.ledgers] == ["a", "b", Q]
        newest = answer.ledgers[-1]
        now_ms = asker.node.clock.now_ms()
        assert newest == LedgerEntry(Q, write, 5, newest.changed_ms, 0) and now_ms - newest.changed_ms < 60_000
        assert [entry.query for entry in (await ask(asker, Action.LIST, "a")).ledgers] == ["b", Q]
        assert await forgotten(asker) == SinkResponse(0, None, None, 1, 5, [])
        assert (await forgotten(asker)).error == Code.TRANSACTIONAL_ID_NOT_FOUND
        assert await read(asker, "t") == [b"b", b"a", Q.encode()], "records stay"
    async with asking(tmp_path) as asker:
        while (answer := await ask(asker, Action.LIST)).error == Code.COORDINATOR_LOAD_IN_PROGRESS:
            pass
        assert [entry.query for entry in answer.ledgers] == ["a", "b"]
        old = await ask(asker, Action.OPEN, Q, write, "0.0", TIMEOUT_MS, version=0)
        assert old.error == Code.PRODUCER_FENCED and old.message is not None and "was forgotten" in old.message
        assert await written(asker) > write


async def test_a_query_with_an_open_member_is_refused_and_shown(asker: Asker) -> None:
    write = (await ask(asker, Action.DRAW)).first
    opened = await ask(asker, Action.OPEN, Q, write, "0.0", TIMEOUT_MS)
    for under_way in range(2):
        (entry,) = (await ask(asker, Action.LIST)).ledgers
        assert entry == LedgerEntry(Q, write, -1, entry.changed_ms, under_way)
        answer = await forgotten(asker)
        assert (
            answer.error == Code.INVALID_TXN_STATE and answer.message is not None and "stop the query" in answer.message
        )
        producer = Producer(asker, f"{Q}#0.0")
        producer.go_on(opened.first, opened.second)
        assert (await producer.produce("t")).error == 0
    await ask(asker, Action.ABORT, Q, 0, "", 0, [(f"{Q}#0.0", opened.first, opened.second)])
    assert (await forgotten(asker)).error == 0


async def test_more_than_a_page_is_told_in_pages(asker: Asker) -> None:
    for number in range(MAX_LEDGERS + 5):
        assert (await ask(asker, Action.OPEN, f"q{number:05}", 1, "0", TIMEOUT_MS)).error == 0
    first = await ask(asker, Action.LIST)
    assert (len(first.ledgers), first.first, first.second) == (MAX_LEDGERS, 1, MAX_LEDGERS + 5)
    rest = await ask(asker, Action.LIST, first.ledgers[-1].query)
    assert metrics(asker.node).values["headrace_ledgers"] == [((), MAX_LEDGERS + 5)]
    assert metrics(asker.node).values["headrace_ledgers_limit"] == [((), MAX_QUERIES)]
    assert (rest.first, [entry.query for entry in rest.ledgers]) == (0, [f"q{MAX_LEDGERS + n:05}" for n in range(5)])


@pytest.mark.parametrize("query", ["", "a#b"])
async def test_names_that_no_query_has_are_refused(asker: Asker, query: str) -> None:
    assert (await ask(asker, Action.FORGET, query)).error == Code.INVALID_REQUEST


async def test_what_version_0_does_not_know_closes_the_connection_and_nothing_else(asker: Asker) -> None:
    async with another(asker) as odd:
        assert await odd.answer(sink.encode_request(0, 1, "x", SinkRequest(Action.FORGET, Q))) == b""
    assert (await ask(asker, Action.LIST)).error == 0


# On a disk that loses what is not synced


async def keep(node: Node, query: str, write: int, batch: int = 0) -> None:
    asked = node.broker.transactions.ask_sink
    await node.do(asked(OpenMember, query, write, "0", TIMEOUT_MS))
    await node.do(asked(CommitBatch, query, batch, ()))
    node.world.clock.ms += TIMEOUT_MS + 1  # what was opened and not used is over


async def started(node: Node) -> list[str]:
    """The queries that have ledgers, once all is read back."""
    node.broker.transactions.start()
    await settle(node)
    while True:
        await settle(node)
        if not node.broker.transactions._loading:
            return [shown.ledger.query for shown in node.broker.transactions.ledgers("").ledgers]


async def test_what_was_answered_survives_a_power_loss(tmp_path: Path) -> None:
    node = Node()
    for number, query in enumerate("abc", 1):
        await keep(node, query, number)
    assert await node.do(node.broker.transactions.forget_ledger("b")) == 0
    node.power_loss()
    for asked in (node.broker.transactions.transactions, lambda: node.broker.transactions.ledgers("")):
        with pytest.raises(CoordinatorLoading):  # doors are open before anything was read back
            asked()
    assert await started(node) == ["a", "c"]
    with pytest.raises(UnknownLedger):
        await node.do(node.broker.transactions.forget_ledger("b"))
    with pytest.raises(ProducerFenced):
        await keep(node, "b", 2)


async def test_a_full_disk_forgets_nothing() -> None:
    node = Node()
    await keep(node, "a", 1)
    node.world.disk.fill(0)
    with pytest.raises(Exception, match="cannot be written"):
        await node.do(node.broker.transactions.forget_ledger("a"))
    node.world.disk.empty()
    node.power_loss()
    assert await started(node) == ["a"]
    node.world.clock.ms += TIMEOUT_MS + 1
    assert await node.do(node.broker.transactions.forget_ledger("a")) == 0
    node.power_loss()
    assert await started(node) == []


@pytest.mark.parametrize("after_ms", [0, 2 * DAY_MS])
async def test_compaction_brings_nothing_back_and_loses_nothing(after_ms: int) -> None:
    """Also when the tombstone itself has gone."""
    node = Node(settings=BrokerSettings(transaction_partitions=1))
    for number, query in enumerate("abc", 1):
        for batch in range(20):
            await keep(node, query, number, batch)
    assert await node.do(node.broker.transactions.forget_ledger("b")) == 19
    topic = node.broker.topic(TOPIC)
    assert topic is not None
    log = topic.partitions[0].log
    assert isinstance(log, Log)
    before = log.size_bytes
    for number in range(2):  # the second goes over what the first left
        node.world.clock.ms += after_ms
        roll(log, node.world)
        await keep(node, "d", 10 + 2 * number)
        roll(log, node.world)
        await keep(node, "d", 11 + 2 * number)
        compact(log, node.world)
    assert log.size_bytes < before and log.cleaned_offset > 0
    of_b = [record.value for record in records(log) if record.key == ledger_key("b")]
    assert of_b == ([] if after_ms else [None])
    node.power_loss()
    assert await started(node) == ["a", "c", "d"]
    assert [shown.ledger.batch for shown in node.broker.transactions.ledgers("").ledgers] == [19, 19, 0]
    for write in (1, 2):
        with pytest.raises(ProducerFenced):
            await keep(node, "b", write)
    await keep(node, "b", 3)
