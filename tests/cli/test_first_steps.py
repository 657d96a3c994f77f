"""What somebody new types, and what other tools have taught their hands: it works, or the answer names what does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.testing.served import ServedBroker
from tests.cli.running import Run
from tests.support import ANYWHERE


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["help"], "Usage: headrace [OPTIONS] COMMAND"),
        (["help", "topic", "create"], "Usage: headrace topic create"),
        (["help", "serve"], "Usage: headrace serve"),
        (["version"], "headrace 0."),
        (["config", "explain", "--kafka"], "kafka.listen"),
    ],
)
def test_natural_words_work(run: Run, line: list[str], words: str) -> None:
    ended = run(*line)
    assert ended.code == exits.OK, ended.err
    assert words in ended.out


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (["serve", "--port", "9093"], "did you mean --kafka 127.0.0.1:9093?"),
        (["serve", "--kafka", "9093"], "as in 127.0.0.1:9093"),
        (["consume", "orders", "--from-beginning"], "--start start, which is the default"),
        (["consume", "orders", "--offset", "1"], "it is --start N"),
        (["consume", "orders", "--group", "g"], "`headrace subscribe TOPIC --group NAME` is a member of one"),
        (["tail", "orders", "--group", "g"], "`headrace subscribe TOPIC --group NAME` is a member of one"),
        (["topic", "create", "orders", "-p", "0"], "takes at least 1"),
        (["-s", "http://127.0.0.1:8081", "topic", "list"], "leave out http://, and name the port of the Kafka door"),
    ],
)
def test_what_is_said_otherwise_here_is_named(run: Run, line: list[str], words: str) -> None:
    ended = run(*line)
    assert ended.code == exits.USAGE
    assert words in ended.err


def test_an_option_is_not_taken_for_an_argument_of_a_similar_name(run: Run) -> None:
    assert "did you mean topics" not in run("consume", "--topic", "orders").err


@pytest.mark.parametrize("verb", ["create", "alter"])
def test_a_setting_that_was_mistyped_is_named_as_it_was_meant(cli: Run, verb: str) -> None:
    cli("topic", "create", "there")
    ended = cli("topic", verb, "there" if verb == "alter" else "new", "-c", "retention.mss=1")
    assert ended.code == exits.REFUSED
    assert "did you mean retention.ms?" in ended.err


def test_a_name_that_no_topic_can_have_is_answered_with_the_rule(cli: Run) -> None:
    assert "1 to 249 of A-Z a-z 0-9 . _ -" in cli("produce", "bad topic", "x").err


def test_a_record_that_is_too_large_is_told_without_a_stutter(cli: Run) -> None:
    cli("topic", "create", "small", "-c", "max.message.bytes=1000")
    assert "bytes are over the topic's max.message.bytes=1000" in cli("produce", "small", "x" * 2000).err


def test_records_that_are_gone_are_answered_with_options_of_the_command(cli: Run) -> None:
    cli("produce", "trimmed", "1", "2", "3")
    cli("topic", "trim", "trimmed", "--before", "2", "--yes")
    ended = cli("consume", "trimmed", "--start", "0")
    assert ended.code == exits.NOT_FOUND
    assert "out_of_range" not in ended.err
    assert "--start start" in ended.err


def test_a_port_that_speaks_http_is_told(run: Run, tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        ended = run("-s", broker.http, "topic", "list")
    assert ended.code == exits.UNREACHABLE
    assert "it speaks HTTP, not Kafka" in ended.err


@pytest.mark.parametrize(("data", "words"), [("/proc/x", "cannot make the data directory /proc/x"), ("", "is a file")])
def test_a_folder_that_cannot_hold_data_is_told(run: Run, tmp_path: Path, data: str, words: str) -> None:
    (tmp_path / "file").write_text("")
    ended = run("serve", "--data", data or str(tmp_path / "file"), *ANYWHERE)
    assert ended.code == exits.STORAGE
    assert words in ended.err
    assert "--data DIR" in ended.err


def test_a_first_start_whose_port_is_taken_leaves_no_folder_behind(run: Run, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run("serve", "--data", str(tmp_path / "data"), *ANYWHERE, "--kafka", at)
    assert f"cannot listen on {at} for kafka" in ended.err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("is_first", [True, False])
def test_all_ports_that_are_taken_are_told_at_once(run: Run, tmp_path: Path, is_first: bool) -> None:
    data = tmp_path / "data"
    if not is_first:
        data.mkdir()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        kafka, lines = (f"127.0.0.1:{taken.getsockname()[1]}" for taken in (one, two))
        ended = run("serve", "--data", str(data), *ANYWHERE, "--kafka", kafka, "--lines", lines)
    assert ended.code
    assert f"cannot listen on {kafka} for kafka, {lines} for lines: Address already in use; --kafka" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.parametrize("is_first", [True, False])
def test_a_host_that_is_none_is_told_in_a_sentence(run: Run, tmp_path: Path, is_first: bool) -> None:
    data = tmp_path / "data"
    if not is_first:
        data.mkdir()
    ended = run("serve", "--data", str(data), *ANYWHERE, "--lines", f"{'ä' * 70}:9099")
    assert ended.code
    assert "cannot listen on" in ended.err
    assert "for lines" in ended.err
    assert "Traceback" not in ended.err
