"""`headrace bench fanout`: the msgpack protocol's own load, counted as what the server took and gave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.bench.fanout import TOPICS, Fanout
from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.support import serving


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    folder: Path = tmp_path_factory.mktemp("fanout")
    with serving(folder) as running:
        yield running


def measured(run: Run, broker: ServedBroker, *options: str) -> Fanout:
    address = broker.addresses["msgpack"]
    return run("bench", "fanout", "--address", address, "--duration", "1s", *options, "-o", "json").row(Fanout)


def test_at_an_interval_every_client_gets_every_seventh_message(run: Run, broker: ServedBroker) -> None:
    found = measured(run, broker, "--number", "5", "--interval", "0.02", "--subscribe", "a")
    assert (found.clients, found.subscriptions) == (5, 5)
    assert 0 < found.commands <= 5 + 5 * 60
    published_to_a = (found.commands - 5) / len(TOPICS)
    assert 0 < found.messages_received <= (published_to_a + 5) * 5


def test_without_an_interval_they_publish_as_fast_as_the_server_takes_it(run: Run, broker: ServedBroker) -> None:
    found = measured(run, broker, "-n", "3")
    assert found.commands > 1000 and found.messages_received == 0
    assert found.commands_per_second == pytest.approx(found.commands / found.seconds, rel=0.01)


def test_a_table_for_people_has_the_rates(run: Run, broker: ServedBroker) -> None:
    ended = run("bench", "fanout", "-a", broker.addresses["msgpack"], "--duration", "200ms", "--subscribe", "*")
    assert ended.code == 0
    assert "COMMANDS PER SECOND" in ended.out and "MESSAGES RECEIVED" in ended.out


def test_a_door_that_nobody_opened_and_senseless_numbers_are_told(run: Run) -> None:
    assert run("bench", "fanout", "-a", "127.0.0.1:1").code == exits.UNREACHABLE
    assert run("bench", "fanout", "-a", "127.0.0.1:1", "--number", "100000").code == exits.USAGE
    assert run("bench", "fanout", "-a", "127.0.0.1:1", "--duration", "0").code == exits.USAGE
