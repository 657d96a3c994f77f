"""Records out and records in over a WebSocket, with resumption, and what is refused."""

from __future__ import annotations

import asyncio
import base64
import json
from pathlib import Path
from typing import Any

import pytest
from wsproto.events import CloseConnection, Ping, TextMessage

from headrace.records.ids import derived_id
from tests.doors_http.running import LIMIT_S, Running, running, until
from tests.doors_http.websockets import Closed, Refused, Socket

HEAD = (
    "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: WebSocket\r\n"
    "sec-websocket-version: 13\r\nsec-websocket-key: AAECAwQFBgcICQoLDA0ODw==\r\n"
)


@pytest.fixture
async def topic(web: Running) -> Running:
    await web.create("t", partitions=1)
    return web


async def publish(web: Running, values: list[Any], partition: int = 0) -> None:
    many = [{"value": value, "partition": partition} for value in values]
    assert (await web.web.post("/topics/t/records", json={"records": many})).json()["failed"] == 0


# Records out


async def test_records_come_as_they_are_published_each_a_document(topic: Running) -> None:
    await publish(topic, ["before"])
    async with Socket(topic, "/topics/t/ws") as ws:
        await publish(topic, [{"a": "line\nbreak"}])
        record = await ws.document()
        assert record.pop("ts_ms") > 0
        assert record == {
            "place": "1",
            "id": derived_id("t", 0, 1),
            "offset": 1,
            "key": None,
            "value": {"a": "line\nbreak"},
            "headers": {},
            "partition": 0,
        }
        await publish(topic, [2, 3])
        assert await ws.offsets(2) == [2, 3]
    await until(lambda: len(topic.node.http.waiting) == 0)


async def test_they_are_those_of_a_page_with_their_places(topic: Running) -> None:
    await publish(topic, [None, "text", {"a": [1]}])
    async with Socket(topic, "/topics/t/ws?from=0") as ws:
        mine = await ws.documents(3)
    page = (await topic.web.get("/topics/t/records", params={"from": 0})).json()["records"]
    assert [{name: value for name, value in one.items() if name != "place"} for one in mine] == page
    assert [one["place"] for one in mine] == ["0", "1", "2"]


async def test_a_client_that_comes_back_goes_on_after_its_last_record(topic: Running) -> None:
    await publish(topic, list(range(10)))
    async with Socket(topic, "/topics/t/ws?from=0") as ws:
        last = (await ws.documents(4))[-1]
    async with Socket(topic, f"/topics/t/ws?after={last['place']}") as ws:
        await publish(topic, [10])
        assert await ws.offsets(7) == list(range(4, 11))


async def test_it_begins_at_a_time(topic: Running) -> None:
    await publish(topic, [0])
    async with Socket(topic, "/topics/t/ws?since=0") as ws:
        assert await ws.offsets(1) == [0]
    async with Socket(topic, "/topics/t/ws?since=2099-01-01") as ws:
        await publish(topic, [1])
        assert await ws.offsets(1) == [1]


async def test_several_partitions_are_resumed_in_each(web: Running) -> None:
    await web.create("t", partitions=3)
    for partition in range(3):
        await publish(web, [0, 1], partition)
    seen = []
    async with Socket(web, "/topics/t/ws?from=0") as ws:
        seen += await ws.documents(3)
    async with Socket(web, f"/topics/t/ws?after={seen[-1]['place']}") as ws:
        seen += await ws.documents(3)
    assert sorted((one["partition"], one["offset"]) for one in seen) == [(p, o) for p in range(3) for o in range(2)]
    async with Socket(web, "/topics/t/ws?partition=1&from=1") as ws:
        assert await ws.offsets(1) == [1]
        assert (await ws.asked({"value": 1}))["ack"] == {"offset": 2, "partition": 1}
        assert (await ws.asked({"value": 1, "partition": 2}))["ack"] == {"offset": 2, "partition": 2}


async def test_what_retention_took_is_told(topic: Running) -> None:
    await publish(topic, list(range(5)))
    await topic.node.broker.delete_records(topic.node.broker.topic("t").partitions[0], 3)  # type: ignore[union-attr]
    async with Socket(topic, "/topics/t/ws?after=0") as ws:
        assert await ws.document() == {"lost": {"partition": 0, "from": 1, "to": 3}}
        assert await ws.offsets(2) == [3, 4]


# Records in


async def test_what_is_sent_is_published_and_acknowledged_in_order(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.say({"key": "k", "value": {"n": 1}, "headers": {"h": "x"}, "ref": "first"})
        ws.say({"value": 2, "ref": 7})
        ws.say({"value_base64": "AAE="})
        got = await ws.documents(6)
        acks = [one["ack"] for one in got if "ack" in one]
        assert acks == [
            {"offset": 0, "partition": 0, "ref": "first"},
            {"offset": 1, "partition": 0, "ref": 7},
            {"offset": 2, "partition": 0},
        ]
        assert [one["offset"] for one in got if "offset" in one] == [0, 1, 2]  # it hears itself
    page = (await topic.web.get("/topics/t/records?from=0")).json()["records"]
    assert (page[0]["key"], page[0]["value"], page[0]["headers"]) == ("k", {"n": 1}, {"h": "x"})
    assert page[2]["value"] == "\x00\x01"


async def test_a_thousand_that_are_sent_at_once_are_all_acknowledged_in_their_order(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        for number in range(1000):
            ws.say({"value": number, "ref": number} if number % 10 else {"ref": number})
        answers = [one for one in await ws.documents(1900) if "offset" not in one]
    assert [next(iter(one.values()))["ref"] for one in answers] == list(range(1000))
    assert [("error" in one) for one in answers] == [number % 10 == 0 for number in range(1000)]
    assert [one["ack"]["offset"] for one in answers if "ack" in one] == list(range(900))


async def test_a_repeated_id_is_stored_once(web: Running) -> None:
    await web.create("t", partitions=1, configs={"headrace.dedup.window.ms": "60000"})
    async with Socket(web, "/topics/t/ws") as ws:
        assert (await ws.asked({"value": 1, "id": "a"}))["ack"] == {"offset": 0, "partition": 0}
        assert (await ws.asked({"value": 1, "id": "a"}))["ack"] == {"offset": 0, "partition": 0, "duplicate": True}


@pytest.mark.parametrize(
    ("text", "words", "ref"),
    [
        ("{", "no record to publish", None),
        ("", "no record to publish", None),
        ("[]", "no record to publish", None),
        ('"value"', "no record to publish", None),
        ('{"key": "k", "ref": 5}', "has a value", 5),
        ('{"value": 1, "key": 5, "ref": "mine"}', "no record to publish", "mine"),
        ('{"value": 1, "ref": {}}', "no record to publish", None),
        ('{"value": 1, "ref": "%s"}' % ("x" * 256), "no record to publish", None),
        ('{"value_base64": "?", "ref": 1}', "no base64", 1),
        ('{"value": %s, "ref": 1}' % ("[" * 5000), "no record to publish", None),
        ('{"value": 1, "key": "\\ud800"}', "no record to publish", None),
    ],
)
async def test_what_is_no_record_is_told_so_and_the_next_is_taken(
    topic: Running, text: str, words: str, ref: object
) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.send(TextMessage(text))
        error = (await ws.answer())["error"]
        assert (error["status"], error.get("ref")) == (400, ref)
        assert words in error["detail"]
        assert (await ws.asked({"value": 1}))["ack"] == {"offset": 0, "partition": 0}


async def test_what_the_broker_refuses_is_told_with_its_status(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        assert (await ws.asked({"value": 1, "partition": 9, "ref": 1}))["error"]["status"] == 404
        error = (await ws.asked({"value": "x" * 1_100_000, "ref": 2}))["error"]
        assert (error["status"], error["ref"]) == (413, 2)
        topic.disk.is_full = True
        assert (await ws.asked({"value": 1, "ref": 3}))["error"]["status"] == 503
        topic.disk.is_full = False
        assert (await ws.asked({"value": 1}))["ack"]["offset"] == 0


async def test_a_record_of_the_largest_size_fits_both_ways(topic: Running) -> None:
    value = base64.b64encode(b"\xff" * 1_000_000).decode()
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.say({"value_base64": value, "ref": 1})
        got = await ws.documents(2)
    (record,) = [one for one in got if "offset" in one]
    assert record["value"] == {"base64": value}


# The handshake


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/topics/no/ws", 404),
        ("/topics/t/ws?partition=1", 404),
        ("/topics/t/ws?after=x", 400),
        ("/topics/t/ws?from=-1", 422),
        ("/topics/t/ws?since=never", 400),
        ("/topics/t/ws?acks=some", 422),
    ],
)
async def test_what_cannot_be_is_refused_before_the_upgrade(topic: Running, path: str, status: int) -> None:
    with pytest.raises(Refused) as refused:
        async with Socket(topic, path):
            pass
    assert refused.value.status == status
    assert "detail" in json.loads(refused.value.body)


async def test_a_request_that_does_not_ask_for_an_upgrade_is_told_to(topic: Running) -> None:
    answer = await topic.web.get("/topics/t/ws")
    assert answer.status_code == 426
    assert (answer.headers["upgrade"], answer.headers["sec-websocket-version"]) == ("websocket", "13")
    assert (await topic.web.post("/topics/t/ws")).status_code == 405


@pytest.mark.parametrize(
    ("was", "is_", "status"),
    [
        ("sec-websocket-version: 13", "sec-websocket-version: 8", b"426"),
        ("upgrade: WebSocket", "upgrade: h2c", b"426"),
        ("AAECAwQFBgcICQoLDA0ODw==", "AAEC", b"400"),
        ("sec-websocket-key", "other", b"400"),
        ("host: x", "host: x\r\ncontent-length: 3", b"400"),
        ("host: x", "host: x", b"101"),
        ("host: x", "host: x\r\norigin: https://anywhere.example", b"101"),
    ],
)
async def test_each_part_of_the_handshake_is_looked_at(topic: Running, was: str, is_: str, status: bytes) -> None:
    reader, writer = await topic.socket()
    writer.write((HEAD.format(path="/topics/t/ws") + "\r\n").replace(was, is_).encode() + b"abc" * ("length" in is_))
    head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)
    assert head.split()[1] == status
    if status == b"101":
        assert b"\r\nsec-websocket-accept: Bz3qJYTGdOe8gUSpLosEdiLKDrk=\r\n" in head
    writer.close()


async def test_a_connection_whose_upgrade_was_refused_still_speaks_http(topic: Running) -> None:
    reader, writer = await topic.socket()
    plain = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"
    writer.write((HEAD.format(path="/topics/no/ws") + "\r\n").encode() + plain + plain)
    found = []
    for _ in range(3):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)).lower()
        found.append(head.split()[1])
        at = head.index(b"content-length: ") + 16
        await reader.readexactly(int(head[at : head.index(b"\r", at)]))
    assert found == [b"404", b"200", b"200"]
    writer.close()


VALUE = b'{"value":"%s"}' % (b"x" * 200_000)
CHUNKS = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in (VALUE[:1], VALUE[1:70_000], VALUE[70_000:]))
BODIES = {
    "length": b"content-length: %d\r\n\r\n%b" % (len(VALUE), VALUE),
    "chunks": b"transfer-encoding: chunked\r\n\r\n%b0\r\n\r\n" % CHUNKS,
    "trailer": b"Transfer-Encoding: Chunked\r\n\r\n%b0\r\nx: y\r\n\r\n" % CHUNKS,
}
UPGRADES = {
    "h2c": b"connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n",
    "websocket": b"connection: Upgrade\r\nupgrade: websocket\r\n",
}


async def statuses(reader: asyncio.StreamReader, count: int) -> list[bytes]:
    found = []
    for _ in range(count):
        head = (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)).lower()
        found.append(head.split()[1])
        at = head.index(b"content-length: ") + 16
        await reader.readexactly(int(head[at : head.index(b"\r", at)]))
    return found


@pytest.mark.parametrize("size", [1 << 30, 1000], ids=["at once", "in pieces"])
@pytest.mark.parametrize("upgrade", UPGRADES)
@pytest.mark.parametrize("body", BODIES)
async def test_an_upgrade_to_what_we_do_not_speak_loses_no_body_and_no_request_after_it(
    topic: Running, body: str, upgrade: str, size: int
) -> None:
    """As some clients ask for HTTP/2 with each first request, whatever it is."""
    reader, writer = await topic.socket()
    publish = b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\n" + UPGRADES[upgrade] + BODIES[body]
    healthy = b"GET /healthz HTTP/1.1\r\nhost: x\r\n" + UPGRADES["h2c"] + b"\r\n"
    said = publish + healthy + publish + healthy
    for first in range(0, len(said), size):
        writer.write(said[first : first + size])
        await writer.drain()
        await asyncio.sleep(0)
    assert await statuses(reader, 4) == [b"200"] * 4
    writer.write(healthy)
    assert await statuses(reader, 1) == [b"200"]
    writer.close()
    kept = (await topic.web.get("/topics/t/records")).json()["records"]
    assert [record["value"] for record in kept] == ["x" * 200_000] * 2


async def test_thousands_of_upgrades_that_come_together_are_answered(topic: Running) -> None:
    reader, writer = await topic.socket()
    count, asked = 2000, b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: h2c\r\n\r\n"
    writer.write(asked * count)
    assert await statuses(reader, count) == [b"200"] * count
    writer.close()


async def test_a_body_that_waits_to_be_asked_for_is_asked_for_whatever_upgrade_there_is(topic: Running) -> None:
    reader, writer = await topic.socket()
    head, _, body = BODIES["chunks"].partition(b"\r\n\r\n")
    start = b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\nexpect: 100-continue\r\n"
    writer.write(start + UPGRADES["h2c"] + head + b"\r\n\r\n")
    assert (await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), LIMIT_S)).startswith(b"HTTP/1.1 100")
    writer.write(body)
    assert await statuses(reader, 1) == [b"200"]
    writer.close()


@pytest.mark.parametrize(
    "framing",
    [
        b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n",
        b"transfer-encoding: gzip\r\n\r\n",
        b"transfer-encoding: chunked\r\n\r\nno size\r\n",
    ],
)
async def test_a_body_whose_length_nobody_can_tell_ends_the_connection_with_an_upgrade_as_without(
    topic: Running, framing: bytes
) -> None:
    answers = []
    for upgrade in (b"", UPGRADES["h2c"]):
        reader, writer = await topic.socket()
        writer.write(b"POST /topics/t/publish HTTP/1.1\r\nhost: x\r\n" + upgrade + framing)
        try:
            answers.append(await asyncio.wait_for(reader.read(), LIMIT_S))
        except ConnectionResetError:
            answers.append(b"")
        writer.close()
    assert answers[0] == answers[1]


async def test_frames_that_come_with_the_request_are_taken_once_it_is_granted(topic: Running) -> None:
    reader, writer = await topic.socket()
    said = b'{"value":1}'
    frame = bytes([0x81, 0x80 | len(said), 0, 0, 0, 0]) + said
    writer.write(
        b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n" + (HEAD.format(path="/topics/t/ws") + "\r\n").encode() + frame
    )
    assert b'"ack":{"offset":0' in await asyncio.wait_for(
        reader.readuntil(b'{"ack":{"offset":0,"partition":0}}'), LIMIT_S
    )
    writer.close()


# The end


async def test_a_close_of_the_client_is_answered_with_its_code(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.send(CloseConnection(1000, "done"))
        closed = await ws.closed()
        assert (closed.code, closed.reason) == (1000, "done")
        assert await ws.is_at_end()
    await until(lambda: len(topic.node.http.waiting) == 0)


async def test_a_client_that_just_goes_leaves_nothing_behind(topic: Running) -> None:
    for how in ("close", "abort", "eof"):
        async with Socket(topic, "/topics/t/ws") as ws:
            ws.writer.write(b"\x81\xfe")  # in the middle of a frame
            await until(lambda: len(topic.node.http.waiting) == 1)
            match how:
                case "abort":
                    ws.writer.transport.abort()
                case "eof":
                    ws.writer.write_eof()
                    assert await ws.is_at_end()
        await until(lambda: len(topic.node.http.waiting) == 0)
    assert topic.node.http.exchanges is not None
    services = topic.node.http.exchanges.services
    await until(lambda: services.bodies.used == 0)
    assert services.answers.used == 0


async def test_a_stop_of_the_node_closes_with_1001_after_the_answers(tmp_path: Path) -> None:
    async with running(tmp_path) as web:
        await web.create("t", partitions=1)
        ws = await Socket(web, "/topics/t/ws").__aenter__()
        silent = await Socket(web, "/topics/t/ws", answers=False).__aenter__()
        for number in range(200):
            ws.say({"value": number})
        await ws.document()
        ending = web.begin(ws.closed())
        quietly = web.begin(silent.closed())
    closed = await ending
    assert (closed.code, closed.reason) == (1001, "the node is stopping")
    assert (await quietly).code == 1001
    for one in (ws, silent):
        assert await one.is_at_end()
        one.writer.close()
    assert not web.faults


async def test_a_topic_that_is_deleted_ends_its_sockets(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        await until(lambda: len(topic.node.http.waiting) == 1)
        await topic.web.delete("/admin/topics/t")
        assert (await ws.closed()).code == 4404


async def test_it_is_counted_when_it_ends(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.send(Ping(b"there?"))
        assert (await ws.asked({"value": 1}))["ack"]
        assert ws.pongs == 1
    key = ("GET", "/topics/{topic:path}/ws", 101)
    await until(lambda: topic.node.http.metrics.requests.get(key) == 1)


async def test_a_closed_one_says_no_more(topic: Running) -> None:
    async with Socket(topic, "/topics/t/ws") as ws:
        ws.send(CloseConnection(1000))
        await publish(topic, [1])
        with pytest.raises(Closed):
            await ws.document()
