"""Whoever names the wrong kind of store, or a folder that is not there, is told which it is, and nothing is sent."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.importing.command import ImportedPartition
from headrace.testing import Broker
from tests.cli.running import Run
from tests.importing.planted import binary_folder, lines_folder, pubsub_folder

STORES = ("lines", "binary", "pubsub")


def planted(store: str, folder: Path) -> Path:
    match store:
        case "lines":
            return lines_folder(folder, {"chat": ["a"]})
        case "binary":
            return binary_folder(folder, {("orders", 0): [b"a", b"b"]})
        case _:
            return pubsub_folder(folder, {"demo": [(None, 1, {})]})


@pytest.mark.parametrize(("asked", "there"), list(permutations(STORES, 2)))
def test_another_brokers_folder_is_named_for_what_it_is(
    asked: str, there: str, broker: Broker, cli: Run, tmp_path: Path
) -> None:
    folder = planted(there, tmp_path / "data")
    before = set(broker.topics())
    ended = cli("import", asked, str(folder))
    assert ended.code == exits.NOT_FOUND
    assert f"but what a {there} broker kept" in ended.err
    assert f"try: headrace import {there} {folder}" in ended.err
    assert set(broker.topics()) == before


def test_a_binary_log_without_its_index_is_known_by_its_first_byte(cli: Run, tmp_path: Path) -> None:
    folder = planted("binary", tmp_path)
    for index in folder.glob("*.idx"):
        index.unlink()
    assert "what a binary broker kept" in cli("import", "lines", str(folder)).err


def test_a_folder_of_both_gives_each_its_own(cli: Run, tmp_path: Path) -> None:
    lines_folder(tmp_path, {"both-lines": ["a"], "both_p0_p1": ["x"]})
    binary_folder(tmp_path, {("both-orders", 0): [b"a"]})
    ended = cli("import", "lines", str(tmp_path), "-o", "json")
    assert {row.topic for row in ended.rows(ImportedPartition)} == {"both-lines", "both_p0_p1"}
    assert "1 logs of a binary broker are left out" in ended.err


@pytest.mark.parametrize("store", STORES)
def test_a_folder_that_is_not_there(store: str, cli: Run, tmp_path: Path) -> None:
    ended = cli("import", store, str(tmp_path / "nosuch"))
    assert ended.code == exits.NOT_FOUND
    assert f"there is no {tmp_path / 'nosuch'}" in ended.err
    assert f"name the folder in which a {store} broker kept its data" in ended.err


@pytest.mark.parametrize("store", STORES)
def test_a_file_where_a_folder_is_meant(store: str, cli: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    ended = cli("import", store, str(tmp_path / "file"))
    assert ended.code == exits.NOT_FOUND
    assert "is no folder" in ended.err and "--format" in ended.err


def test_a_file_that_is_not_there_is_missed_before_its_format(cli: Run) -> None:
    ended = cli("import", "orders", "./nosuch")
    assert (ended.code, "there is no file ./nosuch" in ended.err) == (exits.NOT_FOUND, True)


def test_rows_may_go_to_a_topic_called_as_a_store(cli: Run, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"value": "a"}\n')
    assert cli("import", "lines", str(tmp_path / "rows.jsonl"), "--create", "1").code == 0
