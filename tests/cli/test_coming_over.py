"""A node that is started, as before, where another broker kept its data: it says whose data it is and what brings it
over, touches nothing, and what it says works."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.cli import exits
from tests.cli.running import Ended, Run
from tests.importing.test_telling import planted

FREE = "127.0.0.1:0"
DOORS = ("kafka", "binary", "lines", "json", "http", "msgpack")
ANYWHERE = [word for door in DOORS for word in (f"--{door}", FREE)]
NAMED = {"binary": "QB_DATA_DIR", "lines": "WIBER_DATA_DIR", "pubsub": "PUBSUB_DATA_DIR"}
TOPICS = {"binary": "orders", "lines": "chat", "pubsub": "demo"}


def serve(folder: Path, variables: Mapping[str, str]) -> Ended:
    process = Run().start("serve", *ANYWHERE, env=os.environ | variables, cwd=folder)
    try:
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    return Ended(process.returncode, out.decode(), err.decode())


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def check(ended: Ended, store: str, folder: str) -> None:
    assert ended.code == exits.STORAGE, ended.err
    assert ended.err.splitlines()[-2:] == [
        f"headrace: {folder} holds what a {store} broker kept; a node keeps its data in a folder of its own",
        f"  try: `headrace serve --data {folder}-headrace`, and while that runs `headrace import {store} {folder}`",
    ]


@pytest.mark.parametrize("store", NAMED)
def test_a_folder_that_its_own_variable_names_is_told_with_its_import(store: str, tmp_path: Path) -> None:
    folder = planted(store, tmp_path / "old")
    before = held(folder)
    check(serve(tmp_path, {NAMED[store]: str(folder)}), store, str(folder))
    assert held(folder) == before


def test_the_folder_that_goes_with_a_broker_id(tmp_path: Path) -> None:
    planted("pubsub", tmp_path / "data1")
    check(serve(tmp_path, {"BROKER_ID": "1"}), "pubsub", "data1")


def test_the_folder_that_a_configuration_file_names(tmp_path: Path) -> None:
    planted("binary", tmp_path / "storage" / "data")
    (tmp_path / "config").mkdir()
    file = {"server": {"port": 9999}, "storage": {"data_dir": "./storage/data"}, "client": {}, "logging": {}}
    (tmp_path / "config" / "broker.json").write_text(json.dumps(file))
    check(serve(tmp_path, {}), "binary", "./storage/data")


@pytest.mark.parametrize("store", NAMED)
def test_what_is_said_works_word_for_word(store: str, tmp_path: Path) -> None:
    folder = planted(store, tmp_path / "old")
    variables = {NAMED[store]: str(folder)}
    serving, importing = re.findall("`headrace (.*?)`", serve(tmp_path, variables).err)
    ready = tmp_path / "ready"
    node = Run().start(
        *shlex.split(serving), *ANYWHERE, "--ready-file", str(ready), env=os.environ | variables, cwd=tmp_path
    )
    try:
        deadline = time.monotonic() + 60
        while not ready.exists() and time.monotonic() < deadline and node.poll() is None:
            time.sleep(0.05)
        run = Run(json.loads(ready.read_text())["addresses"]["kafka"])
        imported = run(*shlex.split(importing))
        assert imported.code == 0, imported.err
        assert TOPICS[store] in run("topic", "list", "-o", "json").out
    finally:
        node.send_signal(signal.SIGTERM)
        node.communicate(timeout=60)


def test_a_folder_of_any_other_logs_is_nobodys(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "syslog.log").write_text("Jan  1 00:00:00 host something happened\n")
    ended = serve(tmp_path, {"HEADRACE_DATA": str(folder)})
    assert ended.code == exits.STORAGE and "holds other things (syslog.log)" in ended.err
    assert "import" not in ended.err
    assert [path.name for path in folder.iterdir()] == ["syslog.log"], "and nothing was put beside it"


@pytest.mark.parametrize("store", NAMED)
def test_the_doctor_says_the_same(store: str, run: Run, tmp_path: Path) -> None:
    folder = planted(store, tmp_path / "old")
    ended = run("doctor", "--data", str(folder), "-o", "json", "-s", "127.0.0.1:1", "--timeout", "1s")
    found = [one for one in json.loads(ended.out) if one["condition"] == "data directory"]
    assert [(one["result"], one["found"]) for one in found] == [
        ("failed", f"{folder} holds what a {store} broker kept")
    ], ended.err
    assert f"headrace import {store} {folder}" in found[0]["advice"]
