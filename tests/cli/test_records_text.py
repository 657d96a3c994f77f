"""Records as text: JSON both ways, kcat's formats, and the conditions of --filter."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli import exits, record_filter
from headrace.cli.exits import Refusal
from headrace.cli.record_format import compiled
from headrace.cli.record_values import Sending, row_of, sending_of
from headrace.client.values import Record

RECORD = Record(
    topic="orders",
    partition=2,
    offset=41,
    timestamp_ms=1_769_860_800_123,
    timestamp_type="create",
    key=b"k1",
    value=b'{"customer": {"id": 7, "name": "Ada"}, "lines": [1, 2], "paid": true}',
    headers=(("source", b"shop"), ("source", b"again"), ("empty", b""), ("null", None)),
    leader_epoch=0,
)
ANY = st.none() | st.binary(max_size=20) | st.text(max_size=20).map(lambda text: text.encode("utf-8", "replace"))


def changed(**fields: object) -> Record:
    return RECORD._replace(**fields)  # type: ignore[arg-type]


@given(key=ANY, value=ANY, headers=st.lists(st.tuples(st.text(max_size=5), ANY), max_size=3))
def test_what_consume_prints_as_json_produce_reads_back_to_the_byte(
    key: bytes | None, value: bytes | None, headers: list[tuple[str, bytes | None]]
) -> None:
    record = changed(key=key, value=value, headers=tuple(headers))
    line = msgspec.json.encode(row_of(record))
    assert b"\n" not in line
    assert sending_of(line, 1) == Sending(value, key, tuple(headers), 2, RECORD.timestamp_ms)


def test_a_record_is_shown_with_its_id_which_is_made_of_its_place_if_it_has_none() -> None:
    named = changed(headers=(("id", b"order-7"),))
    for record, name in ((RECORD, "msg_2-41_09a7c08a"), (named, "order-7")):
        assert row_of(record).id == name
        assert compiled("%i")(record) == name.encode()


def test_values_that_are_no_text_stay_the_json_that_they_are() -> None:
    made = sending_of(b'{"value": {"a": [1, null]}, "key": 7, "headers": {"h": "x", "n": null}}', 1)
    assert made == Sending(b'{"a":[1,null]}', b"7", (("h", b"x"), ("n", None)))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{", "is not JSON"),
        (b"[]", "an object with a value"),
        (b'{"key": "k"}', "an object with a value"),
        (b'{"value": "v", "kye": "k"}', "'kye'"),
        (b'{"value": "v", "id": "order-7"}', "'id'"),  # of a record that is nowhere yet it stands in the headers
        (b'{"value": {"base64": "%"}}', "base64"),
        (b'{"value": "v", "partition": -1}', "partition"),
        (b'{"value": "v", "partition": true}', "partition"),
        (b'{"value": "v", "headers": [1]}', "headers"),
        (b'{"value": "v", "headers": "x"}', "headers"),
        (b'{"value": "v", "timestamp_ms": "soon"}', "timestamp"),
        (b"\xff", "is not JSON"),
    ],
)
def test_a_line_that_is_no_record_is_refused_by_its_number(line: bytes, words: str) -> None:
    with pytest.raises(Refusal) as refused:
        sending_of(line, 17)
    assert str(refused.value).startswith("line 17 ")
    assert words in str(refused.value)
    assert refused.value.code == exits.USAGE


def test_a_format_has_every_part_of_a_record() -> None:
    text = r"%t %p %o %T %D %k/%K %s/%S %h 100%%\n"
    value = RECORD.value or b""
    want = b"orders 2 41 1769860800123 2026-01-31T12:00:00.123Z k1/2 " + value + b"/%d " % len(value)
    assert compiled(text)(RECORD) == want + b"source=shop,source=again,empty=,null= 100%\n"


def test_null_is_printed_as_nothing_with_a_length_of_minus_one() -> None:
    assert compiled("%k|%K|%s|%S")(changed(key=None, value=None)) == b"|-1||-1"


@pytest.mark.parametrize("text", ["%x", "100%", r"\q"])
def test_a_format_that_has_no_meaning_is_refused_with_what_has(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        compiled(text)
    assert refused.value.code == exits.USAGE


@pytest.mark.parametrize(
    "condition",
    [
        "key=k1", "key!=k2", "key~^k", "key!~x", "value~Ada", "value.customer.id=7", "value.customer.id>=7",
        "value.customer.id<7.5", "value.customer.name=Ada", "value.lines.1=2", "value.paid=true", "header.source=shop",
        "header.missing!=x", "header.missing!~x", "header.empty=", "topic=orders", "partition=2", "offset > 40",
        "offset<=41", "timestamp>1769860800000", "size<1000", "key<l", "value.absent!=1",
    ],
)  # fmt: skip
def test_a_condition_that_holds_lets_the_record_through(condition: str) -> None:
    keep = record_filter.compiled([condition])
    assert keep is not None
    assert keep(RECORD)


@pytest.mark.parametrize(
    "condition",
    [
        "key=k2", "key!=k1", "key~x", "value.customer.id=8", "value.customer.id>7", "value.customer.id.deeper=7",
        "value.lines.9=1", "header.missing=x", "header.missing~.", "header.null~.", "header.null=", "offset<41",
        "value.customer.name>7", "value.absent<1",
    ],
)  # fmt: skip
def test_a_condition_that_does_not_hold_keeps_the_record_back(condition: str) -> None:
    keep = record_filter.compiled([condition])
    assert keep is not None
    assert not keep(RECORD)


def test_of_several_conditions_all_must_hold() -> None:
    both = record_filter.compiled(["key=k1", "offset>100"])
    assert both is not None
    assert not both(RECORD)
    assert record_filter.compiled([]) is None


@given(value=ANY, condition=st.sampled_from(["value~a", "value.a.0=1", "size>3", "value<b", "value=a"]))
def test_no_bytes_break_a_condition(value: bytes | None, condition: str) -> None:
    keep = record_filter.compiled([condition])
    assert keep is not None
    assert keep(changed(value=value)) in (True, False)


@pytest.mark.parametrize("text", ["", "key", "=x", "colour=red", "header.=x", "key~(", "__class__=x", "offset<ten"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(Refusal) as refused:
        record_filter.compiled([text])
    assert refused.value.code == exits.USAGE
