"""The topics in which a node keeps its own state are read through Kafka's door, as Kafka allows it, and through no
other. What it tells of itself (`!system/…`) is for everybody."""

from __future__ import annotations

import json
from concurrent.futures import Future
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)

from tests.doors_binary import raw as binary
from tests.doors_json import kit as json_kit
from tests.doors_lines import kit as lines
from tests.doors_msgpack import kit as msgpack
from tests.matrix import ports
from tests.support import ServedBroker, serving

STATE = ["__queue_state", "__consumer_offsets", "__transaction_state"]


@pytest.fixture(scope="module")
def used(node: ServedBroker) -> ServedBroker:
    """A queue, a group and a transaction have made their topics."""
    with lines.Peer(node.addresses["lines"]) as peer:
        peer.ask(b"SUBACK own g")
        peer.ask(b"PUB own x")
    kafka = {"bootstrap.servers": node.addresses["kafka"]}
    producer = Producer({**kafka, "transactional.id": "own"})
    producer.init_transactions(ports.LIMIT_S)
    producer.begin_transaction()
    producer.produce("own", b"y")
    producer.commit_transaction(ports.LIMIT_S)
    consumer = Consumer({**kafka, "group.id": "own"})
    consumer.commit(offsets=[TopicPartition("own", 0, 1)], asynchronous=False)
    consumer.close()
    return node


@pytest.mark.parametrize("name", STATE)
def test_lines_and_json_and_http_and_binary_refuse_plainly(used: ServedBroker, name: str) -> None:
    with lines.Peer(used.addresses["lines"]) as peer:
        for asked in ("SUB {}", "SUB {} g", "SUBACK {} g", "HISTORY {} 10", "RANGE {} 1 10", "SINCE {} 0"):
            reply = peer.ask(asked.format(name).encode())
            assert reply.startswith(b"ERR InvalidTopicName: ") and b"the broker's own" in reply, asked
    for offset in (0, -1):
        answer = json_kit.consume(used.addresses["json"], name, offset)
        assert answer["status"] == "failure" and "the broker's own" in answer["message"]
    web = ports.HttpPort(used.addresses["http"])
    for path in (
        f"/poll?topic={name}&from_offset=0&timeout_ms=0",
        f"/topics/{name}/records",
        f"/topics/{name}/records?last=5",
        f"/topics/{name}/stream?from=0",
    ):
        status, told = web.ask("GET", path)
        assert status == 400 and "the broker's own" in told["detail"], path
    status, told = web.ask("POST", "/subscribe", {"topic": name, "consumer_id": "c"})
    assert status == 400 and "the broker's own" in told["detail"]
    with ports.connect(used.addresses["binary"]) as to:
        frames = ports._frames(to)
        for more in ({}, {"replay": "true", "offset": "0"}, {"group": "g"}):
            wish = {"topic": name, "client_id": "r", "partition": "0", **more}
            to.sendall(binary.frame(binary.SUBSCRIBE, 1, wish))
            said = next(frames).properties
            assert said["status"] == "error" and "the broker's own" in said["error"]


def test_msgpack_delivers_nothing_of_them(used: ServedBroker) -> None:
    with msgpack.Raw(used.addresses["msgpack"]) as raw:
        raw.send(*(msgpack.subscribe(name) for name in (*STATE, "__*")))
        raw.in_order()
        with lines.Peer(used.addresses["lines"]) as peer:
            peer.ask(b"SUBACK own g2")
            peer.ask(b"PUB own z")
        raw.expect_nothing()


@pytest.mark.parametrize("name", STATE)
def test_kafkas_door_reads_them(used: ServedBroker, name: str) -> None:
    kafka = {"bootstrap.servers": used.addresses["kafka"]}
    partitions = AdminClient(kafka).list_topics(name, ports.LIMIT_S).topics[name].partitions
    consumer = Consumer({**kafka, "group.id": "reads-state", "enable.auto.commit": False})
    consumer.assign([TopicPartition(name, index, 0) for index in partitions])
    message = consumer.poll(ports.LIMIT_S)
    consumer.close()
    assert message is not None and message.error() is None and message.topic() == name


def test_what_a_node_tells_of_itself_is_for_everybody(used: ServedBroker) -> None:
    with lines.Peer(used.addresses["lines"]) as peer:
        name = b"!system/metrics/connections"
        assert peer.ask(b"SUB " + name) == b"OK subscribed " + name
        assert peer.ask(b"HISTORY " + name + b" 1").startswith((b"HISTORY ", b"OK history end"))


@pytest.mark.parametrize("name", STATE)
def test_a_publish_through_json_that_is_refused_has_not_grown_them(used: ServedBroker, name: str) -> None:
    """Which partition holds the state of a queue, a group or a transaction goes by how many there are."""
    admin = AdminClient({"bootstrap.servers": used.addresses["kafka"]})
    before = len(admin.list_topics(name, ports.LIMIT_S).topics[name].partitions)
    for partition in (0, before, 15):
        answer = json_kit.publish(used.addresses["json"], name, "x", partition)
        assert answer["status"] == "failure", answer
    assert len(admin.list_topics(name, ports.LIMIT_S).topics[name].partitions) == before


@pytest.mark.parametrize("name", STATE)
def test_nobody_makes_or_grows_them_by_hand(used: ServedBroker, name: str) -> None:
    """With Kafka an administrator may, and then groups look for their positions where they are not."""
    admin = AdminClient({"bootstrap.servers": used.addresses["kafka"]})
    before = len(admin.list_topics(name, ports.LIMIT_S).topics[name].partitions)
    for wish in (NewTopic(name, 1, 1), NewTopic(name, 7, 1, config={"cleanup.policy": "compact"})):
        assert code_of(admin.create_topics([wish])[name]) == KafkaError.TOPIC_EXCEPTION
    assert code_of(admin.create_partitions([NewPartitions(name, before + 1)])[name]) == KafkaError.TOPIC_EXCEPTION
    asked = json_kit.request("create_topic", name, before + 2)
    answer = json.loads(json_kit.reply(used.addresses["json"], asked))
    assert answer["status"] == "failure" and "the broker's own" in answer["message"]
    web = ports.HttpPort(used.addresses["http"])
    for method, path in (("POST", f"/admin/topics?name={name}"), ("DELETE", f"/admin/topics/{name}")):
        status, told = web.ask(method, path)
        assert status == 400 and "the broker's own" in told["detail"], path
    with ports.connect(used.addresses["binary"]) as to:
        to.sendall(binary.frame(binary.CREATE_TOPIC, 1, {"topic": name, "partitions": "3", "client_id": "r"}))
        said = next(ports._frames(to)).properties
        assert said["status"] == "error" and "already exists" in said["error"]
    assert len(admin.list_topics(name, ports.LIMIT_S).topics[name].partitions) == before


@pytest.mark.parametrize("name", STATE)
def test_they_stay_compacted_and_other_settings_may_change(used: ServedBroker, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": used.addresses["kafka"]})

    def set_to(setting: str, value: str) -> int | None:
        change = ConfigEntry(setting, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ConfigResource.Type.TOPIC, name, incremental_configs=[change])
        return code_of(admin.incremental_alter_configs([resource])[resource])

    for policy in ("delete", "compact,delete"):
        assert set_to("cleanup.policy", policy) == KafkaError.INVALID_CONFIG
    assert set_to("segment.bytes", str(32 << 20)) is None


def test_a_node_that_has_none_yet_lets_nobody_make_one(tmp_path: Path) -> None:
    with serving(tmp_path) as fresh:
        admin = AdminClient({"bootstrap.servers": fresh.addresses["kafka"]})
        for name in STATE:
            assert code_of(admin.create_topics([NewTopic(name, 1, 1)])[name]) == KafkaError.TOPIC_EXCEPTION
            assert json_kit.publish(fresh.addresses["json"], name, "x")["status"] == "failure"
            with lines.Peer(fresh.addresses["lines"]) as peer:
                assert peer.ask(f"PUB {name} x".encode()).startswith(b"ERR InvalidTopicName: ")
            status, _ = ports.HttpPort(fresh.addresses["http"]).ask("POST", f"/topics/{name}/publish", {"value": 1})
            assert status in (400, 404)
            with ports.connect(fresh.addresses["binary"]) as to:
                to.sendall(binary.frame(binary.CREATE_TOPIC, 1, {"topic": name, "partitions": "3", "client_id": "r"}))
                said = next(ports._frames(to)).properties
                assert said["status"] == "error" and "the broker's own" in said["error"]
        assert code_of(admin.create_topics([NewTopic("__mine", 1, 1)])["__mine"]) is None  # as Kafka has it
        assert set(admin.list_topics(timeout=ports.LIMIT_S).topics) == {"__mine"}


def code_of(made: Future[None]) -> int | None:
    try:
        made.result(ports.LIMIT_S)
    except KafkaException as error:
        return int(error.args[0].code())
    return None
