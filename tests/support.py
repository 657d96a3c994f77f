"""What tests share that talk to a real node over real sockets.

- `Wire`: one plain socket and our own codecs; every frame is visible, nothing is retried.
- `Bystander`: an ordinary client beside the one that misbehaves. It produces and reads its records back all the
  time, and says afterwards whether anything went wrong and how long its worst round took.
- What the kernel knows of a process: memory, open files.

- `serving`: the node itself, which must stop cleanly and must not have found a fault in itself, whatever it endured.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import UUID

from headrace.ports import Buffer
from headrace.records import codec
from headrace.records.record import Record
from headrace.testing.served import DOORS, ServedBroker
from headrace.wire.kafka import fetch_client, header, messages, produce_client
from headrace.wire.kafka.fetch import FetchedPartition, FetchPartition, FetchRequest, FetchTopic
from headrace.wire.kafka.produce import PartitionResult

MIB = 1 << 20
ANSWER_LIMIT_S = 20.0  # far more than any answer needs; the machine may be busy
PRODUCE_VERSION, FETCH_VERSION = 9, 12  # the newest that name topics by name
CREATE_TOPICS_VERSION, DELETE_TOPICS_VERSION, METADATA_VERSION = 4, 3, 12
NO_SESSION = (0, -1)
ANYWHERE = tuple(word for door in DOORS for word in (f"--{door}", "127.0.0.1:0"))  # flags: each door at a free port


class Closed(Exception):
    """The node closed the connection."""


class Refused(Exception):
    def __init__(self, what: str, code: int) -> None:
        super().__init__(f"{what}: error code {code}")
        self.code = code


class Wire:
    """A connection. `receive_bytes` makes the kernel's own buffer small, so that a slow reader is slow at once."""

    def __init__(self, address: str, *, limit_s: float = ANSWER_LIMIT_S, receive_bytes: int | None = None) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.socket()
        if receive_bytes is not None:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.socket.settimeout(limit_s)
        self.socket.connect((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.correlation_id = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self.socket.close()

    # Frames

    def send(self, *pieces: Buffer) -> None:
        try:
            self.socket.sendall(b"".join(pieces))
        except (BrokenPipeError, ConnectionResetError) as error:
            raise Closed from error

    def receive(self) -> bytes:
        """The next frame, without its size."""
        return self._exactly(struct.unpack(">i", self._exactly(4))[0])

    def receive_answer(self, api_key: int, version: int) -> tuple[int, bytes, int]:
        """The next frame: its correlation id, its bytes and where the body begins."""
        frame = self.receive()
        correlation_id, at = header.read_response_header(frame, 0, len(frame), api_key, version)
        return correlation_id, frame, at

    def is_closed(self, within_s: float = 5.0) -> bool:
        """Does the node close, without another byte, in that time?"""
        self.socket.settimeout(within_s)
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            with contextlib.suppress(OSError):
                self.socket.settimeout(ANSWER_LIMIT_S)

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            try:
                part = self.socket.recv(min(size - len(parts), MIB))
            except ConnectionError as error:
                raise Closed from error
            if not part:
                raise Closed
            parts += part
        return bytes(parts)

    def next_id(self) -> int:
        self.correlation_id += 1
        return self.correlation_id

    # Requests

    def ping(self) -> None:
        """ApiVersions: asked and answered."""
        asked = self.next_id()
        self.send(header.question(header.API_VERSIONS, 0, asked, "test", b""))
        answered, _, _ = self.receive_answer(header.API_VERSIONS, 0)
        assert answered == asked, f"answer {answered} came for request {asked}"

    def ask(self, entity: Any) -> Any:
        """Any message of kio's."""
        asked = self.next_id()
        self.send(messages.encode_request(entity, asked, "test"))
        key, version = entity.__api_key__, entity.__version__
        answered, frame, at = self.receive_answer(key, version)
        assert answered == asked, f"answer {answered} came for request {asked}"
        return messages.decode_response(key, version, frame, at, len(frame))

    def create_topic(self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None) -> None:
        schema = messages.schema("request", header.CREATE_TOPICS, CREATE_TOPICS_VERSION)
        settings = tuple(schema.CreatableTopicConfig(name=k, value=v) for k, v in (configs or {}).items())
        topic = schema.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=1, assignments=(), configs=settings
        )
        self._checked(self.ask(schema.CreateTopicsRequest(topics=(topic,))).topics[0])

    def topic_id(self, name: str) -> UUID:
        schema = messages.schema("request", header.METADATA, METADATA_VERSION)
        asked = schema.MetadataRequestTopic(topic_id=None, name=name)
        request = schema.MetadataRequest(
            topics=(asked,), allow_auto_topic_creation=False, include_topic_authorized_operations=False
        )
        found: UUID = self.ask(request).topics[0].topic_id
        return found

    def delete_topic(self, name: str) -> None:
        schema = messages.schema("request", header.DELETE_TOPICS, DELETE_TOPICS_VERSION)
        request = schema.DeleteTopicsRequest(topic_names=(name,), timeout=messages.NO_TIME)
        self._checked(self.ask(request).responses[0])

    def _checked(self, result: Any) -> None:
        if result.error_code.value:
            raise Refused(result.name, result.error_code.value)

    def send_produce(self, topic: str, batch: Buffer, partition: int = 0, acks: int = 1) -> int:
        asked = self.next_id()
        topics = [(topic, None, [(partition, batch)])]
        self.send(*produce_client.encode_request(PRODUCE_VERSION, asked, "test", None, acks, 30_000, topics))
        return asked

    def receive_produced(self) -> tuple[int, PartitionResult]:
        answered, frame, at = self.receive_answer(header.PRODUCE, PRODUCE_VERSION)
        response = produce_client.decode_response(frame, at, len(frame), PRODUCE_VERSION)
        return answered, response.topics[0].partitions[0]

    def produce(self, topic: str, batch: Buffer, partition: int = 0, acks: int = 1) -> PartitionResult:
        asked = self.send_produce(topic, batch, partition, acks)
        answered, result = self.receive_produced()
        assert answered == asked, f"answer {answered} came for request {asked}"
        return result

    def send_fetch(self, topic: str, offsets: Mapping[int, int], **options: int) -> int:
        asked = self.next_id()
        self.send(fetch_client.encode_request(FETCH_VERSION, asked, "test", fetch_request(topic, offsets, **options)))
        return asked

    def receive_fetched(self) -> tuple[int, list[FetchedPartition]]:
        answered, frame, at = self.receive_answer(header.FETCH, FETCH_VERSION)
        response = fetch_client.decode_response(frame, at, len(frame), FETCH_VERSION)
        if response.error:
            raise Refused("fetch", response.error)
        return answered, [fetched for topic in response.topics for fetched in topic.partitions]

    def fetch(self, topic: str, offset: int, partition: int = 0, **options: int) -> FetchedPartition:
        asked = self.send_fetch(topic, {partition: offset}, **options)
        answered, fetched = self.receive_fetched()
        assert answered == asked, f"answer {answered} came for request {asked}"
        return fetched[0]

    def read_all(self, topic: str, partition: int = 0, offset: int = 0) -> list[Record]:
        """Every record up to the high watermark."""
        records: list[Record] = []
        while True:
            fetched = self.fetch(topic, offset, partition, max_wait_ms=0, max_bytes=MIB)
            if fetched.error:
                raise Refused(f"{topic}/{partition} from {offset}", fetched.error)
            got = [record for record in codec.decode(b"".join(fetched.pieces or [])) if record.offset >= offset]
            records += got
            if not got:
                assert offset == fetched.high_watermark, "nothing came below the high watermark"
                return records
            offset = got[-1].offset + 1


def fetch_request(
    topic: str,
    offsets: Mapping[int, int],
    *,
    max_wait_ms: int = 500,
    min_bytes: int = 1,
    max_bytes: int = 64 * MIB,
    session_id: int = NO_SESSION[0],
    session_epoch: int = NO_SESSION[1],
) -> FetchRequest:
    asked = [FetchPartition(index, -1, offset, -1, -1, max_bytes) for index, offset in offsets.items()]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        session_id=session_id,
        session_epoch=session_epoch,
        topics=[FetchTopic(topic, None, asked)] if asked else [],
    )


def batch_of(values: Sequence[bytes], compression: str = "none") -> bytes:
    now_ms = time.time_ns() // 1_000_000
    records = [Record(None, value, (), now_ms, index) for index, value in enumerate(values)]
    return bytes(codec.encode(records, codec.BatchOptions(compression=compression)))


class Bystander:
    """`with Bystander(address, 1000) as other: ...` produces `size`-byte records and reads each back, until the end."""

    def __init__(self, address: str, size: int = 1000, topic: str = "bystander", pause_s: float = 0.01) -> None:
        self.rounds, self.worst_s = 0, 0.0
        self._address, self._topic, self._pause_s = address, topic, pause_s
        self._value = os.urandom(size)
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bystander")

    def __enter__(self) -> Self:
        with Wire(self._address) as wire, contextlib.suppress(Refused):
            wire.create_topic(self._topic)
        self._thread.start()
        wait_until(lambda: self.rounds > 0 or self._error is not None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        if kind is None and self._error is not None:
            raise AssertionError("the bystander was disturbed") from self._error

    def assert_undisturbed(self, worst_s: float = 3.0) -> None:
        """Call it inside of the `with`. The limit is for machines that are shared, not for our pride."""
        before = self.rounds
        wait_until(lambda: self.rounds > before + 1 or self._error is not None)
        assert self._error is None, self._error
        assert self.worst_s < worst_s, f"the bystander once waited {self.worst_s:.2f} s"

    def _run(self) -> None:
        try:
            with Wire(self._address) as wire:
                while not self._ended.is_set():
                    self._round(wire)
                    self._ended.wait(self._pause_s)
        except BaseException as error:  # noqa: BLE001 (told to the test)
            self._error = error

    def _round(self, wire: Wire) -> None:
        batch = batch_of([self._value])
        begin = time.monotonic()
        produced = wire.produce(self._topic, batch)
        assert produced.error == 0, f"produce: error code {produced.error}"
        fetched = wire.fetch(self._topic, produced.base_offset)
        assert fetched.error == 0, f"fetch: error code {fetched.error}"
        got = codec.decode(b"".join(fetched.pieces or []))
        assert [record.value for record in got] == [self._value], f"{len(got)} records came back"
        self.worst_s = max(self.worst_s, time.monotonic() - begin)
        self.rounds += 1


# What the kernel knows


def rss_bytes(pid: int) -> int:
    (line,) = [text for text in Path(f"/proc/{pid}/status").read_text().splitlines() if text.startswith("VmRSS:")]
    return int(line.split()[1]) * 1024


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def open_sockets(pid: int) -> int:
    count = 0
    for entry in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            count += os.readlink(f"/proc/{pid}/fd/{entry}").startswith("socket:")
    return count


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def wait_until(true: Callable[[], bool], limit_s: float = ANSWER_LIMIT_S) -> None:
    deadline = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < deadline, f"it did not come to that within {limit_s} s"
        time.sleep(0.01)


class Peak:
    """The highest memory of a process while the `with` runs, by looking often."""

    def __init__(self, pid: int) -> None:
        self.before_bytes = self.peak_bytes = rss_bytes(pid)
        self._pid = pid
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="peak")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def grown_bytes(self) -> int:
        return self.peak_bytes - self.before_bytes

    def _run(self) -> None:
        while not self._ended.wait(0.02):
            with contextlib.suppress(FileNotFoundError, ValueError):
                self.peak_bytes = max(self.peak_bytes, rss_bytes(self._pid))


@contextlib.contextmanager
def serving(folder: Path, *flags: str) -> Iterator[ServedBroker]:
    with ServedBroker(folder, *flags) as broker:
        yield broker
        if broker.is_running:
            code = broker.stop()
            assert code == 0, f"it ended with {code}"
    assert_no_fault(broker)


def assert_no_fault(broker: ServedBroker) -> None:
    log = broker.log()
    assert "node.fault" not in log and "Traceback" not in log, log[-5000:]


@contextlib.contextmanager
def no_leak(pid: int, address: str, limit_s: float = 10.0) -> Iterator[None]:
    """When all is over, the node has as many sockets open as before (segments' files have a budget), and answers."""
    _answers(address)
    before = open_sockets(pid)
    yield
    wait_until(lambda: open_sockets(pid) <= before, limit_s)
    _answers(address)


def _answers(address: str) -> None:
    """And has closed its side again: whoever counts sockets next does not count this one."""
    with Wire(address) as wire:
        wire.ping()
        wire.socket.shutdown(socket.SHUT_WR)
        assert wire.is_closed(ANSWER_LIMIT_S)
