"""What a terminal adds: a question before something is destroyed, colours, tables; and what NO_COLOR takes away."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.cli.asking import confirm
from headrace.cli.exits import Refusal
from tests.cli.running import Run

LIMIT_S = 60.0
QUESTIONS = (b"go on: ", b"Ctrl-D ends.\r\n")


def at_terminal(run: Run, *arguments: str, typed: bytes = b"", env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """The exit code, and all that a person sees."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "headrace", *run.line(*arguments)],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=environment | dict(env or {}),
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # so that Ctrl-C reaches it
    )
    os.close(theirs)
    seen = b""
    try:
        while part := os.read(ours, 65536):
            seen += part
            if typed and seen.endswith(QUESTIONS):
                os.write(ours, typed)
                typed = b""
    except OSError:  # the last one has closed the other end
        pass
    finally:
        os.close(ours)
    return process.wait(LIMIT_S), seen.decode().replace("\r\n", "\n")


def test_a_typed_yes_destroys_and_anything_else_does_not(cli: Run) -> None:
    cli("topic", "create", "asked")
    code, seen = at_terminal(cli, "topic", "delete", "asked", typed=b"y\n")
    assert code == exits.REFUSED
    assert "This will delete topic asked" in seen
    assert "nothing was done" in seen
    assert cli("topic", "describe", "asked").code == 0
    code, seen = at_terminal(cli, "topic", "delete", "asked", typed=b"yes\n")
    assert (code, seen.splitlines()[-1]) == (0, "Deleted topic asked.")
    assert cli("topic", "describe", "asked").code == exits.NOT_FOUND


def test_ctrl_c_and_ctrl_d_at_the_question_destroy_nothing(cli: Run) -> None:
    cli("topic", "create", "unsure")
    code, seen = at_terminal(cli, "topic", "delete", "unsure", typed=b"\x03")
    assert code == exits.INTERRUPTED
    assert "Traceback" not in seen
    code, _ = at_terminal(cli, "topic", "delete", "unsure", typed=b"\x04")
    assert code == exits.REFUSED
    assert cli("topic", "describe", "unsure").code == 0


def test_nobody_to_ask_is_a_refusal_that_names_yes() -> None:
    with pytest.raises(Refusal) as refused:
        confirm("burn the house", yes=False)
    assert refused.value.code == exits.REFUSED
    assert "--yes" in (refused.value.next_step or "")
    assert "--dry-run" not in (refused.value.next_step or ""), "it was not said that there is one"
    with pytest.raises(Refusal) as refused:
        confirm("burn the house", yes=False, dry_run=False)
    assert "--dry-run" in (refused.value.next_step or "")
    assert confirm("burn the house", yes=True)
    assert not confirm("burn the house", yes=True, dry_run=True)


@pytest.mark.parametrize(
    ("options", "environment", "colour"),
    [((), {}, True), (("--no-color",), {}, False), ((), {"NO_COLOR": "1"}, False), ((), {"TERM": "dumb"}, False)],
    ids=["terminal", "--no-color", "NO_COLOR", "dumb"],
)
def test_colours_are_for_terminals_and_for_those_who_want_them(
    cli: Run, options: tuple[str, ...], environment: dict[str, str], colour: bool
) -> None:
    cli("topic", "create", "coloured", "--if-not-exists")
    for line in (("topic", "list"), ("topic", "describe", "coloured"), ("topic", "--help")):
        code, seen = at_terminal(cli, *line, *options, env=environment)
        assert code == 0
        assert ("\x1b[" in seen) is colour, seen
        assert "coloured" in seen or "help" in line[-1]


def test_json_has_no_colours_even_on_a_terminal(cli: Run) -> None:
    code, seen = at_terminal(cli, "topic", "list", "-o", "json")
    assert code == 0
    assert "\x1b" not in seen


def test_a_record_cannot_move_the_cursor_of_whoever_reads_it(cli: Run) -> None:
    cli("produce", "hostile", "\x1b[2J\x07owned\ttabs stay", "-H", "\x1b[2J=\x1b[2J")
    for form in ((), ("-o", "table"), ("-o", "wide"), ("-o", "csv"), ("-f", "%s\\n")):
        _, seen = at_terminal(cli, "consume", "hostile", *form)
        assert "\x1b[2J" not in seen
        assert "\\x1b[2J" in seen


def test_records_can_be_typed_and_ctrl_d_ends_them(cli: Run) -> None:
    code, seen = at_terminal(cli, "produce", "typed", typed=b"one\ntwo\n\x04")
    assert code == 0
    assert "Sent 2 records to typed" in seen
    assert cli("consume", "typed").out == "one\ntwo\n"


def test_ctrl_c_ends_typing_at_once(cli: Run) -> None:
    code, seen = at_terminal(cli, "produce", "broken-off", typed=b"one\n\x03")
    assert code == exits.INTERRUPTED
    assert "Traceback" not in seen


def test_progress_is_for_terminals_and_leaves_nothing_behind(cli: Run, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    lines.write_text("\n".join(str(number) for number in range(2000)))
    code, seen = at_terminal(cli, "produce", "shown", "-f", str(lines), "--rate", "4000")
    assert code == 0
    assert "Sending" in seen
    assert seen.rstrip().endswith("Sent 2000 records to shown, partition 0, offsets 0 to 1999.")
    code, seen = at_terminal(cli, "produce", "shown", "-f", str(lines), "-q")
    assert (code, seen) == (0, "")
    assert cli("produce", "shown", "-f", str(lines)).err == ""
