"""Brokers of other ages: whatever versions are spoken, the records are the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

import headrace.aio
from headrace import errors
from headrace.client.connection import Connection

pytestmark = pytest.mark.timeout(300)  # the first run fetches Kafka


@pytest.mark.parametrize("seed", range(6))
async def test_records_come_back_in_every_version(
    address: str, topic: str, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed 0 speaks the oldest of everything."""
    chance, newest_of = random.Random(seed), Connection.version
    chosen: dict[int, int] = {}

    def version(self: Connection, api: Any, newest: int | None = None) -> int:
        most = newest_of(self, api, newest)
        least = max(api.oldest, self.versions[api.key].min)
        if api.key not in chosen:
            chosen[api.key] = least if seed == 0 else chance.randint(least, most)
        return min(chosen[api.key], most)

    monkeypatch.setattr(Connection, "version", version)
    async with headrace.aio.connect(address) as client:
        await client.admin.create_topic(topic, partitions=2)
        async with client.producer() as producer:
            for number in range(200):
                await producer.put(topic, b"%d" % number, b"k", [("h", None)], partition=number % 2)
        async with client.consumer(topic, follow=False) as consumer:
            got = [record async for record in consumer]
        assert sorted(int(record.value or b"") for record in got) == list(range(200))
        assert {(record.key, record.headers) for record in got} == {(b"k", (("h", None),))}
        assert (await client.admin.offsets(topic, "end"))[1].offset == 100
        assert await client.admin.delete_records(topic, {0: 50}) == {0: 50}
        await client.admin.alter_config("topic", topic, set={"retention.ms": "1000000"})
        settings = {setting.name: setting.value for setting in await client.admin.config("topic", topic)}
        assert settings["retention.ms"] == "1000000"
        await client.admin.add_partitions(topic, 3)
        assert (await client.admin.log_dirs())[0].error is None
        await client.admin.delete_topic(topic)


async def test_a_request_that_the_broker_does_not_know_is_said(headrace_address: str) -> None:
    async with headrace.aio.connect(headrace_address) as client:
        connection = await client._open().connections.any()
        connection.versions = {key: span for key, span in connection.versions.items() if key != 55}
        with pytest.raises(errors.UnsupportedByBroker, match="does not know DescribeQuorum"):
            await client.admin.quorum()
        connection.versions = {**connection.versions, 55: connection.versions[18]._replace(min=90, max=99)}
        with pytest.raises(errors.UnsupportedByBroker, match="speaks DescribeQuorum 90 to 99, and this client 0 to 2"):
            await client.admin.quorum()
