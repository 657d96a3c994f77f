"""The columns of a pipeline's rows, as far as its settings alone tell: a misspelt one is told before Spark has started.

Where they do not tell (a schema that is sampled, an archive), nothing is judged here; Spark will. A type is
its first word, as `array` of `array<int>`, or none where it is computed.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.settings import Archive, Deadletter, Replay, Rollup, Settings, Source, Target, value_of

Columns = Mapping[str, str]

RECORD: Final[Columns] = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array",
}
BESIDE: Final[Columns] = {f"_{name}": RECORD[name] for name in ("key", "topic", "partition", "offset", "timestamp")}
COMPUTED: Final = ""
TIMES: Final = ("timestamp", "timestamp_ltz")
TYPES: Final = (
    "array", "bigint", "binary", "bool", "boolean", "byte", "char", "date", "dec", "decimal", "double", "float", "int",
    "integer", "interval", "long", "map", "numeric", "real", "short", "smallint", "string", "struct", "time",
    "timestamp", "timestamp_ltz", "timestamp_ntz", "tinyint", "varchar", "variant", "void",
)  # fmt: skip
_NOT_PLAIN: Final = re.compile(r"['\"]|--|/\*|^\s*struct\s*<", re.IGNORECASE)
_ONE_WORD: Final = re.compile(r"\w*")
_COLUMN: Final = re.compile(r"(?:`(?P<quoted>[^`]+)`|(?P<name>\w+))(?:\s*:\s*|\s+)(?P<type>\w+).*", re.DOTALL)


def check(settings: Settings) -> None:
    columns = _beginning(settings)
    if columns is None:
        return
    for step in settings.steps:
        if isinstance(step, Deadletter):
            continue
        where = f"[{type(step).__name__.lower()}]"
        for name in step.by:
            _need(columns, name, f"{where} by")
        _check_time(columns, step.time, where)
        if isinstance(step, Rollup):
            columns = _rolled_up(columns, step)
    end = settings.end
    if isinstance(end, Archive):
        _check_time(columns, end.time, "[archive]")
    elif isinstance(end, Target) and end.key:
        _need(columns, end.key, "[target] key")


def _beginning(settings: Settings) -> Columns | None:
    begin, aside = settings.beginning, BESIDE if settings.deadletter is not None else {}
    if isinstance(begin, Replay):
        return {**RECORD, **aside} if begin.topic else None
    if begin.format == "raw":
        return {**RECORD, **aside}
    if begin.format == "text":
        return {"text": "string", **BESIDE}
    if begin.format in ("avro", "protobuf"):
        return {**_of_file(begin), **BESIDE}
    own = _of_schema(begin)
    return None if own is None else {**own, **BESIDE}


def _of_file(source: Source) -> dict[str, str]:
    """Of Avro's or Protobuf's own schema."""
    from pyspark.sql.types import StructType

    from headrace.spark.options import source_options
    from headrace.spark.pipelines.decoding import loaded
    from headrace.spark.values import value_type

    given = {"value.format": source.format, "value.schema": loaded(source), "value.message": source.message}
    named = {"servers": "none:1", "subscribe": "none"}  # nobody is asked
    kind = value_type(source_options({**named, **{k: v for k, v in given.items() if v}}, is_stream=True))
    if not isinstance(kind, StructType):
        return {"value": kind.typeName()}
    return {field.name: field.dataType.typeName() for field in kind.fields}


def _of_schema(source: Source) -> dict[str, str] | None:
    """As Spark writes one. What is not plain (comments, whole types) is left to Spark."""
    if not source.schema or _NOT_PLAIN.search(source.schema):
        return None
    found = {}
    for text in _parts(source.schema):
        column = _COLUMN.fullmatch(text)
        if column is None and not _ONE_WORD.fullmatch(text):
            return None
        if column is None:
            raise InvalidOption(
                f'[source] schema {source.schema!r}: {text!r} is no column; one is written as "amount double"'
            )
        kind = column["type"].lower()
        near = difflib.get_close_matches(kind, TYPES, 1)
        if kind not in TYPES and near:
            raise InvalidOption(f"[source] schema {source.schema!r}: there is no type {kind!r}; is {near[0]!r} meant?")
        found[column["quoted"] or column["name"]] = kind
    return found


def _parts(schema: str) -> Iterator[str]:
    """Between commas, but for those inside of a type."""
    depth, begin = 0, 0
    for at, character in enumerate(schema):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            yield schema[begin:at].strip()
            begin = at + 1
    yield schema[begin:].strip()


def _rolled_up(columns: Columns, step: Rollup) -> Columns:
    for name, text in step.values.items():
        _, column, _ = value_of(name, text)
        if column is not None:
            _need(columns, column, f"[rollup] {name} = {text!r}")
    bounds = {"window_start": "timestamp", "window_end": "timestamp"}
    return {**bounds, **{name: columns[name] for name in step.by}, **dict.fromkeys(step.values, COMPUTED)}


def _check_time(columns: Columns, chosen: str, where: str) -> None:
    if not chosen:
        if not {"timestamp", "_timestamp"} & columns.keys():
            raise InvalidOption(f"{where} time names the column that is a row's time")
        return
    _need(columns, chosen, f"{where} time")
    if columns[chosen] not in (*TIMES, COMPUTED):
        raise InvalidOption(f"{where} time {chosen!r} is {columns[chosen]}, not a timestamp")


def _need(columns: Columns, name: str, where: str) -> None:
    if name not in columns:
        raise InvalidOption(f"{where}: there is no column {name!r}; there are {_names(list(columns))}")


def _names(columns: Sequence[str]) -> str:
    return ", ".join(columns)
