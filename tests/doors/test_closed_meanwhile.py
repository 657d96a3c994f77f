"""Logs that fail or close while a request is on its way: what they cannot tell any more is not told."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

from headrace.broker.broker import NewTopic
from headrace.errors import StorageFailed
from headrace.log.files import OsFiles
from headrace.records import codec
from headrace.records.record import Record
from headrace.wire.kafka import header, list_offsets, produce_client
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.list_offsets import AskedOffset, ListOffsetsRequest
from tests.doors.asking import Asker, asking, create


class GatedDisk(OsFiles):
    """Who looks whether a folder with `name` is there waits for the gate to open."""

    name = ""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.is_waited_for = threading.Event(), threading.Event()

    def exists(self, path: str) -> bool:
        if self.name and self.name in path:
            self.is_waited_for.set()
            assert self.gate.wait(20)
        return super().exists(path)


def batch(value: bytes) -> bytearray:
    return codec.encode([Record(None, value, (), int(time.time() * 1000))])


async def test_a_topic_that_is_deleted_while_another_of_the_request_is_opened_is_told_as_unknown(
    tmp_path: Path,
) -> None:
    disk = GatedDisk()
    async with asking(tmp_path, disk) as asker:
        await asker.node.broker.create_topics([NewTopic("slow"), NewTopic("gone")])
        gone = asker.node.broker.topic("gone")
        assert gone is not None
        await gone.partitions[0].opened()
        disk.name = "/slow-"
        asked = [("slow", None, [(0, batch(b"one"))]), ("gone", None, [(0, batch(b"two"))])]
        question = b"".join(produce_client.encode_request(7, 13, None, None, 1, 5000, asked))
        answer = asyncio.create_task(asker.answer(question))
        assert await asyncio.to_thread(disk.is_waited_for.wait, 20)
        assert await asker.node.broker.delete_topics(["gone"]) == [None]
        disk.gate.set()
        raw = await answer
        slow, told = (topic.partitions[0] for topic in produce_client.decode_response(raw, 4, len(raw), 7).topics)
        assert (slow.error, slow.base_offset) == (0, 0)
        assert told.error == Code.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_log_that_has_failed_tells_no_offsets_that_its_recovery_may_cut_off(asker: Asker) -> None:
    topic = await create(asker, "t")
    await asker.produce("t", 0, [Record(None, b"one", (), 1000)])
    partition = topic.partitions[0]
    log: Any = partition.log
    log.fail(StorageFailed("the disk said so"))
    for timestamp in (list_offsets.LATEST, list_offsets.EARLIEST, 500):
        request = ListOffsetsRequest(topics=[("t", [AskedOffset(0, -1, timestamp)])])
        answer = await asker.ask(list_offsets, header.LIST_OFFSETS, 7, request)
        (found,) = answer.topics[0][1]
        assert (found.error, found.offset) == (Code.KAFKA_STORAGE_ERROR, -1)
    asked = {"partition": 0, "current_leader_epoch": -1, "leader_epoch": partition.leader_epoch}
    fields = {"topics": [{"topic": "t", "partitions": [asked]}]}
    told = (await asker.ask_by_schema(header.OFFSET_FOR_LEADER_EPOCH, 4, fields)).topics[0].partitions[0]
    assert (told.error_code.value, told.end_offset) == (Code.KAFKA_STORAGE_ERROR, -1)
