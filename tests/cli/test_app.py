"""The command line as a whole: which way a line takes, where options may stand, how help and mistakes read."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from headrace.cli import app, exits
from headrace.cli.main import is_serving
from tests.cli.running import Run


@pytest.mark.parametrize("line", ["", "serve", "serve --data x", "--data x", "--kafka=off", "--config f"])
def test_the_bare_command_and_flags_of_serve_take_the_short_way(line: str) -> None:
    assert is_serving(line.split())


@pytest.mark.parametrize("line", ["topic list", "-o json topic list", "--server=x topic list", "-vv topic", "-h", "x"])
def test_everything_else_goes_to_the_table_of_commands(line: str) -> None:
    assert not is_serving(line.split())


def test_help_lists_every_command_with_a_sentence(run: Run) -> None:
    ended = run("--help")
    assert ended.code == 0
    for name, entry in app.COMMANDS.items():
        assert f"  {name} " in ended.out
        assert entry.about in ended.out


def test_one_command_does_not_import_another(tmp_path: object) -> None:
    code = (
        "import sys; from headrace.cli.main import main; code = main(['context', 'list', '-o', 'json']);"
        "heavy = {'rich', 'yaml', 'kio', 'uvloop', 'fastapi', 'headrace.cli.topic', 'headrace.cli.bench'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.strip()) == (0, "[]")


@pytest.mark.parametrize("line", ["-o json context list", "context -o json list", "context list -o json"])
def test_global_options_may_stand_before_and_after_the_noun(run: Run, line: str) -> None:
    assert run(*line.split()).out == "[]\n"


def test_deeper_options_win_and_counts_add_up(run: Run) -> None:
    assert run("-o", "yaml", "context", "list", "-o", "json").out == "[]\n"
    assert run("-q", "context", "list").err == ""
    assert run("-q", "context", "list", "-v").err != ""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("topik", "did you mean topic"),
        ("topic lst", "did you mean list"),
        ("topic list --outptu x", "did you mean --output?"),
        ("context list -o jason", "-o jason is not an output"),
        ("context list --timeout soon", "is not a duration"),
        ("context set a", "missing argument"),
        ("context list extra", "unexpected extra argument"),
        ("topic create a --partitions many", "--partitions"),
        ("topic create a --partitions 0", "--partitions"),
    ],
)
def test_a_mistake_is_named_with_what_was_meant_and_where_help_is(run: Run, line: str, words: str) -> None:
    ended = run(*line.split())
    assert ended.code == exits.USAGE
    assert ended.out == ""
    assert words in ended.err
    assert "\n  try: " in ended.err
    assert "Traceback" not in ended.err


def test_a_noun_alone_prints_its_help_and_is_a_mistake(run: Run) -> None:
    ended = run("context")
    assert ended.code == exits.USAGE
    assert "Commands:" in ended.out


@pytest.mark.parametrize("name", [name for name in app.COMMANDS if name != "serve"])
def test_every_command_has_help_with_examples(run: Run, name: str) -> None:
    ended = run(name, "--help")
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"Usage: headrace {name} ")
    verbs = [line.split()[0] for line in _section(ended.out, "Commands")]
    assert verbs or f"  headrace {name}" in ended.out or f"| headrace {name}" in ended.out
    for verb in verbs:
        help_of_verb = run(name, verb, "-h").out
        assert f"headrace {name} {verb}" in "\n".join(_section(help_of_verb, "Examples")), (name, verb)


def test_nobody_at_the_address_is_told_with_the_address_and_what_to_try(run: Run) -> None:
    ended = run("topic", "list", "-s", "127.0.0.1:1", "--timeout", "2s")
    assert ended.code == exits.UNREACHABLE
    assert "127.0.0.1:1" in ended.err
    assert "try: " in ended.err
    assert "Traceback" not in ended.err
    assert "Traceback" in run("-vv", "topic", "list", "-s", "127.0.0.1:1", "--timeout", "2s").err


def test_an_address_that_is_none_is_a_mistake(run: Run) -> None:
    ended = run("topic", "list", "-s", "nowhere:port")
    assert ended.code == exits.USAGE
    assert "nowhere:port" in ended.err
    unset = run("topic", "list", "-s", "")  # a script's variable that is empty must not mean another server
    assert (unset.code, "--server" in unset.err) == (exits.USAGE, True)


def test_a_name_that_is_no_text_is_a_mistake(cli: Run) -> None:
    ended = cli("topic", "create", "\udcff")
    assert ended.code == exits.USAGE
    assert "is not UTF-8" in ended.err


def test_a_fault_of_ours_is_said_in_two_lines_and_whole_with_vv(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = app.Entry("headrace.cli.exits:no_such_thing", "broken")
    monkeypatch.setitem(app.COMMANDS, "broken", broken)
    ended = run("broken")
    assert ended.code == exits.FAULT
    assert len(ended.err.splitlines()) == 2
    assert "Traceback" in run("-vv", "broken").err


def test_serve_is_reached_from_the_table_too(run: Run) -> None:
    ended = run("-v", "serve", "--help")
    assert ended.code == 0
    assert "--data" in ended.out


def _section(text: str, title: str) -> list[str]:
    _, _, rest = text.partition(f"\n{title}:\n")
    return [line for line in rest.partition("\n\n")[0].splitlines() if re.match(r"  \S", line)]
