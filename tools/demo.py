"""`make demo`: a broker, a client that somebody else wrote, kill -9 in the middle of the load, restart,
nothing lost; then one record through all six doors, the same topic with our own command line, a backup of it, and where
Java is, pipelines on Spark over live traffic (demo_pipelines.py).
Everything lives in a temporary folder and on free ports, and is gone at the end.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from queue import SimpleQueue

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from headrace.compat.broker_client import BrokerClient
from headrace.compat.http_client import HttpClient
from headrace.compat.line_client import LineClient
from headrace.compat.pubsub import PubSubClient
from headrace.compat.sync_json_client import SyncConsumer
from headrace.records import kernel
from headrace.testing.served import ServedBroker
from tools.demo_pipelines import pipelines

TOPIC = "payments"
BEFORE, DURING, AFTER = 10_000, 10_000, 10_000  # records; DURING are on their way when the kill comes
TOTAL = BEFORE + DURING + AFTER
LIMIT_S = 60.0


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="headrace-demo-") as folder:
        broker = ServedBroker(Path(folder))
        took = broker.start()
        kernels = "native kernels" if kernel.NATIVE else f"Python kernels ({kernel.REASON})"
        say(f"headrace serves Kafka clients at {broker.address} after {took:.2f} s, {kernels}")
        try:
            code = story(broker) or six_doors(broker)
            by_hand(broker, folder)
            return code or pipelines(broker, Path(folder), say)
        finally:
            broker.stop()


def six_doors(broker: ServedBroker) -> int:
    """Published once, as a line of text; read through every door, in its own protocol."""
    say("one log, six doors: a record that came in as a line of text, as each of them gives it")
    at = {
        door: (host, int(port))
        for door, (host, _, port) in ((door, address.rpartition(":")) for door, address in broker.addresses.items())
    }
    topic, text = "chat", "Hello from the lines door"
    with PubSubClient(broker.addresses["msgpack"]) as listener, LineClient(*at["lines"]) as lines:
        listener.subscribe(topic, "ready")
        listener.publish("ready", True)
        listener.recv(LIMIT_S)  # it hears itself, so it is subscribed
        lines.publish(topic, text)
        heard = listener.recv(LIMIT_S)
        (line,) = lines.history(topic, 1)
    with BrokerClient(*at["binary"]) as client, HttpClient(broker.http) as web:
        arrived: SimpleQueue[str] = SimpleQueue()
        client.subscribe(topic, 0, 0, lambda message: arrived.put(message.text))
        told = {
            "kafka": str(read_all(broker.address, topic)[0][1], "utf-8"),
            "binary": arrived.get(timeout=LIMIT_S),
            "lines": line.text,
            "json": SyncConsumer(*at["json"]).consume(topic, 0, 0),
            "http": next(web.records(topic)).value,
            "msgpack": heard.value if heard is not None else None,
        }
    for door, value in told.items():
        say(f"  {door:8} {broker.addresses[door]:17} {value}")
    good = set(map(str, told.values())) == {text}
    say("the same through all of them" if good else "THIS IS A BUG: please report it")
    return 0 if good else 1


def by_hand(broker: ServedBroker, folder: str) -> None:
    """What a person types. A command that fails ends the demo."""
    say("and by hand:")
    for line in (
        "topic describe payments",
        r"tail payments -n 3 --no-follow -f '%o:%s\n'",
        "topic create readings --partitions 3",
        "produce readings cold warm --key kitchen --header unit=C",
        "consume readings -o jsonl",
        f"publish chat Hello-again -s {broker.addresses['lines']}",
        f"history chat 2 --door http -s {broker.http}",
        "backup create before-lunch --data data",
    ):
        print(f"\n  $ headrace {line}", flush=True)
        command = [sys.executable, "-m", "headrace", *shlex.split(line)]
        variables = os.environ | {"HEADRACE_SERVER": broker.address}
        done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True, check=False)
        for shown in (done.stdout + done.stderr).splitlines():
            print(f"  {shown}")
        if done.returncode:
            raise SystemExit(done.returncode)


def story(broker: ServedBroker) -> int:
    acknowledged: dict[int, bytes] = {}

    def delivered(error: KafkaError | None, message: Message) -> None:
        offset, value = message.offset(), message.value()
        if error is None and offset is not None and isinstance(value, bytes):
            acknowledged[offset] = value

    settings = {
        "bootstrap.servers": broker.address,
        "enable.idempotence": True,
        "acks": "all",
        "linger.ms": 2,
    }
    producer = Producer(settings | {"reconnect.backoff.max.ms": 100, "log_level": 0})
    say(f"confluent-kafka {confluent_kafka.__version__} sends {BEFORE + DURING:,} records, idempotent, acks=all")
    for number in range(BEFORE):
        producer.produce(TOPIC, b"payment %d" % number, on_delivery=delivered)
    while len(acknowledged) < BEFORE // 2:
        producer.poll(0.01)
    for number in range(BEFORE, BEFORE + DURING):
        producer.produce(TOPIC, b"payment %d" % number, on_delivery=delivered)
    broker.kill()
    producer.poll(0)
    say(f"kill -9 in mid-load: {len(acknowledged):,} acknowledged, {len(producer):,} still on their way")
    say(f"restarted on the same data in {broker.start():.2f} s; the client was told nothing and goes on")
    for number in range(BEFORE + DURING, TOTAL):
        producer.produce(TOPIC, b"payment %d" % number, on_delivery=delivered)
    left = producer.flush(LIMIT_S)
    say(f"sent {AFTER:,} more; acknowledged in all: {len(acknowledged):,}, given up: {left}")
    kept = read_all(broker.address)
    say(f"read back from the first offset: {len(kept):,} records")
    return verdict(acknowledged, kept)


def verdict(acknowledged: dict[int, bytes], kept: list[tuple[int, bytes]]) -> int:
    lost = len(acknowledged.items() - set(kept))
    doubled = len(kept) - len({value for _, value in kept})
    dense = [offset for offset, _ in kept] == list(range(TOTAL))
    in_order = [value for _, value in kept] == [b"payment %d" % n for n in range(TOTAL)]
    say(f"acknowledged and lost: {lost}    stored twice: {doubled}")
    say(f"offsets dense: {yes(dense)}    in the order of sending: {yes(in_order)}")
    good = not lost and not doubled and dense and in_order
    say("nothing lost" if good else "THIS IS A BUG: please report it")
    return 0 if good else 1


def read_all(address: str, topic: str = TOPIC) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "demo", "enable.auto.commit": False})
    start = TopicPartition(topic, 0, 0)
    consumer.assign([start])
    _, end = consumer.get_watermark_offsets(start, timeout=LIMIT_S)
    kept: list[tuple[int, bytes]] = []
    deadline = time.monotonic() + LIMIT_S
    while len(kept) < end and time.monotonic() < deadline:
        for message in consumer.consume(1000, timeout=0.2):
            offset, value = message.offset(), message.value()
            if message.error() is None and offset is not None and isinstance(value, bytes):
                kept.append((offset, value))
    consumer.close()
    return kept


def yes(fact: bool) -> str:
    return "yes" if fact else "NO"


def say(text: str) -> None:
    print(f"  {text}", flush=True)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # all that it made is gone by now
