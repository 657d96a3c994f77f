"""Producers whose broker hangs, or that are closed in the middle of something: what was put is delivered or fails with
its cause, and nobody waits for ever.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headrace.aio
from headrace import errors
from headrace.wire.kafka.header import API_VERSIONS
from tests.client.proxy import HOLD, PASS, behind_proxy


async def test_a_producer_survives_a_broker_that_takes_connections_and_answers_nothing(tmp_path: Path) -> None:
    async with behind_proxy(tmp_path) as (proxy, _), headrace.aio.connect(proxy.address, timeout=0.3) as client:
        await client.admin.create_topic("t", partitions=1)
        async with client.producer() as producer:
            await producer.send("t", b"0")
            proxy.rule = lambda key, number: HOLD if key == API_VERSIONS else PASS
            proxy.drop_all()
            sending = asyncio.create_task(producer.send("t", b"1"))
            await asyncio.sleep(1)  # several attempts to connect
            assert not sending.done()
            proxy.rule = lambda key, number: PASS
            proxy.drop_all()
            assert (await asyncio.wait_for(sending, 10)).offset == 1
            assert (await producer.send("t", b"2")).offset == 2


async def test_who_waits_for_a_topic_hears_that_the_producer_was_closed(headrace_address: str, topic: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        producer = client.producer()
        sending = asyncio.create_task(producer.send(topic, b"x"))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(errors.ClientClosed):
            await asyncio.wait_for(sending, 5)


async def test_who_waits_for_a_new_partition_hears_that_the_producer_was_closed(
    headrace_address: str, topic: str
) -> None:
    async with headrace.aio.connect(headrace_address) as client, headrace.aio.connect(headrace_address) as other:
        await client.admin.create_topic(topic, partitions=1)
        producer = client.producer()
        await producer.send(topic, b"x")
        await other.admin.add_partitions(topic, 2)
        sending = asyncio.create_task(producer.send(topic, b"x", partition=1))
        await asyncio.sleep(0)
        await producer.close()
        with pytest.raises(errors.ClientClosed):
            await asyncio.wait_for(sending, 5)
