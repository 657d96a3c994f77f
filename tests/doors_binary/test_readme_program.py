"""The program in the README of the protocol's own broker, as it is written there, against a node with that broker's
configuration file: which makes `events` at its start, so that the program's first request finds it there."""

from __future__ import annotations

import json
import queue
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import headrace.compat
from headrace.compat import AsyncBrokerClient, BrokerClient
from headrace.compat.binary_values import Refused
from tests.doors_binary.raw import LIMIT_S
from tests.doors_binary.running import Running
from tests.support import serving

CONFIGURATION = {
    "server": {"host": "127.0.0.1", "port": 9999, "max_connections": 100, "heartbeat_interval": 30},
    "storage": {"data_dir": "./storage/data", "snapshot_interval": 60},
    "topics": {"default_partitions": 1, "max_partitions": 16, "retention_hours": 24},
}
PROGRAM = """
from client import BrokerClient

# Connect to broker
with BrokerClient(host='127.0.0.1', port=9999, client_id='my_client') as client:
    
    # Create topic
    client.create_topic('events', partitions=3)
    
    # Publish message
    client.publish_text('events', 'Hello World!', partition=0)
    
    # Subscribe to messages
    def handle_message(message):
        print(f"Received: {message.body.decode('utf-8')}")
    
    client.subscribe('events', partition=0, handler=handle_message)
    
    # Keep connection alive
    time.sleep(10)
"""  # noqa: W293  # as it is written


def test_it_runs_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "broker.json"
    file.write_text(json.dumps(CONFIGURATION))
    monkeypatch.setitem(sys.modules, "client", headrace.compat)
    printed: queue.Queue[str] = queue.Queue()
    received: list[str] = []

    def sleep(seconds: float) -> None:
        """As long as it takes for a message to come."""
        assert seconds == 10
        received.append(printed.get(timeout=LIMIT_S))

    with serving(tmp_path / "node", "--config", str(file)) as broker:
        port = broker.addresses["binary"].rpartition(":")[2]
        exec(PROGRAM.replace("9999", port), {"print": printed.put, "time": SimpleNamespace(sleep=sleep)})
    assert received == ["Received: Hello World!"]


async def test_making_a_topic_says_whether_it_was_made_and_any_other_refusal_is_an_error(binary: Running) -> None:
    async with AsyncBrokerClient(binary.at.host, binary.at.port) as client:
        assert await client.create_topic("t", 2) is True
        assert await client.create_topic("t", 3) is False
        with pytest.raises(Refused, match="partition"):
            await client.create_topic("other", 0)


def test_both_clients_say_so(tmp_path: Path) -> None:
    with serving(tmp_path) as broker:
        host, _, port = broker.addresses["binary"].rpartition(":")
        with BrokerClient(host, int(port)) as client:
            assert client.create_topic("t") is True
            assert client.create_topic("t") is False
            with pytest.raises(Refused):
                client.create_topic("t2", 0)
