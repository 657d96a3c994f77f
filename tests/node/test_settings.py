"""Flags over environment over defaults, and errors that name both."""

from __future__ import annotations

import pytest

from headrace.errors import InvalidConfig
from headrace.node.settings import FLAGS, Address, read, unknown_variables


def test_a_flag_wins_over_its_variable_and_the_variable_over_the_default() -> None:
    environment = {"HEADRACE_KAFKA": "127.0.0.1:1", "HEADRACE_NODE_ID": "7"}
    settings = read({"kafka": "127.0.0.1:2"}, environment)
    assert settings.kafka == Address("127.0.0.1", 2)
    assert settings.node_id == 7
    assert settings.data == "headrace-data"


def test_every_flag_has_a_twin_in_the_environment_and_a_default_that_works() -> None:
    for flag in FLAGS:
        read({}, {flag.variable: flag.default} if flag.default else {})
        assert flag.variable == "HEADRACE_" + flag.name.upper().replace("-", "_")


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("off", None),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("[::1]:9092", Address("::1", 9092)),
        (":9092", Address("127.0.0.1", 9092)),
    ],
)
def test_an_address_is_host_and_port_or_off(text: str, address: Address | None) -> None:
    assert read({"kafka": text}, {}).kafka == address


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("kafka", "9092x"),
        ("kafka", "h:70000"),
        ("node-id", "-1"),
        ("node-id", "x"),
        ("data", ""),
        ("log-level", "loud"),
        ("auto-create-topics", "maybe"),
        ("max-connections", "0"),
    ],
)
def test_a_bad_value_is_refused_with_the_flag_and_the_variable(name: str, value: str) -> None:
    with pytest.raises(InvalidConfig, match=f"--{name}") as refused:
        read({name: value}, {})
    assert "HEADRACE_" in str(refused.value)


def test_an_address_is_written_so_that_it_can_be_read_again() -> None:
    assert str(Address("::1", 5)) == "[::1]:5"
    assert read({"kafka": str(Address("::1", 5))}, {}).kafka == Address("::1", 5)


def test_a_variable_that_only_looks_like_a_setting_is_found() -> None:
    environment = {"HEADRACE_DAAT": "x", "HEADRACE_DATA": "x", "HEADRACE_NATIVE": "0", "HOME": "/"}
    assert unknown_variables(environment) == ["HEADRACE_DAAT"]


def test_more_partitions_by_default_than_there_may_be_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="--default-partitions"):
        read({"default-partitions": "30000"}, {})


def test_a_bound_that_is_none_is_not_named() -> None:
    with pytest.raises(InvalidConfig, match="takes at least 1, not 0"):
        read({"max-partitions": "0"}, {})
