"""Backups of topics through a server: from Apache Kafka to us, from us to Kafka, and each to itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import Producer as ConfluentProducer

from headrace import aio
from headrace.backup.manifest import Manifest, load
from headrace.backup.place import Place
from headrace.backup.producing import Producing, Restored, Wish
from headrace.backup.topics import TopicsBackup
from headrace.backup.verify import verify
from headrace.log.files import OsFiles
from headrace.node.real import RealClock
from tests.client.marks import until_marked


async def back_up(address: str, topics: list[str], target: Path) -> Manifest:
    place = Place.open(str(target))
    try:
        async with aio.connect(address) as client:
            await TopicsBackup(client, place, RealClock(), lambda _: None).run(topics, address)
    finally:
        place.close()
    manifest = load(OsFiles(), str(target))
    assert verify(str(target), manifest) == []
    return manifest


async def bring_back(address: str, target: Path, manifest: Manifest, name: str) -> list[Restored]:
    async with aio.connect(address) as client:
        producing = Producing(client, str(target), manifest, lambda _: None)
        return await producing.run([Wish(manifest.topics[0], name)], append=False)


async def read(address: str, topic: str) -> list[tuple[int, int, int, bytes | None, bytes | None, object]]:
    async with aio.connect(address) as client, client.consumer(topic, follow=False) as consumer:
        found = [(r.partition, r.offset, r.timestamp_ms, r.key, r.value, r.headers) async for r in consumer]
    return sorted(found, key=lambda record: record[:2])


@pytest.mark.parametrize("there", ["headrace", "kafka"])
async def test_a_topic_comes_back_as_it_was_on_either_server(
    address: str, there: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other: str = request.getfixturevalue(f"{there}_address")
    async with aio.connect(address) as client:
        await client.admin.create_topic(topic, 2, config={"retention.ms": "-1", "max.message.bytes": "500000"})
        for compression in ("none", "gzip", "snappy", "lz4", "zstd"):
            async with client.producer(compression=compression) as producer:
                for number in range(50):
                    headers = [("h", b"%d" % number), ("h", None)]
                    await producer.put(topic, b"%d" % number * 50, key=b"%d" % number, headers=headers)
                await producer.flush()
    manifest = await back_up(address, [topic], tmp_path / "backup")
    assert manifest.topics[0].config == {"retention.ms": "-1", "max.message.bytes": "500000"}
    restored = await bring_back(other, tmp_path / "backup", manifest, f"{topic}-again")
    assert {part.shift for part in restored} == {0} and sum(part.records for part in restored) == 250
    assert await read(other, f"{topic}-again") == await read(address, topic)
    async with aio.connect(other) as client:
        own = {s.name: s.value for s in await client.admin.config("topic", f"{topic}-again") if s.source == "topic"}
        assert own == manifest.topics[0].config


@pytest.mark.parametrize("there", ["headrace", "kafka"])
async def test_of_kafkas_transactions_only_what_was_committed_comes_back(
    kafka_address: str, there: str, topic: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    other: str = request.getfixturevalue(f"{there}_address")
    async with aio.connect(kafka_address) as client:
        await client.admin.create_topic(topic, 1, config={"message.timestamp.type": "LogAppendTime"})
    producer = ConfluentProducer({"bootstrap.servers": kafka_address, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(30)
    for number, commits in enumerate((True, False, True)):
        producer.begin_transaction()
        producer.produce(topic, b"%d" % number, partition=0)
        producer.flush(30)
        producer.commit_transaction(30) if commits else producer.abort_transaction(30)
    async with aio.connect(kafka_address) as client:
        await until_marked(client, topic)
    manifest = await back_up(kafka_address, [topic], tmp_path / "backup")
    (restored,) = await bring_back(other, tmp_path / "backup", manifest, f"{topic}-again")
    assert [record[4] for record in await read(other, f"{topic}-again")] == [b"0", b"2"]
    assert (restored.records, restored.left_out) == (2, 4)
