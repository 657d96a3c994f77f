"""Hashes of keys: the same however they are made, and kept only of short keys."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.broker.publishing import by_key
from headrace.records.partitioning import KEPT_KEY_BYTES, murmur2, partition_of

MIB = 1 << 20


def topic(partitions: int, max_message_bytes: int = MIB) -> Any:
    return SimpleNamespace(partitions=[None] * partitions, config=SimpleNamespace(max_message_bytes=max_message_bytes))


@pytest.mark.parametrize(
    "size", [0, 1, KEPT_KEY_BYTES - 1, KEPT_KEY_BYTES, *range(KEPT_KEY_BYTES + 1, KEPT_KEY_BYTES + 5), 100_003]
)
def test_a_key_of_any_size_goes_where_its_hash_says(size: int) -> None:
    key = bytes(range(251)) * (size // 251 + 1)
    key = key[:size]
    for count in (2, 3, 1000):
        meant = (murmur2(key) & 0x7FFFFFFF) % count
        assert (partition_of(key, count), by_key(topic(count), key)) == (meant, meant)


@pytest.mark.parametrize(("size", "is_kept"), [(KEPT_KEY_BYTES, True), (KEPT_KEY_BYTES + 1, False), (MIB, False)])
def test_only_short_keys_are_kept(size: int, is_kept: bool) -> None:
    for choose in (lambda key: partition_of(key, 3), lambda key: by_key(topic(3), key)):
        key = b"%d" % id(choose) + bytes(size)
        key = key[:size]
        before = sys.getrefcount(key)
        choose(key)
        assert (sys.getrefcount(key) > before) == is_kept


def test_a_key_that_its_topic_refuses_is_not_hashed(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(*given: object) -> None:
        raise AssertionError("that takes its time")

    monkeypatch.setattr("headrace.records.kernel.key_partitions", hashed)
    monkeypatch.setattr("headrace.broker.publishing.keys.partition_of", hashed)
    assert by_key(topic(3, max_message_bytes=1000), bytes(1001)) == 0
    with pytest.raises(AssertionError):
        by_key(topic(3, max_message_bytes=1000), bytes(1000))
