"""Completion: the scripts of the shells, and what they are told about commands, options and topics."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli import exits
from tests.cli.running import Run
from tests.client.test_transactions import transaction

LIMIT_S = 60.0


def completions(words: str, server: str | None = None) -> list[str]:
    """What bash would offer after these words; the last is being typed."""
    environment = os.environ | {
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": f"headrace {words}",
        "COMP_CWORD": str(len(f"headrace {words}|".split()) - 1),
    }
    if server:
        environment["HEADRACE_SERVER"] = server
    done = subprocess.run(
        [sys.executable, "-m", "headrace"], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def test_commands_verbs_and_options_are_completed() -> None:
    assert completions("to") == ["topic", "top"]
    assert completions("topic de") == ["describe", "delete"]
    assert "--partitions" in completions("topic create x --par")
    assert "--server" in completions("topic list --se")
    assert completions("topic list -o js") == ["json", "jsonl"]
    assert completions("completion f") == ["fish"]


def test_topics_come_from_the_server_and_their_absence_is_quiet(cli: Run, server: str) -> None:
    cli("topic", "create", "complete-a", "complete-b", "other")
    assert completions("consume comp", server) == ["complete-a", "complete-b"]
    assert completions("topic describe complete-b", server) == ["complete-b"]
    assert completions(f"topic delete -s {server} oth", "127.0.0.1:1") == ["other"]
    assert completions("consume comp", "127.0.0.1:1") == []


def test_groups_and_transactional_ids_come_from_the_server(cli: Run, server: str) -> None:
    cli("topic", "create", "read-by-groups")
    for group in ("complete-g1", "complete-g2"):
        assert cli("group", "seek", group, "--topic", "read-by-groups", "--to", "end", "--yes").code == 0
    assert completions("group describe comp", server) == ["complete-g1", "complete-g2"]
    assert completions("group seek complete-g1 --topic read-by", server) == ["read-by-groups"]
    with transaction(server, "complete-t1", "read-by-groups") as producer:
        assert completions("txn abort comp", server) == ["complete-t1"]
        producer.abort_transaction(30)
    assert completions("group describe comp", "127.0.0.1:1") == []


def test_contexts_are_completed_by_name(run: Run) -> None:
    run("context", "set", "staging", "h:1")
    assert completions("context use st") == ["staging"]
    assert completions("topic list --context st") == ["staging"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_calls_us_back(run: Run, shell: str) -> None:
    ended = run("completion", shell)
    assert ended.code == 0
    assert f"_HEADRACE_COMPLETE=complete_{shell}" in ended.out
    if (program := shutil.which(shell)) is not None:
        subprocess.run([program, "-n"], input=ended.out, text=True, check=True, timeout=LIMIT_S)


def test_bash_itself_completes_with_the_script(run: Run, server: str, cli: Run, tmp_path: Path) -> None:
    cli("topic", "create", "from-bash")
    (tmp_path / "headrace").write_text(f'#!/bin/sh\nexec {sys.executable} -m headrace "$@"\n')
    (tmp_path / "headrace").chmod(0o755)
    script = run("completion", "bash").out + (
        '\nCOMP_WORDS=(headrace consume from-); COMP_CWORD=2; _headrace_completion headrace; echo "${COMPREPLY[@]}"'
    )
    environment = os.environ | {"HEADRACE_SERVER": server, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment, capture_output=True, text=True, timeout=LIMIT_S
    )
    assert done.stdout.strip() == "from-bash", done.stderr


def test_an_unknown_shell_is_refused(run: Run) -> None:
    ended = run("completion", "tcsh")
    assert ended.code == exits.USAGE
    assert "bash, zsh, fish" in ended.err
