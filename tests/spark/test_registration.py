"""`import headrace.spark` makes the format known to a session that is there already. Spark also finds it by itself, so
that a query would not show it: a session that only remembers what it was given does."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

import headrace.spark
from headrace.spark.source import HeadraceSource


def imported_anew() -> ModuleType:
    """The module as its first import finds things, beside the one that there is."""
    assert headrace.spark.__file__ is not None
    spec = importlib.util.spec_from_file_location("headrace_spark_anew", headrace.spark.__file__)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Remembering:
    """A session's registries, which keep what they were given."""

    def __init__(self) -> None:
        self.dataSource = self.streams = self
        self.registered: list[object] = []
        self.listeners: list[object] = []

    def register(self, source: object) -> None:
        self.registered.append(source)

    def addListener(self, listener: object) -> None:
        self.listeners.append(listener)


def test_an_import_registers_with_the_session_that_is_active(monkeypatch: pytest.MonkeyPatch) -> None:
    active = Remembering()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: active)
    imported_anew()
    assert active.registered == [HeadraceSource]
    assert len(active.listeners) == 1


def test_an_import_without_a_session_starts_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: None)
    monkeypatch.setattr(SparkSession, "builder", None)
    assert imported_anew().NAME == "headrace"
