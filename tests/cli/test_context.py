"""`headrace context`: named servers, where they are kept, and which one is asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.context import Changed, ContextRow, Effective
from tests.cli.running import Run


def test_the_first_context_is_used_at_once_and_others_when_asked(run: Run) -> None:
    assert "No contexts yet" in run("context", "list").err
    assert run("context", "set", "here", "127.0.0.1:9092", "-o", "json").row(Changed).action == "created"
    run("context", "set", "there", "10.0.0.5:9092,10.0.0.6:9092", "--note", 'may "break"')
    assert run("context", "list").out == (
        "   NAME   SERVER                       NOTE\n"
        "*  here   127.0.0.1:9092\n"
        '   there  10.0.0.5:9092,10.0.0.6:9092  may "break"\n'
    )
    assert run("context", "use", "there", "-o", "json").row(Changed).action == "used"
    assert [row.current for row in run("context", "list", "-o", "json").rows(ContextRow)] == [False, True]


def test_deleting_the_context_in_use_leaves_none_in_use(run: Run) -> None:
    run("context", "set", "here", "h:1")
    assert run("context", "delete", "here", "-o", "json").row(Changed) == Changed("here", "h:1", "deleted")
    assert run("context", "show", "-o", "json").row(Effective).source == "default"


def test_what_is_asked_is_flag_then_context_flag_then_variables_then_the_context_in_use(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*more: str) -> tuple[str, str]:
        found = run("context", "show", "-o", "json", *more).row(Effective)
        return found.server, found.source

    assert asked() == ("127.0.0.1:9092", "default")
    run("context", "set", "here", "h:1")
    run("context", "set", "there", "t:1")
    assert asked() == ("h:1", "context here")
    monkeypatch.setenv("HEADRACE_CONTEXT", "there")
    assert asked() == ("t:1", "context there (HEADRACE_CONTEXT)")
    monkeypatch.setenv("HEADRACE_SERVER", "v:1")
    assert asked() == ("v:1", "HEADRACE_SERVER")
    assert asked("--context", "here") == ("h:1", "context here")
    assert asked("--context", "here", "-s", "f:1") == ("f:1", "--server")


def test_contexts_are_kept_below_the_xdg_folder(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    run("context", "set", "here", "h:1")
    file = tmp_path / "xdg" / "headrace" / "contexts.toml"
    assert 'current = "here"' in file.read_text()
    assert [path.name for path in file.parent.iterdir()] == ["contexts.toml"], "nothing half-written is left"


@pytest.mark.parametrize("text", ["current = 1", "not toml at all", "[contexts.a]\nport = 1", "surprise = 'x'"])
def test_a_file_that_makes_no_sense_is_named_and_left_alone(run: Run, tmp_path: Path, text: str) -> None:
    file = tmp_path / "home" / ".config" / "headrace" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    ended = run("context", "set", "here", "h:1")
    assert ended.code == exits.USAGE
    assert str(file) in ended.err
    assert file.read_text() == text


def test_an_unknown_context_is_not_found_and_the_nearest_is_named(run: Run) -> None:
    run("context", "set", "staging", "h:1")
    ended = run("context", "use", "stagign")
    assert ended.code == exits.NOT_FOUND
    assert "did you mean staging?" in ended.err
    assert run("topic", "list", "--context", "nope").code == exits.NOT_FOUND


@pytest.mark.parametrize("arguments", [("a b", "h:1"), ("-x", "h:1"), ("a", "h:port"), ("a", "h:1,"), ("a", ":1")])
def test_bad_names_and_addresses_are_refused(run: Run, arguments: tuple[str, str]) -> None:
    ended = run("context", "set", "--", *arguments)
    assert ended.code == (exits.USAGE if arguments != ("a", "h:1,") else exits.OK), ended


@pytest.mark.parametrize("variable", ["HEADRACE_SERVER", "HEADRACE_CONTEXT"])
def test_a_variable_that_is_empty_is_refused_and_no_other_server_is_asked(
    run: Run, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As an empty `-s` is: a script's own variable may have been unset."""
    monkeypatch.setenv(variable, "")
    ended = run("topic", "list")
    assert ended.code == exits.USAGE
    assert "names no" in ended.err
    assert run("topic", "list", "--context", "").code == exits.USAGE
