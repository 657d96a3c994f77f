"""The state of a transaction as bytes: Kafka's formats."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.broker.transactions.events import Ledger
from headrace.broker.transactions.records import (
    decode_key,
    decode_ledger,
    decode_value,
    encode_key,
    encode_ledger,
    encode_value,
    ledger_key,
)
from headrace.broker.transactions.transaction import NONE, State, Transaction
from headrace.errors import StorageFailed

TRANSACTIONS = st.builds(
    Transaction,
    id=st.text(max_size=20),
    producer_id=st.integers(0, 1 << 60),
    epoch=st.integers(0, 32767),
    timeout_ms=st.integers(1, 1 << 30),
    state=st.sampled_from([state for state in State if state != State.EMPTY]),
    partitions=st.frozensets(st.tuples(st.text(max_size=5), st.integers(0, 1000)), max_size=6),
    started_ms=st.integers(-1, 1 << 50),
    updated_ms=st.integers(-1, 1 << 50),
    last_epoch=st.integers(-1, 32767),
    previous_producer_id=st.integers(-1, 1 << 60),
    next_producer_id=st.integers(-1, 1 << 60),
    version=st.sampled_from([0, 1, 2]),
)


@given(TRANSACTIONS)
def test_what_is_written_reads_back(transaction: Transaction) -> None:
    assert decode_key(encode_key(transaction.id)) == transaction.id
    assert decode_value(transaction.id, encode_value(transaction)) == transaction


def test_a_value_of_version_0_reads() -> None:
    topic = struct.pack(">h1si i i", 1, b"t", 2, 0, 3)
    value = struct.pack(">hqhibi", 0, 7, 3, 60_000, 1, 1) + topic + struct.pack(">qq", 20, 10)
    found = decode_value("x", value)
    assert found == Transaction("x", 7, 3, 60_000, State.ONGOING, frozenset({("t", 0), ("t", 3)}), 10, 20)


def test_version_1_is_laid_out_as_kafka_does_it() -> None:
    transaction = Transaction(
        "x", 7, 3, 60_000, State.PREPARE_COMMIT, frozenset({("t", 1)}), 10, 20, NONE, 5, 9, version=2
    )
    assert encode_key("x") == b"\0\0\0\1x"
    assert encode_value(transaction) == (
        struct.pack(">hqhib", 1, 7, 3, 60_000, 2)
        + b"\x02\x02t\x02\0\0\0\1\0"
        + struct.pack(">qq", 20, 10)
        + b"\x03"
        + b"\x00\x08" + struct.pack(">q", 5)
        + b"\x01\x08" + struct.pack(">q", 9)
        + b"\x02\x02" + struct.pack(">h", 2)
    )  # fmt: skip


def test_what_does_not_read_is_told() -> None:
    for value in (b"", b"\0\1", encode_value(Transaction("x", 1, 1, 1))[:-3]):
        with pytest.raises(StorageFailed):
            decode_value("x", value)
    assert decode_key(b"\0\x05abc") is None, "a key of another kind"


def test_a_ledger_reads_back_and_so_does_that_it_is_gone() -> None:
    ledger = Ledger("spark:q", 7, 41, 1_700_000_000_000)
    key, value = encode_ledger(ledger)
    assert decode_ledger(key, value) == ledger
    assert key == ledger_key("spark:q") and decode_ledger(key, None) == "spark:q"
    assert decode_ledger(encode_key("t"), None) is None and decode_key(key) is None


def test_a_ledger_that_was_written_before_its_time_was_noted_reads() -> None:
    assert decode_ledger(ledger_key("spark:q"), struct.pack(">hqq", 0, 7, 41)) == Ledger("spark:q", 7, 41, NONE)
    for cut in range(26):
        with pytest.raises(StorageFailed):
            decode_ledger(ledger_key("spark:q"), encode_ledger(Ledger("spark:q", 7, 41, 5))[1][:cut])
