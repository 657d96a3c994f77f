"""kcat as distributions ship it, with an older librdkafka: it judges a broker by other signs than the newest."""

from __future__ import annotations

import subprocess
import time

import pytest

from headrace.records import codec
from tests.clients.conftest import program
from tests.clients.records import CODECS, COUNT
from tests.support import Wire

LIMIT_S = 30


def kcat(*arguments: str, given: bytes = b"") -> bytes:
    done = subprocess.run([program("kcat"), *arguments], input=given, capture_output=True, timeout=LIMIT_S)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def read(address: str, topic: str, *arguments: str) -> list[bytes]:
    return kcat("-C", "-b", address, "-t", topic, "-e", "-q", *arguments).splitlines()


@pytest.mark.parametrize("compression", CODECS)
def test_lines_come_back_in_order(address: str, topic: str, compression: str) -> None:
    lines = [b"%d:%s" % (number, b"x" * (number % 300)) for number in range(COUNT)]
    kcat("-P", "-b", address, "-t", topic, "-p", "0", "-z", compression, given=b"\n".join(lines) + b"\n")
    assert read(address, topic, "-p", "0", "-o", "beginning") == lines
    with Wire(address) as wire:
        heads = [head for head, _ in codec.split(b"".join(wire.fetch(topic, 0).pieces or []))]
    largest = max(heads, key=lambda head: head.record_count)
    assert CODECS[largest.compression] == compression, "kcat dropped the codec without a word"


def test_the_last_records_are_found_from_the_end(address: str, topic: str) -> None:
    kcat("-P", "-b", address, "-t", topic, "-p", "0", given=b"".join(b"%d\n" % n for n in range(100)))
    assert read(address, topic, "-p", "0", "-o", "-3") == [b"97", b"98", b"99"]
    assert read(address, topic, "-p", "0", "-o", "98") == [b"98", b"99"]


def test_keys_headers_and_nulls_come_back(address: str, topic: str) -> None:
    place = ("-b", address, "-t", topic, "-p", "0")
    kcat("-P", *place, "-K", ":", "-H", "a=1", "-H", "a=2", "-H", "b", given=b"key:value\n")
    kcat("-P", *place, "-K", ":", "-Z", given=b"deleted:\n")
    kcat("-P", *place, "-K", ":", given=b"empty:\n")
    shown = kcat("-C", *place, "-e", "-q", "-o", "beginning", "-f", r"%k|%s|%S|%h\n").splitlines()
    assert shown == [b"key|value|5|a=1,a=2,b=NULL", b"deleted||-1|", b"empty||0|"]


def test_offsets_are_found_by_time(address: str, topic: str) -> None:
    place = ("-b", address, "-t", topic, "-p", "0")
    kcat("-P", *place, given=b"before\n")
    time.sleep(0.05)
    between_ms = time.time_ns() // 1_000_000
    time.sleep(0.05)
    kcat("-P", *place, given=b"after\n")
    assert read(address, topic, "-p", "0", "-o", f"s@{between_ms}") == [b"after"]
    assert b"offset 1" in kcat("-Q", "-b", address, "-t", f"{topic}:0:{between_ms}")


def test_the_list_of_brokers_and_topics_names_what_there_is(address: str, topic: str) -> None:
    kcat("-P", "-b", address, "-t", topic, "-p", "0", given=b"x\n")
    shown = kcat("-L", "-b", address).decode()
    assert f"broker 0 at {address} (controller)" in shown
    assert f'topic "{topic}" with 1 partitions' in shown


def test_an_idempotent_producer_and_every_level_of_acknowledgement(address: str, topic: str) -> None:
    for settings in (["enable.idempotence=true"], ["acks=0"], ["acks=1"], ["acks=all"]):
        options = [part for setting in settings for part in ("-X", setting)]
        kcat("-P", "-b", address, "-t", topic, "-p", "0", *options, given=settings[0].encode() + b"\n")
    shown = read(address, topic, "-p", "0", "-o", "beginning")
    assert shown == [b"enable.idempotence=true", b"acks=0", b"acks=1", b"acks=all"]
