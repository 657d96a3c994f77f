"""The protocol over a real socket, byte for byte: vectors, forms, values, patterns, counts, order."""

from __future__ import annotations

import pytest

from tests.doors_msgpack.kit import Raw, delivery, publish, subscribe, unsubscribe

TRUE = b"\xc3"


def test_captured_vectors_go_in_and_come_out(msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(bytes.fromhex("81a953756273637269626591a86d792d746f706963"))
        client.send(bytes.fromhex("81a75075626c6973689192a86d792d746f706963c3"))
        client.expect(bytes.fromhex("92a86d792d746f706963c3"))
        client.send(bytes.fromhex("81a75075626c6973689192a86d792d746f70696381a3466f6fcb3fe0000000000000"))
        client.expect(bytes.fromhex("92a86d792d746f70696381a3466f6fcb3fe0000000000000"))
        client.send(bytes.fromhex("81a953756273637269626591a161"), bytes.fromhex("81a75075626c6973689192a161c3"))
        client.expect(bytes.fromhex("92a161c3"))
        client.send(subscribe("d"), bytes.fromhex("81ab556e73756273637269626591a164"), publish("d", TRUE))
        client.send(bytes.fromhex("81a953756273637269626591b12173797374656d2f6d6574726963732f2a"))
        client.expect_nothing()
        client.send(bytes.fromhex("81a75075626c6973689192bb2173797374656d2f6d6574726963732f636f6e6e656374696f6e7306"))
        client.expect(bytes.fromhex("92bb2173797374656d2f6d6574726963732f636f6e6e656374696f6e7306"))


def test_nobody_is_greeted_or_answered(msgpack: str) -> None:
    with Raw(msgpack) as client:
        assert client.is_silent(0.2)
        client.send(subscribe("quiet"), publish("loud", TRUE), unsubscribe("never"))
        assert client.is_silent(0.2)


def test_commands_may_be_split_and_joined_freely(msgpack: str) -> None:
    commands = [publish("split", bytes([number])) for number in range(20)]
    wanted = [delivery("split", bytes([number])) for number in range(20)]
    with Raw(msgpack) as client:
        client.send(subscribe("split"), *commands)
        client.expect(*wanted)
        for one in b"".join(commands):
            client.send(bytes([one]))
        client.expect(*wanted)
        whole = b"".join(commands)
        for at in range(0, len(whole), 7):
            client.send(whole[at : at + 7])
        client.expect(*wanted)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("pattern by name", b"\x81\xa9Subscribe\x81\xa7pattern\xa4form"),
        ("number of the command", b"\x81\x01\x91\xa4form"),
        ("pattern as bytes", b"\x81\xa9Subscribe\x91\xc4\x04form"),
        ("longer forms", b"\xde\x00\x01\xd9\x09Subscribe\xdc\x00\x01\xda\x00\x04form"),
    ],
)
def test_other_forms_of_subscribe_are_taken(msgpack: str, name: str, command: bytes) -> None:
    with Raw(msgpack) as client:
        client.send(command, publish("form", TRUE))
        client.expect(delivery("form", TRUE))
        client.send(b"\x81\x02\x91\xa4form", publish("form", TRUE))
        client.expect_nothing()


@pytest.mark.parametrize(
    "command",
    [
        b"\x81\xa7Publish\x81\xa7message\x82\xa5topic\xa4also\xa5value\x07",
        b"\x81\xa7Publish\x91\x82\xa5topic\xa4also\xa5value\x07",
        b"\x81\xa7Publish\x91\x82\xa5value\x07\xa5topic\xa4also",
        b"\x81\xa7Publish\x81\xa7message\x92\xa4also\x07",
        b"\x81\x00\x91\x92\xa4also\x07",
        b"\x81\x00\x91\x92\xc4\x04also\x07",
    ],
)
def test_other_forms_of_publish_are_taken(msgpack: str, command: bytes) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe("also"), command)
        client.expect(delivery("also", b"\x07"))


@pytest.mark.parametrize(
    "malformed",
    [
        b"\x81\xa9Subscribe\xa1x",
        b"\x92\xa9Subscribe\x91\xa1x",
        b"\x81\xa9Subscribe\x92\xa1x\xa1y",
        b"\x81\xa7Publish\x91\x93\xa1x\x01\x02",
        b"\x81\xa7Publish\x92\xa1x\x01",
        b"\x81\xa4Ping\x90",
        b"\xc1",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01",
        b"\x81\xa7Publish\x91\x92\xa1x\xc6\x7f\xff\xff\xff",
    ],
)
def test_what_is_no_command_closes_the_connection_after_what_came_before(msgpack: str, malformed: bytes) -> None:
    with Raw(msgpack) as client, Raw(msgpack) as other:
        other.send(subscribe("before"))
        other.in_order()
        client.send(subscribe("before"), publish("before", b"\x01"), malformed, publish("before", b"\x02"))
        client.expect(delivery("before", b"\x01"))
        assert client.ends()
        other.expect(delivery("before", b"\x01"))
        other.expect_nothing()


@pytest.mark.parametrize(
    ("sent", "delivered"),
    [
        ("cf0000000000000001", "01"),
        ("d005", "05"),
        ("d1ffff", "ff"),
        ("ca3f000000", "ca3f000000"),
        ("cb3fe0000000000000", "cb3fe0000000000000"),
        ("c0", "c0"),
        ("c2", "c2"),
        ("c403000102", "c403000102"),
        ("c700ff", "c700ff"),
        ("d4050a", "d4050a"),
        ("da0003616263", "a3616263"),
        ("82c0c39101c2", "82c0c39101c2"),
        ("dc0002de000181a101cd0001c0c3", "928181a10101c0c3"),
    ],
)
def test_values_come_in_their_smallest_form(msgpack: str, sent: str, delivered: str) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe("values"), publish("values", bytes.fromhex(sent)))
        client.expect(delivery("values", bytes.fromhex(delivered)))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("p/foo*", ["p/food", "p/foo/"], ["p/foo"]),
        ("p/**", ["p/ab"], ["p/a"]),
        ("p/fo*l", ["p/fool", "p/foil", "p/fo/l"], ["p/fol", "p/focus"]),
        ("*/ptemp", ["a/ptemp", "a/b/ptemp"], ["/ptemp", "ptemp"]),
        ("pa*b*c", ["paXbYc", "paXbbc", "paXbYcc"], ["pabc", "paXXbc"]),
        ("p?x", ["pax", "péx", "p/x"], ["px", "paax"]),
        ("p\\*", ["p\\a"], ["p*"]),
        ("*", ["anything", "a/b"], ["!system", "!system/x"]),
        ("!system*", ["!system/x", "!systemx"], ["!system", "system"]),
        ("!system/exact", ["!system/exact"], ["!system/other"]),
    ],
)
def test_patterns_match_character_by_character(msgpack: str, pattern: str, yes: list[str], no: list[str]) -> None:
    with Raw(msgpack) as client, Raw(msgpack) as publisher:
        client.send(subscribe(pattern))
        client.in_order()
        for name in no + yes:
            publisher.send(publish(name, TRUE))
            publisher.in_order("done" if pattern.startswith("!") else "!system")
        client.expect(*(delivery(name, TRUE) for name in yes))


def test_one_copy_comes_when_several_patterns_match(msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(*(subscribe(pattern) for pattern in ("once", "onc?", "on*", "*")), publish("once", TRUE))
        client.expect(delivery("once", TRUE))
        client.send(unsubscribe("*"), unsubscribe("once"), publish("once", TRUE))
        client.expect(delivery("once", TRUE))
        client.expect_nothing()


def test_subscriptions_are_counted_and_removed_by_their_exact_text(msgpack: str) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe("count*"), subscribe("count*"), unsubscribe("count?"), unsubscribe("counter"))
        client.send(unsubscribe("count*"), publish("counter", TRUE))
        client.expect(delivery("counter", TRUE))
        client.send(unsubscribe("count*"), unsubscribe("count*"), publish("counter", TRUE))
        client.expect_nothing()


def test_the_empty_name_reaches_only_who_subscribed_to_it(msgpack: str) -> None:
    with Raw(msgpack) as nobody, Raw(msgpack) as everything, Raw(msgpack) as client:
        everything.send(subscribe("*"))
        everything.in_order()
        client.send(subscribe(""), publish("", TRUE))
        client.expect(delivery("", TRUE))
        nobody.expect_nothing()
        everything.expect_nothing()


@pytest.mark.parametrize("name", ["x" * 300, "a\nb", ".", "..", "__own"])
def test_a_name_that_no_topic_can_have_is_delivered_and_kept_nowhere(msgpack: str, name: str) -> None:
    with Raw(msgpack) as client:
        client.send(subscribe(name), publish(name, TRUE))
        client.expect(delivery(name, TRUE))


def test_commands_of_one_connection_are_done_in_their_order(msgpack: str) -> None:
    with Raw(msgpack) as client:
        for number in range(50):
            one = bytes([number])
            client.send(publish("order", b"\xc0"), subscribe("order"), publish("order", one), unsubscribe("order"))
            client.expect(delivery("order", one))
        client.expect_nothing()


def test_nothing_is_retained_for_who_comes_later(msgpack: str) -> None:
    with Raw(msgpack) as publisher:
        publisher.send(publish("past", TRUE))
        publisher.in_order()
    with Raw(msgpack) as client:
        client.send(subscribe("past"))
        client.expect_nothing()


def test_everybody_gets_everything_of_a_topic_in_its_order(msgpack: str) -> None:
    clients, publishers = [Raw(msgpack) for _ in range(10)], [Raw(msgpack) for _ in range(3)]
    for client in clients:
        client.send(subscribe("fan/*"))
        client.in_order()
    for number in range(100):
        publishers[number % 3].send(publish("fan/out", bytes([number])))
        publishers[number % 3].in_order()
    for client in clients:
        client.expect(*(delivery("fan/out", bytes([number])) for number in range(100)))
        client.expect_nothing()
    for one in clients + publishers:
        one.socket.close()


def test_the_largest_command_is_taken_and_one_byte_more_is_not(msgpack: str) -> None:
    with Raw(msgpack) as client:
        size = 1_000_000 - len(publish("large", b"")) - 5
        client.send(subscribe("large"), publish("large", b"\xc6" + size.to_bytes(4, "big") + b"x" * size))
        client.expect(delivery("large", b"\xc6" + size.to_bytes(4, "big") + b"x" * size))
        client.send(publish("large", b"\xc6" + (size + 1).to_bytes(4, "big") + b"x" * (size + 1)))
        assert client.ends()
