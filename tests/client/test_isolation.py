"""Committed and aborted records, read from ours and from Apache Kafka."""

from __future__ import annotations

import asyncio

import pytest
from confluent_kafka import Producer

import headrace.aio
from tests.client.marks import wait_until_marked

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


def transact(address: str, topic: str) -> None:
    """Three transactions: the second is aborted, the third stays open."""
    producer = Producer({"bootstrap.servers": address, "transactional.id": topic})
    producer.init_transactions(60)
    for number, ends in enumerate(["commit", "abort", "leave open"]):
        producer.begin_transaction()
        for count in range(100):
            producer.produce(topic, f"{number}-{count}", partition=0)
        producer.flush()
        if ends == "commit":
            producer.commit_transaction()
        elif ends == "abort":
            producer.abort_transaction()
        if ends != "leave open":
            wait_until_marked(address, topic)


async def test_who_reads_committed_records_sees_no_others(address: str, topic: str) -> None:
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=1)
        await asyncio.to_thread(transact, address, topic)

        async def values(isolation: str) -> list[str]:
            async with client.consumer(topic, follow=False, isolation=isolation) as consumer:
                return [(record.value or b"").decode() async for record in consumer]

        assert await values("read_committed") == [f"0-{count}" for count in range(100)]
        assert len(await values("read_uncommitted")) == 300
        committed = (await client.admin.offsets(topic, "end", isolation="read_committed"))[0].offset
        assert committed < (await client.admin.offsets(topic, "end"))[0].offset
