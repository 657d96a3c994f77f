"""Where a command goes that names no door: to the doors of its server, never to those of another one."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from headrace.cli import exits, options
from headrace.node.settings.table import LISTEN
from headrace.testing import Broker
from headrace.testing.served import ServedBroker
from tests.cli.running import Run

CLOSED = ("json", "binary", "http")
COMMANDS = (("publish", "t", "x"), ("subscribe", "t", "--count", "1"), ("history", "t"), ("create-topic", "t"))


@pytest.fixture(scope="module")
def half(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that has some of its doors closed: its Kafka address."""
    flags = [word for door in CLOSED for word in (f"--{door}", "off")]
    with ServedBroker(tmp_path_factory.mktemp("half"), *flags) as served:
        yield served.address


@pytest.fixture
def other(monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """Another server, at the usual ports as far as commands know."""
    with Broker() as running:
        for door, setting in LISTEN.items():
            monkeypatch.setitem(LISTEN, door, msgspec.structs.replace(setting, default=running.addresses[door]))
        yield running


@pytest.mark.parametrize("door", ["json", "binary"])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_door_that_the_named_server_has_closed_is_an_error_and_no_other_server_is_asked(
    run: Run, half: str, other: Broker, command: tuple[str, ...], door: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", half)
    ended = run(*command, "--door", door)
    assert (ended.code, ended.out) == (exits.NOT_FOUND, "")
    assert ended.err.splitlines() == [
        f"headrace: {half} has no {door} door: it was started with --{door} off",
        f"  try: start it with --{door} HOST:PORT; its open doors are kafka, lines, msgpack",
    ]
    assert other.topics() == {}


def test_a_door_that_the_named_server_has_open_is_found(
    run: Run, half: str, other: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", half)
    assert run("publish", name, "x").out == "OK published\n"
    assert name not in other.topics()


def test_the_server_that_nothing_names_tells_of_its_doors_too(
    run: Run, half: str, other: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "DEFAULT_SERVER", half)
    closed = run("publish", name, "x", "--door", "json")
    assert closed.code == exits.NOT_FOUND and f"{half} has no json door" in closed.err
    assert run("publish", name, "x").out == "OK published\n"
    assert other.topics() == {}


def test_the_usual_port_is_taken_where_nothing_names_a_server_and_none_is_there(
    run: Run, other: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "DEFAULT_SERVER", "127.0.0.1:1")
    ended = run("publish", name, "x", "-v")
    assert ended.out == "OK published\n"
    assert f"taking {other.addresses['lines']}, the usual port of the lines door" in ended.err
    assert other.values(name) == [b"x"]


def test_a_named_server_that_is_not_there_is_an_error(
    run: Run, other: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", "127.0.0.1:1")
    assert run("publish", name, "x", "--timeout", "2s").code in (exits.UNREACHABLE, exits.TIMED_OUT)
    assert other.topics() == {}


def test_a_server_that_does_not_tell_of_doors_is_named_in_a_note(
    run: Run, kafka_address: str, other: Broker, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_SERVER", kafka_address)
    ended = run("publish", name, "x")
    assert f"{kafka_address} does not tell where its doors are: taking {other.addresses['lines']}" in ended.err
    assert other.values(name) == [b"x"]


def test_top_without_an_http_door_shows_what_the_kafka_protocol_tells(run: Run, half: str) -> None:
    ended = run("-s", half, "top", "--once")
    assert ended.code == 0
    assert f"{half} has no http door" in ended.err


def test_queues_of_a_server_without_an_http_door_are_not_those_of_another(run: Run, half: str, other: Broker) -> None:
    ended = run("-s", half, "queue", "list")
    assert ended.code == exits.NOT_FOUND and f"{half} has no http door" in ended.err
