"""The documents show the command line as it is: help pasted by machine, a session recorded from a real run."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli import exits
from tools import help_page, terminal

STALE = "run `make figures`, or the tool itself, and look at what changed"


def test_the_help_in_the_documents_is_the_help_of_the_commands() -> None:
    text = help_page.PAGE.read_text()
    assert text == help_page.page(text), STALE


def test_every_exit_code_has_a_meaning_in_the_documents() -> None:
    codes = {value for name, value in vars(exits).items() if name.isupper() and isinstance(value, int)}
    assert codes == set(exits.MEANINGS)
    for code in codes:
        assert f"\n| {code} | " in help_page.PAGE.read_text()


def test_the_session_in_the_documents_is_what_a_terminal_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    assert terminal.session() == terminal.PAGE.read_text(), STALE
