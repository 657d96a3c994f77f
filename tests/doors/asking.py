"""A node on a free port of loopback, and a client as thin as can be: one question, one answer."""

from __future__ import annotations

import asyncio
import dataclasses
import io
import random
import typing
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from headrace.broker.broker import BrokerSettings, NewTopic
from headrace.log.files import OsFiles
from headrace.node.logs import Logs
from headrace.node.node import Node
from headrace.node.real import RealClock, Threads
from headrace.node.settings import Address, Settings
from headrace.ports import Buffer, Files
from headrace.records import codec
from headrace.records.record import Record
from headrace.wire.kafka import header, messages, produce, produce_client


class Asker:
    def __init__(self, node: Node, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.node, self.reader, self.writer = node, reader, writer

    async def answer(self, question: Buffer) -> bytes:
        """The frame that comes back, without its size; b"" when the connection is closed instead."""
        self.writer.write(question)
        try:
            size = int.from_bytes(await self.reader.readexactly(4))
            return await self.reader.readexactly(size)
        except (asyncio.IncompleteReadError, ConnectionError):
            return b""

    async def ask(self, codec_module: Any, key: int, version: int, request: Any) -> Any:
        """By one of the codecs written by hand."""
        raw = await self.answer(codec_module.encode_request(version, 11, "asker", request))
        correlation_id, at = header.read_response_header(raw, 0, len(raw), key, version)
        assert correlation_id == 11
        return codec_module.decode_response(raw, at, len(raw), version)

    async def ask_by_schema(self, key: int, version: int, fields: dict[str, Any]) -> Any:
        """By kio's schema: `fields` of the request; dicts and lists stand for its structures."""
        schema = messages.schema("request", key, version)
        entity = next(kind for name, kind in vars(schema).items() if _is_message(kind))
        raw = await self.answer(messages.encode_request(_built(schema, entity, fields), 12, "asker"))
        correlation_id, at = header.read_response_header(raw, 0, len(raw), key, version)
        assert correlation_id == 12
        return messages.decode_response(key, version, raw, at, len(raw))

    async def produce(self, topic: str, partition: int, records: list[Record]) -> produce.PartitionResult:
        batch = codec.encode(records)
        pieces = produce_client.encode_request(7, 13, None, None, 1, 5000, [(topic, None, [(partition, batch)])])
        raw = await self.answer(b"".join(pieces))
        return produce_client.decode_response(raw, 4, len(raw), 7).topics[0].partitions[0]


@asynccontextmanager
async def asking(folder: Path, files: Files | None = None, **broker: Any) -> AsyncIterator[Asker]:
    threads = Threads(asyncio.get_running_loop())
    settings = Settings(str(folder / "data"), kafka=Address("127.0.0.1", 0), broker=BrokerSettings(**broker))
    node = Node(
        settings,
        files=files or OsFiles(),
        clock=RealClock(),
        background=threads,
        chance=random.Random(7),
        on_event=lambda name, fields: None,
        loggers=Logs("json", "info", io.StringIO()),
    )
    await node.start()
    address = node.addresses["kafka"]
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield Asker(node, reader, writer)
    finally:
        writer.close()
        await node.stop()
        threads.close()


async def create(asker: Asker, name: str, **more: Any) -> Any:
    (topic,) = await asker.node.broker.create_topics([NewTopic(name, **more)])
    return topic


@asynccontextmanager
async def another(asker: Asker) -> AsyncIterator[Asker]:
    """A second connection to the same node."""
    address = asker.node.addresses["kafka"]
    reader, writer = await asyncio.open_connection(address.host, address.port)
    try:
        yield Asker(asker.node, reader, writer)
    finally:
        writer.close()


def record(timestamp_ms: int) -> Record:
    return Record(key=None, value=b"v", headers=(), timestamp_ms=timestamp_ms, offset=0)


def _is_message(kind: Any) -> bool:
    return getattr(getattr(kind, "__type__", None), "name", "") == "request"


def _built(schema: Any, kind: Any, fields: dict[str, Any]) -> Any:
    """The entity, with structures made of dicts: which one a field holds is found by its annotation."""
    values = {}
    for name, value in fields.items():
        if isinstance(value, list):
            inner = _inner(kind, name)
            values[name] = tuple(_built(schema, inner, one) if isinstance(one, dict) else one for one in value)
        else:
            values[name] = value
    return kind(**values)


def _inner(kind: Any, name: str) -> Any:
    (annotation,) = (field.type for field in dataclasses.fields(kind) if field.name == name)
    for option in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(option) is tuple:
            return typing.get_args(option)[0]
    raise AssertionError(f"{kind.__name__}.{name} is no array")
