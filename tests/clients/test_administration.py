"""Administration by other people's clients: topics that grow, settings that change, records that go."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka import TopicPartition as PythonPartition
from kafka.admin import NewTopic as KafkaPythonTopic

from bench.servers import ServerError, fetch_kafka_tools
from tests.clients.conftest import REQUIRE, program
from tests.support import Wire, batch_of

pytestmark = pytest.mark.timeout(600)  # the first run fetches the jars

LIMIT_S = 60
TOOLS = "org.apache.kafka.tools"


def results(futures: dict[Any, Any]) -> list[Any]:
    return [one.result(LIMIT_S) for one in futures.values()]


def test_confluents_admin_client(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address})
    results(admin.create_topics([NewTopic(topic, 1, 1, config={"cleanup.policy": "delete"})]))
    results(admin.create_partitions([NewPartitions(topic, 3)]))
    assert len(admin.list_topics(topic, timeout=LIMIT_S).topics[topic].partitions) == 3
    entry = ConfigEntry("retention.ms", "777", incremental_operation=AlterConfigOpType.SET)
    results(admin.incremental_alter_configs([ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])]))
    (found,) = results(admin.describe_configs([ConfigResource(ResourceType.TOPIC, topic)]))
    assert (found["retention.ms"].value, found["retention.ms"].is_default) == ("777", False)
    (node,) = results(admin.describe_configs([ConfigResource(ResourceType.BROKER, "0")]))
    assert node["log.dirs"].is_read_only
    with Wire(address) as wire:
        wire.produce(topic, batch_of([b"one", b"two", b"three"]))
    (deleted,) = results(admin.delete_records([TopicPartition(topic, 0, 2)]))
    assert deleted.low_watermark == 2
    (earliest,) = results(admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.earliest()}))
    assert earliest.offset == 2
    assert admin.describe_cluster().result(LIMIT_S).nodes[0].id == 0


def test_kafka_pythons_admin_client(address: str, topic: str) -> None:
    admin = KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([KafkaPythonTopic(topic, 1, 1)])
    admin.create_partitions({topic: 2})
    (described,) = admin.describe_topics([topic])
    assert len(described["partitions"]) == 2
    with Wire(address) as wire:
        wire.produce(topic, batch_of([b"one", b"two", b"three"]))
    deleted = admin.delete_records({PythonPartition(topic, 0): 2})
    assert deleted[PythonPartition(topic, 0)]["low_watermark"] == 2
    ((directory,),) = (one["log_dirs"] for one in admin.describe_log_dirs())
    assert topic in {one["name"] for one in directory["topics"]}
    assert 0 < directory["usable_bytes"] <= directory["total_bytes"]
    (quorum,) = admin.describe_metadata_quorum()["topics"]
    assert quorum["partitions"][0]["leader_id"] == 0
    assert topic in admin.list_config_resources()["topic"]
    assert admin.describe_cluster()["brokers"][0]["broker_id"] == 0
    admin.close()


@pytest.fixture(scope="module")
def jars() -> Path:
    program("java")
    try:
        return fetch_kafka_tools()
    except ServerError as error:
        if os.environ.get(REQUIRE) == "1":
            pytest.fail(str(error))
        pytest.skip(str(error))


def tool(jars: Path, name: str, *arguments: str) -> str:
    quick = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m"]
    command = [program("java"), *quick, "-cp", f"{jars}/*", f"{TOOLS}.{name}", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


def test_kafkas_own_tools(jars: Path, address: str, topic: str, tmp_path: Path) -> None:
    at = ("--bootstrap-server", address)
    tool(jars, "TopicCommand", *at, "--create", "--topic", topic, "--config", "retention.ms=999")
    tool(jars, "TopicCommand", *at, "--alter", "--topic", topic, "--partitions", "2")
    shown = tool(jars, "TopicCommand", *at, "--describe", "--topic", topic)
    assert "PartitionCount: 2" in shown and "retention.ms=999" in shown
    with Wire(address) as wire:
        wire.produce(topic, batch_of([b"one", b"two", b"three"]))
    wish = tmp_path / "wish.json"
    wish.write_text(
        json.dumps({"version": 1, "partitions": [{"topic": topic, "partition": 0, "offset": 2}]}),
    )
    assert "low_watermark: 2" in tool(jars, "DeleteRecordsCommand", *at, "--offset-json-file", str(wish))
    assert topic in tool(jars, "LogDirsCommand", *at, "--describe", "--topic-list", topic)
    assert "LeaderId:" in tool(jars, "MetadataQuorumCommand", *at, "describe", "--status")
