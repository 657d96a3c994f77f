"""Every captured exchange of the json protocol, and every row of its table, over a real socket, byte for byte."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from headrace.testing.broker import Broker
from tests.doors_json.kit import Kept, connect, consume, publish, reply, request, rest

PUBLISH = b'{"type": "publish", "topic_name": "test_topic", "partition": 0, "payload": "Hello"}'
PUBLISHED = bytes.fromhex(
    "7b22737461747573223a202273756363657373222c20226d657373616765223a20224d657373616765207075626c697368656420746f20"
    "746573745f746f7069632c20706172746974696f6e2030227d"
)
CONSUME = b'{"type": "consume", "topic_name": "test_topic", "partition": 0, "payload": null, "offset": 0}'
CONSUMED = bytes.fromhex("7b22737461747573223a202273756363657373222c20226d657373616765223a202248656c6c6f227d")
NONE = b'{"status": "failure", "message": "No message available"}'


def test_captured_exchanges_come_out_byte_for_byte() -> None:
    with Broker() as broker:
        door = broker.addresses["json"]
        assert reply(door, PUBLISH) == PUBLISHED
        assert reply(door, CONSUME) == CONSUMED


def test_every_type_is_answered_in_its_words(door: str) -> None:
    assert reply(door, request("publish", "rows", 0, "a")) == (
        b'{"status": "success", "message": "Message published to rows, partition 0"}'
    )
    assert reply(door, request("replicate", "rows", 0, "b")) == (
        b'{"status": "success", "message": "Message replicated to rows, partition 0"}'
    )
    assert reply(door, request("consume", "rows", 0)) == b'{"status": "success", "message": "a"}'
    assert reply(door, request("consume", "rows", 0, offset=1)) == b'{"status": "success", "message": "b"}'
    assert reply(door, request("consume", "rows", 0, offset=2)) == NONE
    assert reply(door, request("consume", "nosuch", 0)) == NONE
    assert reply(door, request("consume", "rows", 7)) == NONE
    assert reply(door, request("delete", "rows", 0)) == b'{"status": "failure", "message": "Unknown request type"}'
    assert reply(door, b"{}") == b'{"status": "failure", "message": "Unknown request type"}'
    assert reply(door, request("create_topic", "rows3", 3)) == (
        b'{"status": "success", "message": "Topic rows3 created with 3 partitions"}'
    )


def test_names_that_are_not_ascii_are_escaped_as_the_original_does(door: str) -> None:
    assert reply(door, '{"type": "publish", "topic_name": "größe", "partition": 0, "payload": "é日"}'.encode()) == (
        b'{"status": "success", "message": "Message published to gr\\u00f6\\u00dfe, partition 0"}'
    )
    assert reply(door, request("consume", "größe")) == b'{"status": "success", "message": "\\u00e9\\u65e5"}'


@pytest.mark.parametrize(
    "payload",
    [
        "",
        0,
        None,
        [],
        False,
        {},
        0.0,
        "text",
        1.5,
        10**30,
        {"b": 1, "a": [None, {"c": "é"}]},
        [[], [[]]],
        "\ud800",
        True,
    ],
)
def test_any_json_value_is_a_payload_and_comes_back_unchanged(door: str, payload: Any) -> None:
    topic = f"value-{json.dumps(payload)[:40]}"
    assert publish(door, topic, payload)["status"] == "success"
    assert reply(door, request("consume", topic)) == json.dumps({"status": "success", "message": payload}).encode()


def test_a_negative_offset_counts_from_the_end(door: str) -> None:
    for number in range(5):
        publish(door, "ends", number)
    assert [consume(door, "ends", offset)["message"] for offset in (-1, -2, -5)] == [4, 3, 0]
    assert consume(door, "ends", -6) == consume(door, "ends", -5000) == json.loads(NONE)


def test_a_topic_or_partition_that_is_not_there_is_made_instead_of_dropping_the_message(door: str) -> None:
    assert publish(door, "made", "x", 3) == {"status": "success", "message": "Message published to made, partition 3"}
    assert publish(door, "made", "y", 5) == {"status": "success", "message": "Message published to made, partition 5"}
    assert publish(door, "made", "z", "5")["message"] == "Message published to made, partition 5"
    assert consume(door, "made", 0, 3)["message"] == "x"
    assert consume(door, "made", 0, 5)["message"] == "y"
    assert consume(door, "made", 1, "5")["message"] == "z"
    refused = publish(door, "made", "x", 16)
    assert refused["status"] == "failure" and "create_topic" in refused["message"]
    refused = publish(door, "made", "x", "x")
    assert refused == {"status": "failure", "message": "partition is a whole number from 0 on"}


def test_a_topic_can_be_created_with_partitions_and_only_once(door: str) -> None:
    create = request("create_topic", "created", 2)
    assert json.loads(reply(door, create))["status"] == "success"
    again = json.loads(reply(door, create))
    assert again["status"] == "failure" and "created" in again["message"]
    assert publish(door, "created", 1, 1)["status"] == "success"
    bad = json.loads(reply(door, request("create_topic", "..", 2)))
    assert bad == {"status": "failure", "message": "a topic cannot be called '..'"}


def test_the_level_is_named_only_to_who_asks_for_one(door: str) -> None:
    for offset, acks in enumerate((0, 1, "all")):
        assert publish(door, "levels", "x", acks=acks) == {
            "status": "success",
            "message": "Message published to levels, partition 0",
            "acks": acks,
            "offset": offset,
        }
    refused = publish(door, "levels", "x", acks=2)
    assert refused["status"] == "failure" and "in sync" in refused["message"]
    assert publish(door, "levels", "x", acks="some")["status"] == "failure"
    assert consume(door, "levels", 3) == json.loads(NONE)


@pytest.mark.parametrize("bad", [b"[1]", b"hello", b'{"type": "publish",}', b'{"a" 1}', b"\xff\xff", b'{"a": NaN}'])
def test_bad_json_is_answered_and_the_connection_closed(door: str, bad: bytes) -> None:
    found = json.loads(reply(door, bad))
    assert found["status"] == "failure" and "JSON" in found["message"]


def test_a_request_may_come_in_pieces_of_any_size(door: str) -> None:
    document = request("publish", "pieces", 0, 'with "quotes}" and \\ {brackets]')
    with connect(door) as connection:
        for at in range(len(document)):
            connection.sendall(document[at : at + 1])
            if at % 20 == 0:
                time.sleep(0.001)
        assert json.loads(rest(connection))["status"] == "success"
    assert consume(door, "pieces")["message"] == 'with "quotes}" and \\ {brackets]'


def test_a_request_that_ends_early_is_told_so(door: str) -> None:
    with connect(door) as connection:
        connection.sendall(b'{"type": "publish"')
        connection.shutdown(1)
        assert json.loads(rest(connection)) == {
            "status": "failure",
            "message": "the request ends before its JSON is whole",
        }


def test_who_says_no_more_still_gets_the_reply(door: str) -> None:
    with connect(door) as connection:
        connection.sendall(request("publish", "half", 0, "x"))
        connection.shutdown(1)
        assert json.loads(rest(connection))["status"] == "success"


def test_large_messages_go_through_up_to_the_limits_and_are_refused_past_them(broker: Broker, door: str) -> None:
    payload = "x" * 1_000_000
    assert publish(door, "large", payload)["status"] == "success"
    assert consume(door, "large")["message"] == payload
    refused = publish(door, "large", "x" * 2_000_000)
    assert refused["status"] == "failure" and "max.message.bytes" in refused["message"]
    with connect(door) as connection:
        connection.sendall(b'{"payload": "')
        try:
            for _ in range(20):
                connection.sendall(b"x" * (1 << 20))
        except (BrokenPipeError, ConnectionResetError):
            pass
        got = rest(connection)
    assert not got or "over the limit" in json.loads(got)["message"]
    assert publish(door, "large", 1)["status"] == "success"


# Kept alive


def test_a_connection_that_begins_with_a_newline_is_kept_and_pipelined(door: str) -> None:
    with Kept(door) as kept:
        kept.send(
            request("publish", "kept", 0, "a"),
            request("publish", "kept", 0, "b"),
            b"",
            request("consume", "kept", 0, offset=1),
            b"not json",
            request("replicate", "kept", 0, "c"),
            request("consume", "kept", 0, offset=-1),
            request("nonsense", "kept"),
        )
        assert [kept.line() for _ in range(7)] == [
            b'{"status": "success", "message": "Message published to kept, partition 0"}\n',
            b'{"status": "success", "message": "Message published to kept, partition 0"}\n',
            b'{"status": "success", "message": "b"}\n',
            b'{"status": "failure", "message": "the request is not JSON: Expecting value: line 1 column 1 (char 0)"}\n',
            b'{"status": "success", "message": "Message replicated to kept, partition 0"}\n',
            b'{"status": "success", "message": "c"}\n',
            b'{"status": "failure", "message": "Unknown request type"}\n',
        ]
        assert json.loads(kept.ask(request("consume", "kept", 0))) == {"status": "success", "message": "a"}


def test_a_thousand_pipelined_publishes_keep_their_order(door: str) -> None:
    with Kept(door) as kept:
        kept.send(*(request("publish", "many", 0, number) for number in range(1000)))
        assert all(json.loads(kept.line())["status"] == "success" for _ in range(1000))
        kept.send(*(request("consume", "many", 0, offset=number) for number in range(0, 1000, 50)))
        assert [json.loads(kept.line())["message"] for _ in range(20)] == list(range(0, 1000, 50))


def test_the_last_line_counts_without_its_end_when_the_client_says_no_more(door: str) -> None:
    with Kept(door) as kept:
        kept.socket.sendall(request("publish", "last", 0, 1) + b"\n" + request("consume", "last", 0))
        kept.socket.shutdown(1)
        assert json.loads(kept.line())["status"] == "success"
        assert json.loads(kept.line()) == {"status": "success", "message": 1}
        assert kept.line() == b""


def test_a_line_that_is_too_deep_is_answered_and_costs_no_other(door: str) -> None:
    with Kept(door) as kept:
        kept.send(request("publish", "deep", 0, 1), b'{"a": ' + b"[" * 1000, request("publish", "deep", 0, 2))
        assert json.loads(kept.line())["status"] == "success"
        assert "brackets" in json.loads(kept.line())["message"]
        assert json.loads(kept.line())["status"] == "success"
    assert consume(door, "deep", 1)["message"] == 2


def test_a_line_that_is_too_large_is_answered_and_closes(door: str) -> None:
    with Kept(door) as kept:
        kept.send(request("publish", "wide", 0, 1))
        kept.socket.sendall(b"x" * ((16 << 20) + 1))
        assert json.loads(kept.line())["status"] == "success"
        assert "over the limit" in json.loads(kept.line())["message"]
        assert kept.line() == b""
