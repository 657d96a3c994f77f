"""A misspelt column, type or schema is told before Spark is started; what cannot be known then is left to Spark."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.errors import HeadraceError
from headrace.spark.pipelines import columns
from headrace.spark.pipelines.kinds import KINDS
from headrace.spark.pipelines.settings import parse

ORDERS = 'format = "json"\nschema = "id string, `of whom` string, tags array<struct<a: int, b: int>>, at timestamp"\n'
AVRO = '{"type": "record", "name": "o", "fields": [{"name": "id", "type": "string"}, {"name": "n", "type": "long"}]}'
ROLLUP = '[rollup]\nwindow = "1 minute"\ntime = "at"\nby = ["id"]\nvalues = {n = "count", least = "min(at)"}\n'


def check(beginning: str, rest: str = "", end: str = '[target]\ntopic = "done"\n') -> None:
    columns.check(parse(f'name = "x"\n{beginning}{rest}{end}'))


def source(format_: str) -> str:
    return f'[source]\ntopic = "orders"\n{format_}'


@pytest.mark.parametrize("kind", KINDS)
def test_the_samples_are_content(kind: str) -> None:
    columns.check(parse(KINDS[kind].sample))


@pytest.mark.parametrize(
    ("beginning", "rest", "end"),
    [
        (source(ORDERS), '[dedup]\nby = ["of whom", "_key"]\ntime = "at"\n', '[target]\ntopic = "d"\nkey = "_topic"\n'),
        (source(ORDERS), ROLLUP + '[order]\ntime = "window_end"\n', '[target]\ntopic = "d"\nkey = "least"\n'),
        (source(""), '[dedup]\nby = ["key", "headers"]\n', '[archive]\npath = "a"\n'),
        (source(""), '[deadletter]\ntopic = "bad"\n[dedup]\nby = ["_key"]\n', '[archive]\npath = "a"\n'),
        (source('format = "text"\n'), '[dedup]\nby = ["text"]\n', '[archive]\npath = "a"\n'),
        (source('format = "json"\n'), '[dedup]\nby = ["who knows"]\n', '[target]\ntopic = "d"\n'),
        (source('format = "json"\nschema = "a geometry(4326), b decimal(10, 2)"\n'), "", '[target]\ntopic = "d"\n'),
        *(
            (
                source(f"format = \"json\"\nschema = '''{schema}'''\n"),
                '[dedup]\nby = ["a"]\n',
                '[target]\ntopic = "d"\n',
            )
            for schema in (
                "a INT NOT NULL COMMENT 'x, y'",
                "`a`INT, b int",
                "struct<a:int,b:int>",
                "a int, -- c, d\n b int",
                "a int /* c, d */",
                "a: BIGINT, `b,c` int",
                "a int, `b``c` int",
            )
        ),
        (
            '[replay]\ntopic = "old"\n',
            '[deadletter]\ntopic = "bad"\n[dedup]\nby = ["_key"]\n',
            '[target]\ntopic = "d"\n',
        ),
        ('[replay]\npath = "old"\n', '[dedup]\nby = ["who knows"]\n', '[target]\ntopic = "d"\n'),
        ('[replay]\ntopic = "old"\n', '[dedup]\nby = ["headers"]\n', '[target]\ntopic = "d"\n'),
        (source(f"format = \"avro\"\nschema = '{AVRO}'\n"), '[dedup]\nby = ["n"]\n', '[target]\ntopic = "d"\n'),
    ],
)
def test_columns_that_are_there_are_found(beginning: str, rest: str, end: str) -> None:
    check(beginning, rest, end)


@pytest.mark.parametrize(
    ("beginning", "rest", "words"),
    [
        (source(ORDERS), '[dedup]\nby = ["di"]\n', "[dedup] by: there is no column 'di'; there are id, of whom, tags"),
        (source(ORDERS), '[order]\ntime = "when"\n', "[order] time: there is no column 'when'"),
        (source(ORDERS), '[order]\ntime = "id"\n', "[order] time 'id' is string, not a timestamp"),
        (source(ORDERS), ROLLUP.replace("min(at)", "min(ta)"), "least = 'min(ta)': there is no column 'ta'"),
        (source(ORDERS), ROLLUP + '[order]\ntime = "at"\n', "[order] time: there is no column 'at'; there are window_"),
        (source(ORDERS), ROLLUP + "[order]\n", "[order] time names the column"),
        (source('format = "json"\nschema = "id sting"\n'), "", "there is no type 'sting'; is 'string' meant?"),
        (source('format = "json"\nschema = "id, n int"\n'), "", "'id' is no column"),
        (source('format = "json"\nschema = "id int,"\n'), "", "'' is no column"),
        (source(f"format = \"avro\"\nschema = '{AVRO}'\n"), '[dedup]\nby = ["m"]\n', "there is no column 'm'"),
        (source('format = "avro"\nschema = "{}"\n'), "", "schema"),
        (source('format = "avro"\nschema = "none.avsc"\n'), "", "'none.avsc': there is no such file"),
    ],
)
def test_columns_that_are_not_there_are_told(
    beginning: str, rest: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HeadraceError) as refused:
        check(beginning, rest)
    assert words in str(refused.value) and "\n" not in str(refused.value)


def test_a_key_that_is_no_column_is_told() -> None:
    with pytest.raises(HeadraceError, match=r"\[target\] key: there is no column 'nobody'"):
        check(source(ORDERS), "", '[target]\ntopic = "d"\nkey = "nobody"\n')
