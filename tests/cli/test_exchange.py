"""Rows to files and back, in every format: equal to the byte, bounded, and with errors that name the line."""

from __future__ import annotations

import gzip
import io
import os
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.cli.exchange import places
from headrace.cli.exchange.commas import CsvWriter, read_csv
from headrace.cli.exchange.jsonl import JsonlWriter, read_jsonl
from headrace.cli.exchange.parquet import ParquetWriter, read_parquet
from headrace.cli.exchange.rows import ROWS_AT_ONCE, BadRow, Rows, Writer
from headrace.cli.exits import Refusal
from headrace.cli.record_values import Headers, Sending
from headrace.client.values import Record

WRITERS: dict[str, Callable[[BinaryIO, str], Writer]] = {
    "jsonl": JsonlWriter,
    "csv": CsvWriter,
    "parquet": ParquetWriter,
}
READERS = {"jsonl": read_jsonl, "csv": read_csv, "parquet": read_parquet}
FORMATS = sorted(WRITERS)

contents = st.one_of(st.none(), st.binary(max_size=40), st.text(max_size=20).map(str.encode))
records = st.builds(
    lambda *given: record(*given),
    st.integers(0, 1 << 20),
    st.integers(0, 1 << 60),
    st.integers(-1, 1 << 50),
    contents,
    contents,
    st.lists(st.tuples(st.text(max_size=10), contents), max_size=3).map(tuple),
)


def record(
    partition: int, offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, headers: Headers = ()
) -> Record:
    return Record("orders", partition, offset, timestamp_ms, "create", key, value, headers, 0)


def sent(one: Record) -> Sending:
    """What a reader makes of a record; no time is no time."""
    return Sending(one.value, one.key, one.headers, one.partition, one.timestamp_ms if one.timestamp_ms >= 0 else None)


AWKWARD = [
    record(0, 0, -1, None, None),
    record(0, 1, 0, b"", b"", (("", b""), ("", None))),
    record(1, 2, 1, b"\xff\x00", b'a,"b"\r\nc\rd\ne', (("h", b"\xfe"), ("h", b"again"))),
    record(2, 3, 2, b"null", b'{"base64": "AA=="}'),
    record(2, 4, 3, b" key ", "\N{SNOWMAN}\x00\u2028".encode()),
]


def writer(form: str, out: BinaryIO) -> Writer:
    return WRITERS[form](out, "orders")


def reader(form: str, content: bytes, name: str = "in") -> Rows:
    return READERS[form](io.BytesIO(content), name)


def to_file(form: str, written: list[Record]) -> bytes:
    out = io.BytesIO()
    made = writer(form, out)
    made.write(written)
    made.finish()
    return out.getvalue()


def from_file(form: str, content: bytes) -> list[Sending]:
    return [row for several in reader(form, content) for row in several]


@pytest.mark.parametrize("form", FORMATS)
def test_what_was_awkward_to_write_comes_back_equal(form: str) -> None:
    assert from_file(form, to_file(form, AWKWARD)) == [sent(one) for one in AWKWARD]


@pytest.mark.parametrize("form", FORMATS)
@given(several=st.lists(records, max_size=8))
def test_any_records_come_back_equal(form: str, several: list[Record]) -> None:
    assert from_file(form, to_file(form, several)) == [sent(one) for one in several]


@pytest.mark.parametrize("form", FORMATS)
def test_a_large_record_comes_back_equal_though_csv_has_a_limit_of_its_own(form: str) -> None:
    large = record(0, 0, 0, os.urandom(1000), os.urandom(1 << 20))
    assert from_file(form, to_file(form, [large])) == [sent(large)]


@pytest.mark.parametrize("form", FORMATS)
def test_a_reader_gives_a_bounded_number_of_rows_at_a_time(form: str) -> None:
    many = [record(0, at, 0, None, b"v") for at in range(ROWS_AT_ONCE * 2 + 1)]
    got = [len(several) for several in reader(form, to_file(form, many))]
    assert sum(got) == len(many)
    assert max(got) <= ROWS_AT_ONCE


def test_the_rows_of_a_parquet_file_are_written_in_groups() -> None:
    import pyarrow.parquet

    big = [record(0, at, 0, None, bytes(1 << 20)) for at in range(40)]
    file = pyarrow.parquet.ParquetFile(io.BytesIO(to_file("parquet", big)))
    assert file.metadata.num_row_groups == 3
    assert file.schema_arrow.metadata[b"headrace.topic"] == b"orders"


# What somebody else wrote


def test_jsonl_needs_a_value_alone() -> None:
    assert from_file("jsonl", b'{"value": "v"}\n\n{"value": null}') == [Sending(b"v"), Sending(None)]


def test_csv_needs_a_column_value_alone_and_a_mark_in_front_is_no_part_of_it() -> None:
    assert from_file("csv", b"\xef\xbb\xbfvalue,id\none,1\n,2\n") == [Sending(b"one"), Sending(b"")]


def test_parquet_of_texts_and_finer_times_is_taken() -> None:
    import pyarrow as pa
    import pyarrow.parquet

    times = pa.array([1_500_000, None], pa.timestamp("us"))
    table = pa.table({"value": ["one", None], "timestamp": times, "x": [1, 2]})
    out = io.BytesIO()
    pyarrow.parquet.write_table(table, out)
    assert from_file("parquet", out.getvalue()) == [Sending(b"one", timestamp_ms=1500), Sending(None)]


@pytest.mark.parametrize(
    ("form", "content", "words"),
    [
        ("jsonl", b'{"value": "v"}\n{"walue": 3}\n', "in: line 2 is no record"),
        ("jsonl", b"{\n", "in: line 1 is not JSON"),
        ("jsonl", b'{"value": {"base64": "!"}}', "in: line 1 has base64 that is none"),
        ("csv", b"key\nx\n", "in has no column `value` in its first line (columns: key)"),
        ("csv", b"", "(columns: none)"),
        ("csv", b"value,value_is\nv,blob\n", "in: line 2: 'blob' is not text, base64 or null"),
        ("csv", b"value,offset\nv\n", "in: line 2: more or fewer fields"),
        ("csv", b"value,offset\nv,1,2\n", "in: line 2: more or fewer fields"),
        ("csv", b"value,partition\nv,x\n", "in: line 2: invalid literal"),
        ("csv", b"value\n\xff\n", "in is not CSV in UTF-8"),
        ("parquet", b"PAR1 not", "in is not a Parquet file of records"),
    ],
)
def test_what_holds_no_records_is_named_with_its_line(form: str, content: bytes, words: str) -> None:
    with pytest.raises(BadRow) as raised:
        from_file(form, content)
    assert words in str(raised.value)


# Places


@pytest.mark.parametrize(
    ("name", "asked", "form"),
    [
        ("a.jsonl", None, "jsonl"),
        ("a.CSV", None, "csv"),
        ("a.csv.gz", None, "csv"),
        ("b/a.parquet", None, "parquet"),
        ("-", None, "jsonl"),
        ("a.txt", "csv", "csv"),
    ],
)
def test_the_format_is_as_asked_or_as_the_name_ends(name: str, asked: str | None, form: str) -> None:
    assert places.format_of(name, asked) == form


@pytest.mark.parametrize(("name", "asked"), [("a.txt", None), ("a", None), ("a.csv", "xml")])
def test_a_format_that_is_not_known_is_refused(name: str, asked: str | None) -> None:
    with pytest.raises(Refusal, match="format"):
        places.format_of(name, asked)


def test_a_file_appears_when_it_is_whole_and_not_before(tmp_path: Path) -> None:
    name = str(tmp_path / "out.jsonl")
    with places.written(name, "jsonl") as out:
        out.write(b"half")
        assert not os.path.exists(name)
    assert Path(name).read_bytes() == b"half"
    assert os.listdir(tmp_path) == ["out.jsonl"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, error: type[BaseException]) -> None:
    name = tmp_path / "out.jsonl"
    name.write_bytes(b"old")
    with pytest.raises(error), places.written(str(name), "jsonl") as out:
        out.write(b"new")
        raise error
    assert name.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["out.jsonl"]


def test_gz_behind_the_name_is_gzip_and_the_same_each_time(tmp_path: Path) -> None:
    contents = []
    for name in ("a.csv.gz", "b.csv.gz"):
        with places.written(str(tmp_path / name), "csv") as out:
            out.write(b"value\nv\n")
        contents.append((tmp_path / name).read_bytes())
        with places.opened(str(tmp_path / name), "csv") as file:
            assert file.read() == b"value\nv\n"
    assert gzip.decompress(contents[0]) == b"value\nv\n"
    assert contents[0] == contents[1]
