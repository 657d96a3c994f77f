"""Variables of other brokers: weaker than ours, stronger than a file; what has no effect is told, a key is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.node.settings import Address, Tree, load, settings_of
from headrace.node.settings.foreign import ADDRESSES, ADVERTISED, IDLE, LEVELS, PLAIN, REFUSED
from headrace.node.settings.table import BY_KEY


def tree(environment: dict[str, str], flags: dict[str, str] | None = None) -> Tree:
    return load(dict(flags or {}), environment, ())


def value(key: str, environment: dict[str, str], flags: dict[str, str] | None = None) -> object:
    read = tree(environment, flags)
    assert read.problems == []
    return read.held(BY_KEY[key]).value


@pytest.mark.parametrize(
    ("variable", "text", "key", "expected"),
    [
        ("QB_SERVER_HOST", "0.0.0.0", "binary.listen", Address("0.0.0.0", 9999)),
        ("QB_SERVER_PORT", "10000", "binary.listen", Address("127.0.0.1", 10000)),
        ("WIBER_HOST", "::1", "lines.listen", Address("::1", 8888)),
        ("WIBER_PORT", "7777", "lines.listen", Address("127.0.0.1", 7777)),
        ("BROKER_HTTP_HOST", "0.0.0.0", "http.listen", Address("0.0.0.0", 8081)),
        ("BROKER_HTTP_PORT", "8085", "http.listen", Address("127.0.0.1", 8085)),
        ("QB_DATA_DIR", "/qb", "node.data", "/qb"),
        ("WIBER_DATA_DIR", "/wiber", "node.data", "/wiber"),
        ("PUBSUB_DATA_DIR", "/pubsub", "node.data", "/pubsub"),
        ("BROKER_ID", "3", "node.id", 3),
        ("QB_MAX_CONNECTIONS", "12", "binary.max-connections", 12),
        ("QB_DEFAULT_PARTITIONS", "4", "topics.default-partitions", 4),
        ("QB_LOG_LEVEL", "WARNING", "log.level", "warning"),
        ("RUST_LOG", "lbroker=trace,warn", "log.level", "warning"),
        ("BROKER_API_BASE", "http://broker.example:8081", "http.advertised", Address("broker.example", 8081)),
        ("SELF_API_BASE", "http://[::1]:8081/", "http.advertised", Address("::1", 8081)),
    ],
)
def test_a_variable_of_another_broker_is_taken(variable: str, text: str, key: str, expected: object) -> None:
    held = tree({variable: text}).held(BY_KEY[key])
    assert (held.value, held.origin.where) == (expected, variable)


def test_every_variable_leads_to_a_setting_that_there_is() -> None:
    keys = {pair.key for pair in ADDRESSES} | set(PLAIN.values()) | set(LEVELS.values()) | set(ADVERTISED.values())
    assert keys <= set(BY_KEY)


def test_flags_win_over_our_variables_they_over_others_and_those_over_a_file(tmp_path: Path) -> None:
    file = tmp_path / "headrace.toml"
    file.write_text('[lines]\nlisten = "127.0.0.1:1"\n')
    flags, ours, theirs = {"lines": "127.0.0.1:4"}, {"HEADRACE_LINES": "127.0.0.1:3"}, {"WIBER_PORT": "2"}
    config = {"config": str(file)}
    for given, environment, port in (
        (flags, ours | theirs, 4),
        ({}, ours | theirs, 3),
        ({}, theirs, 2),
        ({}, {}, 1),
    ):
        assert value("lines.listen", environment, config | given) == Address("127.0.0.1", port)
    held = tree(ours | theirs, config | flags).held(BY_KEY["lines.listen"])
    assert [one.origin.where for one in held.overruled] == ["HEADRACE_LINES", "WIBER_PORT", f"{file}:2"]


def test_half_an_address_takes_its_other_half_from_the_file(tmp_path: Path) -> None:
    file = tmp_path / "broker.json"
    file.write_text('{"server": {"host": "0.0.0.0", "port": 9998}}')
    assert value("binary.listen", {"QB_SERVER_PORT": "7"}, {"config": str(file)}) == Address("0.0.0.0", 7)
    assert value("binary.listen", {"QB_CONFIG_FILE": str(file)}) == Address("0.0.0.0", 9998)


def test_a_broker_id_implies_a_port_and_a_folder_that_anything_else_overrules(tmp_path: Path) -> None:
    environment = {"BROKER_ID": "2"}
    assert value("http.listen", environment) == Address("127.0.0.1", 8082)
    assert value("node.data", environment) == "data2"
    assert value("json.listen", environment) == Address("127.0.0.1", 9002)
    assert value("http.listen", environment | {"BROKER_HTTP_PORT": "1"}) == Address("127.0.0.1", 1)
    file = tmp_path / "headrace.toml"
    file.write_text('[node]\ndata = "mine"\n')
    assert value("node.data", environment, {"config": str(file)}) == "mine"


def test_what_has_no_effect_is_told_and_not_silently_taken() -> None:
    read = tree(dict.fromkeys(IDLE, "1") | {"RUST_LOG": "lbroker=debug"})
    assert read.problems == []
    told = {warning.where: warning.text for warning in read.warnings}
    assert set(told) == {*IDLE, "RUST_LOG"}
    assert all(text.startswith("has no effect: ") for text in told.values())


@pytest.mark.parametrize("name", REFUSED)
def test_a_key_for_encryption_is_refused_because_nothing_would_be_encrypted(name: str) -> None:
    (problem,) = tree({name: "secret-of-mine"}).problems
    assert problem.where == name
    assert "encryption at rest" in problem.text
    assert "secret-of-mine" not in str(problem)


def test_a_wrong_value_is_told_at_the_variable_that_has_it_with_the_names_of_ours() -> None:
    read = tree({"QB_SERVER_PORT": "many", "QB_MAX_CONNECTIONS": "few", "BROKER_API_BASE": "nowhere"})
    places = [problem.where for problem in read.problems]
    assert places == [
        "BROKER_API_BASE (or http.advertised, --http-advertised, HEADRACE_HTTP_ADVERTISED)",
        "QB_SERVER_PORT (or binary.listen, --binary, HEADRACE_BINARY)",
        "QB_MAX_CONNECTIONS (or binary.max-connections, --binary-max-connections, HEADRACE_BINARY_MAX_CONNECTIONS)",
    ]


def test_an_empty_variable_says_nothing() -> None:
    names = [*PLAIN, *LEVELS, *ADVERTISED, *IDLE, *REFUSED, *(name for pair in ADDRESSES for name in pair[:2])]
    read = tree(dict.fromkeys(names, ""))
    assert read.problems == read.warnings == []
    assert settings_of(read).node_id == 0


@pytest.mark.parametrize(
    ("flags", "node_id", "address"),
    [
        ({"broker-id": "2"}, 2, Address("127.0.0.1", 9002)),
        ({"broker-id": "2", "port": "7000"}, 2, Address("127.0.0.1", 7000)),
        ({"broker-id": "2", "host": "::1"}, 2, Address("::1", 9002)),
        ({"broker-id": "2", "host": "0.0.0.0", "port": "0"}, 2, Address("0.0.0.0", 0)),
        ({"broker-id": "2", "port": "7000", "json": "127.0.0.1:1", "node-id": "5"}, 5, Address("127.0.0.1", 1)),
    ],
)
def test_flags_of_a_json_broker_are_taken(flags: dict[str, str], node_id: int, address: Address) -> None:
    environment = {"BROKER_ID": "9", "HEADRACE_JSON": "127.0.0.1:3"} if "port" in flags and "host" in flags else {}
    assert (value("node.id", environment, flags), value("json.listen", environment, flags)) == (node_id, address)


def test_what_is_wrong_with_them_is_told_under_their_names() -> None:
    read = tree({}, {"broker-id": "x", "port": "99999"})
    assert sorted(problem.where.partition(" ")[0] for problem in read.problems) == ["--broker-id", "--port"]
    assert [problem.where for problem in tree({}, {"port": "7000"}).problems] == ["--port"]
