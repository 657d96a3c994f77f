"""How an archive's columns may change: new ones come, old ones may stay away, and each keeps its type. A type that
changed would leave files that nobody can read together, so it is refused before anything is written; so is a name that
differs from another in case alone, since Spark takes the two for one.

A Parquet archive remembers its columns in a file of its own: to ask every file for them takes the longer, the more
there are.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from headrace.spark.errors import InvalidOption
from headrace.spark.pipelines.store import INSIDE, Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headrace.spark.pipelines.settings import Archive

SCHEMA: Final = f"{INSIDE}/schema.json"


def check_columns(spark: SparkSession, archive: Archive, schema: StructType) -> None:
    """Of rows that are to be written; a Parquet archive remembers them."""
    store = Store(spark, archive.path)
    known = _delta(spark, archive, store) if archive.format == "delta" else _parquet(spark, archive, store)
    clash = _clash(known, schema, "")
    if clash is not None:
        name, old, new = clash
        raise InvalidOption(
            f"[archive] column {name!r} is {old} in {archive.path} and would be {new}: a column keeps its type, and the"
            " case of its name; give it another name, or the archive another path"
        )
    whole = _merged(known, schema)
    if archive.format == "parquet" and whole != known:
        store.write(SCHEMA, json.dumps(whole.jsonValue()).encode())


def _parquet(spark: SparkSession, archive: Archive, store: Store) -> StructType:
    if store.exists(SCHEMA):
        return StructType.fromJson(json.loads(store.read(SCHEMA)))
    if not any(name.endswith(".parquet") for name, _ in store.listed("") if not name.startswith(INSIDE)):
        return StructType()
    return spark.read.option("mergeSchema", "true").parquet(archive.path).schema


def _delta(spark: SparkSession, archive: Archive, store: Store) -> StructType:
    return spark.read.format("delta").load(archive.path).schema if store.exists("_delta_log") else StructType()


def _clash(old: DataType, new: DataType, where: str) -> tuple[str, str, str] | None:
    """The first column whose types differ, or the case of whose names does, and both."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        alike = {name.lower(): name for name in old.names}
        for field in new.fields:
            place = f"{where}.{field.name}".lstrip(".")
            if field.name in old.names:
                found = _clash(old[field.name].dataType, field.dataType, place)
                if found is not None:
                    return found
            elif field.name.lower() in alike:
                return place, repr(alike[field.name.lower()]), repr(field.name)
        return None
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return _clash(old.elementType, new.elementType, f"{where}[]")
    if isinstance(old, MapType) and isinstance(new, MapType) and old.keyType == new.keyType:
        return _clash(old.valueType, new.valueType, f"{where}[]")
    return None if old == new else (where, old.simpleString(), new.simpleString())


def _merged(old: DataType, new: DataType) -> DataType:
    """All columns of both, where nothing clashes."""
    if isinstance(old, StructType) and isinstance(new, StructType):
        both = [
            StructField(
                one.name, _merged(one.dataType, new[one.name].dataType) if one.name in new.names else one.dataType
            )
            for one in old.fields
        ]
        return StructType(
            both + [StructField(one.name, one.dataType) for one in new.fields if one.name not in old.names]
        )
    if isinstance(old, ArrayType) and isinstance(new, ArrayType):
        return ArrayType(_merged(old.elementType, new.elementType))
    if isinstance(old, MapType) and isinstance(new, MapType):
        return MapType(old.keyType, _merged(old.valueType, new.valueType))
    return old
