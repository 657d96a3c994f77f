"""The work itself: each function loads one server once and gives what it saw, by row and metric.

CPU is what the server process used between the first and the last message, in seconds per million messages.
Every call works on topics of its own and deletes them, so that no round reads what another has left behind.
"""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaError, Message
from confluent_kafka import Producer as PacedProducer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from bench import raw
from bench.nothing import KEPT
from bench.producers import Producers, cores
from bench.rdkafka import Consumer, LoadError, Producer
from bench.rows import IDLE_COUNTS, IN_FLIGHT, PARTITION_COUNTS, SINGLE_COUNTS
from bench.servers import Server

Seen = dict[str, dict[str, float]]  # row -> metric -> value
LATENCY_INTERVAL_S = 0.001
LATENCY_WARM = 500
SMALL_BATCH = 10
GROWTH_BATCH = 100  # records per request: 11 kB, what a busy client with many partitions sends
READY_BATCH = 9000  # records; just below the megabyte that both brokers take by default
PASSES = 3  # of each consumer through its topic
ADMIN_LIMIT_S = 60.0
TOUCHED = 1.3  # of the bytes that a run writes: headers and the rest of the page cache's needs
MB = 1e6
QUIET_SAMPLE_S, QUIET_SHARE, QUIET_TRIES = (
    0.3,
    0.1,
    30,
)  # a tenth of one core; an idle JVM uses a few hundredths
WARNINGS = 4  # librdkafka's admin client reports its own tidying at the level below

_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class Scale:
    """How much work one round is."""

    messages: int = 10_000_000
    latency_s: float = 10.0

    @property
    def large_messages(self) -> int:
        return self.messages // 10

    @property
    def small_messages(self) -> int:
        return self.messages // 10

    @property
    def growth_requests(self) -> int:
        return self.messages // 250


@contextmanager
def fresh_topic(server: Server, partitions: int = 1) -> Iterator[str]:
    name = f"bench-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": server.address, "log_level": WARNINGS})
    new = NewTopic(name, num_partitions=partitions, replication_factor=1)
    admin.create_topics([new], request_timeout=ADMIN_LIMIT_S)[name].result(ADMIN_LIMIT_S)
    try:
        yield name
    finally:
        admin.delete_topics([name], request_timeout=ADMIN_LIMIT_S)[name].result(ADMIN_LIMIT_S)
        server.wait_until_gone(name)


@contextmanager
def on_one_core() -> Iterator[None]:
    """For a client that is made inside: all its threads. librdkafka's two, the one that queues and the one that sends,
    take twice the time for a message when they run side by side, since they fight for its queue. A broker that leaves
    them two cores would seem slower for it than one that takes a core for itself.
    """
    if not hasattr(os, "sched_setaffinity"):  # not Linux
        yield
        return
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(cores)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, cores)


def wait_until_quiet(server: Server) -> None:
    """Until server and disk have finished what earlier work left behind: deleted topics, dirty pages, compilers."""
    os.sync()
    for _ in range(QUIET_TRIES):
        cpu = server.cpu_s()
        time.sleep(QUIET_SAMPLE_S)
        if server.cpu_s() - cpu <= QUIET_SHARE * QUIET_SAMPLE_S:
            return


def touch_memory(folder: Path, size_bytes: int) -> None:
    """Has the page cache hold that much once and lets go of it again.

    On a virtual machine whose host takes idle memory back, the first touch of a page costs several times the copy
    into it, and is billed to whoever writes first: here to nobody.
    """
    path = folder / "touched"
    chunk = memoryview(bytearray(1 << 20))
    with path.open("wb", buffering=0) as file:
        for _ in range(size_bytes // len(chunk) + 1):
            file.write(chunk)
    path.unlink()


def timed(server: Server, messages: int, work: Callable[[], None], *, written_bytes: int = 0) -> dict[str, float]:
    wait_until_quiet(server)
    if written_bytes:
        touch_memory(server.folder, written_bytes)
    cpu, begin = server.cpu_s(), time.perf_counter()
    work()
    took = time.perf_counter() - begin
    return {"rate": messages / took / 1e6, "cpu": (server.cpu_s() - cpu) / messages * 1e6}


def produce(server: Server, topic: str, messages: int, message_bytes: int, **settings: object) -> dict[str, float]:
    with on_one_core():
        producer = Producer(server.address, topic, message_bytes, **settings)

        def work() -> None:
            producer.produce(messages)
            producer.flush()

        try:
            producer.produce(1)  # connections and metadata are not what is measured
            producer.flush()
            return timed(server, messages, work, written_bytes=int(messages * message_bytes * TOUCHED))
        finally:
            producer.close()


def consume(server: Server, topic: str, messages: int) -> dict[str, float]:
    """The mean of a few passes: one is some fifteen ticks of the clock that CPU is counted by."""
    passes = [consume_once(server, topic, messages) for _ in range(PASSES)]
    return {metric: statistics.fmean(one[metric] for one in passes) for metric in passes[0]}


def consume_once(server: Server, topic: str, messages: int) -> dict[str, float]:
    with on_one_core():
        consumer = Consumer(server.address, topic)
        try:
            return timed(server, messages, lambda: consumer.consume(messages))
        finally:
            consumer.close()


def produce_and_consume(server: Server, messages: int, message_bytes: int, row: str) -> Seen:
    with fresh_topic(server) as topic:
        produced = produce(server, topic, messages, message_bytes)
        if not server.keeps:
            produce(server, topic, messages, message_bytes, client_id=KEPT)
            consume_once(server, topic, messages)  # it answers what it has answered before
        return {f"produce_{row}": produced, f"consume_{row}": consume(server, topic, messages)}


def produce_and_consume_100(server: Server, scale: Scale) -> Seen:
    return produce_and_consume(server, scale.messages, 100, "100")


def produce_crowd(server: Server, scale: Scale) -> Seen:
    """A producer on each core, so that broker and producers share all that there is."""
    messages = scale.messages
    with fresh_topic(server, len(cores())) as topic, Producers(server.address, topic, 100, messages) as producers:
        return {"produce_crowd": timed(server, messages, producers.run, written_bytes=int(messages * 100 * TOUCHED))}


def produce_ready(server: Server, scale: Scale) -> Seen:
    """As large as librdkafka's batches under load, but encoded before the clock starts: the broker sets the rate."""
    requests = scale.messages // READY_BATCH
    messages = requests * READY_BATCH
    with (
        fresh_topic(server) as topic,
        raw.Pipeline(server.address, topic, 1, READY_BATCH, 100, IN_FLIGHT) as pipeline,
    ):
        work = timed(server, messages, lambda: pipeline.run(requests), written_bytes=int(messages * 100 * TOUCHED))
        return {"produce_ready": work}


def produce_and_consume_1k(server: Server, scale: Scale) -> Seen:
    return produce_and_consume(server, scale.large_messages, 1024, "1k")


def produce_all(server: Server, scale: Scale) -> Seen:
    with fresh_topic(server) as topic:
        return {"produce_all": produce(server, topic, scale.messages, 100, acks="all")}


def small_requests(server: Server, scale: Scale) -> Seen:
    with fresh_topic(server) as topic:
        return {"small": produce(server, topic, scale.small_messages, 100, batch_num_messages=SMALL_BATCH)}


def latency(server: Server, scale: Scale) -> Seen:
    """One message a millisecond, on schedule even while earlier ones wait: a stall is counted in full."""
    seconds: list[float] = []
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        if error is not None:
            failures.append(error)
        else:
            seconds.append(message.latency() or 0.0)

    settings = {"bootstrap.servers": server.address, "linger.ms": 0, "acks": 1}
    with fresh_topic(server) as topic:
        producer = PacedProducer(settings)
        gc.disable()
        try:
            pace(producer, topic, LATENCY_WARM, delivered)
            producer.flush(ADMIN_LIMIT_S)
            seconds.clear()
            count = int(scale.latency_s / LATENCY_INTERVAL_S)
            wait_until_quiet(server)
            cpu = server.cpu_s()
            pace(producer, topic, count, delivered)
            producer.flush(ADMIN_LIMIT_S)
            cpu = server.cpu_s() - cpu
        finally:
            gc.enable()
    if failures or len(seconds) != count:
        raise LoadError(f"{count - len(seconds)} of {count} messages were not acknowledged: {failures[:1]}")
    seconds.sort()
    at = {name: seconds[int(len(seconds) * share)] * 1e3 for name, share in QUANTILES.items()}
    return {"latency": at | {"cpu": cpu / count * 1e6}}


QUANTILES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999}


def pace(producer: PacedProducer, topic: str, count: int, delivered: Callable[..., None]) -> None:
    value = b"x" * 100
    due = time.perf_counter()
    for _ in range(count):
        producer.produce(topic, value, partition=0, on_delivery=delivered)
        due += LATENCY_INTERVAL_S
        while len(producer) and time.perf_counter() < due:
            producer.poll(LATENCY_INTERVAL_S)
        time.sleep(max(0.0, due - time.perf_counter()))


def start(fresh: Server) -> Seen:
    """A server of its own: from the start of the process to the first acknowledged record; memory at rest."""
    fresh.prepare()
    fresh.start()
    try:
        time.sleep(1.0)
        return {"start": {"first_ack": fresh.first_ack_s, "rss_idle": fresh.rss_bytes() / MB}}
    finally:
        fresh.stop()


def memory_after(server: Server) -> Seen:
    return {"start": {"rss_after": server.rss_bytes() / MB}}


def over_partitions(server: Server, scale: Scale) -> dict[int, float]:
    """CPU per million messages by number of partitions; each partition has been written to before.

    Requests are the same for all, but of those in flight together a broker may write the ones for the same
    partition at once: with one partition that is all of them, and what it writes is a batch five times as large. From
    as many partitions on as are in flight, all writes are of one request; with one in flight they always are.
    """
    return {count: pipelined_cpu(server, scale, count) for count in PARTITION_COUNTS}


def over_partitions_single(server: Server, scale: Scale) -> dict[int, float]:
    return {count: pipelined_cpu(server, scale, count, in_flight=1) for count in SINGLE_COUNTS}


def over_connections(server: Server, scale: Scale) -> dict[int, float]:
    seen: dict[int, float] = {}
    for count in IDLE_COUNTS:
        with raw.IdleConnections(server.address, count):
            seen[count] = pipelined_cpu(server, scale, 1)
    return seen


def pipelined_cpu(server: Server, scale: Scale, partitions: int, in_flight: int = IN_FLIGHT) -> float:
    requests = scale.growth_requests
    with (
        fresh_topic(server, partitions) as topic,
        raw.Pipeline(server.address, topic, partitions, GROWTH_BATCH, 100, in_flight) as pipeline,
    ):
        pipeline.run(max(partitions, requests // 20))
        messages = requests * GROWTH_BATCH
        return timed(server, messages, lambda: pipeline.run(requests), written_bytes=int(messages * 100 * TOUCHED))[
            "cpu"
        ]


def sync_p50_ms(folder: Path, samples: int = 200) -> float:
    """What the disk itself needs to make a 4 KiB append durable; printed beside synced acknowledgements."""
    path = folder / "sync-probe"
    handle = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    took = []
    try:
        for _ in range(samples):
            os.write(handle, b"x" * 4096)
            begin = time.perf_counter()
            os.fdatasync(handle)
            took.append(time.perf_counter() - begin)
    finally:
        os.close(handle)
        path.unlink()
    return sorted(took)[samples // 2] * 1e3


WORKLOADS: dict[str, Callable[[Server, Scale], Seen]] = {
    "produce_100": produce_and_consume_100,
    "produce_crowd": produce_crowd,
    "produce_ready": produce_ready,
    "produce_1k": produce_and_consume_1k,
    "produce_all": produce_all,
    "small": small_requests,
    "latency": latency,
}
WITHOUT_BROKER = (
    "produce_100",
    "produce_crowd",
    "produce_1k",
    "latency",
)  # what the client alone allows is measured for these
GROWTH_WORKLOADS: dict[str, Callable[[Server, Scale], dict[int, float]]] = {
    "partitions": over_partitions,
    "partitions_single": over_partitions_single,
    "connections": over_connections,
}
