"""Ledgers by the client: seen and forgotten on ours, and said not to be there on Apache Kafka."""

from __future__ import annotations

import time

import pyarrow as pa
import pytest

import headrace
import headrace.aio
from headrace import errors
from headrace.client.group_values import Ledger
from headrace.wire.kafka.sink import MAX_LEDGERS

TIMEOUT_MS = 60_000


async def test_ledgers_are_listed_and_one_is_forgotten(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        admin, query = client.admin, f"q:{topic}"
        await admin.create_topic(topic, partitions=1)
        write = await admin.draw_write()
        member = await admin.open_member(query, write, "0.0", TIMEOUT_MS)
        async with client.column_producer(member) as producer:
            await producer.put(topic, pa.record_batch({"value": [b"v"]}))
        known = {ledger.query: ledger for ledger in await admin.ledgers()}
        assert (known[query].batch, known[query].open_members, known[query].write) == (None, 1, write)
        with pytest.raises(errors.InvalidTransactionState, match="is being written"):
            await admin.forget_ledger(query)
        await admin.commit_batch(query, 3, [member])
        ledger = {ledger.query: ledger for ledger in await admin.ledgers()}[query]
        assert ledger.changed_ms is not None and abs(ledger.changed_ms - time.time() * 1000) < 60_000
        assert ledger == Ledger(query, 3, write, ledger.changed_ms, 0, ledger.coordinator)
        assert await admin.forget_ledger(query) == 3  # asked again while the markers are on their way
        assert query not in [one.query for one in await admin.ledgers()]
        with pytest.raises(errors.UnknownLedger, match=query):
            await admin.forget_ledger(query)
        with pytest.raises(errors.ProducerFenced, match="start the query again"):
            await admin.open_member(query, write, "0.0", TIMEOUT_MS)
        await admin.open_member(query, await admin.draw_write(), "0.0", TIMEOUT_MS)


def test_the_sync_face_does_the_same_over_several_pages(headrace_address: str, topic: str) -> None:
    with headrace.connect(headrace_address) as client:
        admin = client.admin
        write = admin.draw_write()
        queries = [f"{topic}:{number:05}" for number in range(MAX_LEDGERS + 3)]
        for query in queries:
            admin.open_member(query, write, "0", 1)  # given up as soon as it is opened
        found = [ledger.query for ledger in admin.ledgers()]
        assert found == sorted(found) and [query for query in found if query.startswith(topic)] == queries
        assert admin.forget_ledger(queries[0]) is None
        assert queries[0] not in [ledger.query for ledger in admin.ledgers()]
        with pytest.raises(errors.UnknownLedger):
            admin.forget_ledger(queries[0])


async def test_a_broker_that_is_not_ours_has_none_and_that_is_said(kafka_address: str) -> None:
    async with headrace.aio.connect(kafka_address) as client:
        for asked in (client.admin.ledgers(), client.admin.forget_ledger("q")):
            with pytest.raises(errors.UnsupportedByBroker, match="a broker that is not a Headrace has no ledgers"):
                await asked
        assert await client.admin.cluster()  # the connection is as good as before
