"""Keys go where Java's clients send them."""

from __future__ import annotations

import random

from kafka.partitioner.default import murmur2 as theirs

from headrace.client.partitioner import by_key, murmur2

# From Kafka's own UtilsTest, where the numbers are signed.
KAFKAS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


def test_hashes_are_those_of_kafkas_own_tests() -> None:
    for key, signed in KAFKAS.items():
        assert murmur2(key) == signed & 0xFFFFFFFF


def test_hashes_are_those_of_another_client_for_keys_of_every_length() -> None:
    chance = random.Random(1)
    for size in range(200):
        key = chance.randbytes(size)
        assert murmur2(key) == theirs(key) & 0xFFFFFFFF


def test_no_key_leaves_the_choice_and_an_empty_one_does_not() -> None:
    assert by_key(None, 5) is None
    assert by_key(b"", 5) == (murmur2(b"") & 0x7FFFFFFF) % 5
