"""Apache Kafka's own tools, by the jars that the benchmark fetches."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from bench.servers import ServerError, fetch_kafka_tools
from headrace.records import codec
from tests.clients.conftest import REQUIRE, program
from tests.clients.records import CODECS, COUNT
from tests.support import Wire

pytestmark = pytest.mark.timeout(600)  # the first run fetches the jars

LIMIT_S = 90
PERFORMANCE = "org.apache.kafka.tools.ProducerPerformance"
CONSUMER = "org.apache.kafka.tools.consumer.ConsoleConsumer"
PRODUCER = "org.apache.kafka.tools.ConsoleProducer"


@pytest.fixture(scope="session")
def jars() -> Path:
    program("java")
    try:
        return fetch_kafka_tools()
    except ServerError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


def run(jars: Path, tool: str, *arguments: str, given: bytes = b"") -> bytes:
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    command = [program("java"), *quick, "-cp", f"{jars}/*", tool, *arguments]
    done = subprocess.run(command, input=given, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, (done.stdout + done.stderr).decode()[-3000:]
    return done.stdout


def perform(jars: Path, address: str, topic: str, count: int, size: int, *properties: str) -> None:
    plain = [f"bootstrap.servers={address}", *properties]
    amount = ("--num-records", str(count), "--record-size", str(size), "--throughput", "-1")
    shown = run(jars, PERFORMANCE, "--topic", topic, *amount, "--producer-props", *plain)
    assert f"{count} records sent".encode() in shown


def consume(jars: Path, address: str, topic: str, count: int, *arguments: str) -> bytes:
    where = ("--bootstrap-server", address, "--topic", topic, "--partition", "0", "--offset", "earliest")
    return run(jars, CONSUMER, *where, "--max-messages", str(count), "--timeout-ms", "20000", *arguments)


@pytest.mark.parametrize("compression", CODECS)
def test_producer_performance_and_console_consumer(jars: Path, address: str, topic: str, compression: str) -> None:
    """By default the producer is idempotent and asks for acks=all."""
    perform(jars, address, topic, COUNT, 100, f"compression.type={compression}")
    assert len(consume(jars, address, topic, COUNT).splitlines()) == COUNT
    with Wire(address) as wire:
        heads = [head for head, _ in codec.split(b"".join(wire.fetch(topic, 0).pieces or []))]
    assert {CODECS[head.compression] for head in heads} == {compression}
    assert all(head.producer_id >= 0 for head in heads)


@pytest.mark.parametrize("acks", ["0", "1"])
def test_producer_performance_without_idempotence(jars: Path, address: str, topic: str, acks: str) -> None:
    perform(jars, address, topic, COUNT, 100, f"acks={acks}", "enable.idempotence=false")
    assert len(consume(jars, address, topic, COUNT).splitlines()) == COUNT


def test_big_messages_come_back(jars: Path, address: str, topic: str) -> None:
    perform(jars, address, topic, 20, 900_000)
    assert len(consume(jars, address, topic, 20)) == 20 * 900_001


def test_what_the_console_producer_sends_comes_back_with_keys_and_headers(jars: Path, address: str, topic: str) -> None:
    parse = ("--reader-property", "parse.key=true", "--reader-property", "parse.headers=true")
    given = b"".join(b"a:1,b:2\tkey-%d\tvalue-%d\n" % (number, number) for number in range(100))
    run(jars, PRODUCER, "--bootstrap-server", address, "--topic", topic, *parse, given=given)
    shown = ("--formatter-property", "print.key=true", "--formatter-property", "print.headers=true")
    assert consume(jars, address, topic, 100, *shown) == given
