"""Micro-batches to files by date: each batch once, small files made large.

Parquet: a batch is staged, planned, moved (store.py). Spark gives a batch that it did not see finished once more, with
the same rows: it is recognised by the query's id and its number, and written no second time. Small files of a date are
merged when there are enough of them; while that is done, and after a kill in it until the next run, a reader may see
their rows twice: who reads meanwhile takes Delta, whose log makes both changes at once.

A column that a schema gains is in the files from then on; Spark reads both with mergeSchema. Types stay (evolution.py).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as sf

import headrace
from headrace.spark.pipelines.quoting import quoted
from headrace.spark.pipelines.settings import Archive, Deadletter, Settings
from headrace.spark.pipelines.steps import time_column
from headrace.spark.pipelines.store import STAGING, Plan, Store
from headrace.spark.sink_options import AT_LEAST_ONCE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

DATE: Final = "date"
NO_DATE: Final = "1970-01-01"  # of rows without a time
GOOD, BAD = "good", "bad"
MERGED: Final = "-merged-"  # in the names of files that were several


class ArchiveWriter:
    def __init__(self, archive: Archive, settings: Settings, aside: Deadletter | None) -> None:
        self._archive, self._settings, self._aside = archive, settings, aside
        self._store: Store | None = None
        self._query = ""
        self._is_ledger_kept: bool | None = None  # by the broker, for the bad rows; None: it was not asked yet

    def write(self, batch: DataFrame, number: int) -> None:
        if not self._query:
            self._query = _query_id(batch, self._settings.checkpoint)
        if self._aside is None:
            self._write_good(batch, number)
            return
        both = batch.persist()  # it is gone through twice
        try:
            self._set_aside(both.where(sf.col(BAD).isNotNull()).select(f"{BAD}.*"), number)
            self._write_good(both.where(sf.col(GOOD).isNotNull()), number)
        finally:
            both.unpersist()

    def _write_good(self, batch: DataFrame, number: int) -> None:
        rows = batch.select(f"{GOOD}.*")
        day = sf.to_date(quoted(time_column(rows, self._archive.time, "[archive]")))
        rows = rows.withColumn(DATE, sf.coalesce(day, sf.lit(NO_DATE).cast("date")))
        if self._archive.format == "delta":
            self._write_delta(rows, number)
        else:
            self._write_parquet(rows, number)

    def _set_aside(self, bad: DataFrame, number: int) -> None:
        writer = bad.write.format("headrace").mode("append").option("servers", self._settings.servers)
        if self._has_ledger():
            writer.option("writeId", self._query).option("batchId", str(number)).save()
        else:
            writer.option("guarantee", AT_LEAST_ONCE).save()

    def _has_ledger(self) -> bool:
        """A broker that is not ours has none, as was said before the run."""
        if self._is_ledger_kept is None:
            with headrace.connect(self._settings.servers) as client:
                self._is_ledger_kept = client.admin.has_sinks()
        return self._is_ledger_kept

    # Parquet

    def _write_parquet(self, rows: DataFrame, number: int) -> None:
        store = self._opened(rows)
        name = f"{self._query}-{number}"
        if store.is_done(name):
            return
        staged = f"{STAGING}/{name}"
        store.remove(staged)
        rows.write.partitionBy(DATE).parquet(store.path(staged))
        moves = []
        for place, (file, _) in enumerate(_data(store.listed(staged))):
            day = file.split("/")[-2]
            moves.append((file, f"{day}/{name}-{place}.parquet"))
        store.carry_out(Plan(name, moves))
        store.remove(staged)
        self._compact(rows, {new.split("/")[0] for _, new in moves}, number)
        store.forget_done({name, f"{self._query}-{number - 1}"})

    def _compact(self, rows: DataFrame, days: set[str], number: int) -> None:
        archive, store = self._archive, self._opened(rows)
        for day in sorted(days) if archive.compact_files else ():
            small = [(file, size) for file, size in _data(store.listed(day)) if size < archive.file_bytes]
            if len(small) < archive.compact_files:
                continue
            pieces = max(1, -(-sum(size for _, size in small) // archive.file_bytes))
            if pieces > len(small) // 2:  # nearly full ones would be written anew with every batch, for little
                continue
            name = f"{self._query}-{number}-{day.partition('=')[2]}"
            staged = f"{STAGING}/{name}"
            store.remove(staged)
            files = [store.path(file) for file, _ in small]
            merged = rows.sparkSession.read.option("mergeSchema", "true").parquet(*files)
            merged.coalesce(pieces).write.parquet(store.path(staged))
            moves = [
                (file, f"{day}/{name}{MERGED}{place}.parquet")
                for place, (file, _) in enumerate(_data(store.listed(staged)))
            ]
            store.carry_out(Plan(name, moves, [file for file, _ in small]))
            store.remove(staged)

    def _opened(self, rows: DataFrame) -> Store:
        if self._store is None:
            self._store = Store(rows.sparkSession, self._archive.path)
            self._store.recover()
        return self._store

    # Delta

    def _write_delta(self, rows: DataFrame, number: int) -> None:
        """Delta itself remembers which batch of which query it has."""
        writer = rows.write.format("delta").mode("append").partitionBy(DATE).option("mergeSchema", "true")
        writer.option("txnAppId", self._query).option("txnVersion", number).save(self._archive.path)
        if self._archive.compact_files and number % self._archive.compact_files == self._archive.compact_files - 1:
            rows.sparkSession.sql(f"OPTIMIZE delta.`{self._archive.path}`")


def _data(listed: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [(file, size) for file, size in listed if not file.rpartition("/")[2].startswith(("_", "."))]


def _query_id(batch: DataFrame, checkpoint: str) -> str:
    """As the checkpoint keeps it: another checkpoint is another query."""
    metadata = batch.sparkSession.read.text(f"{checkpoint}/metadata", wholetext=True).collect()
    found: str = json.loads(metadata[0][0])["id"]
    return found
