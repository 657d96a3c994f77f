"""Which code says which error."""

from __future__ import annotations

import kio.schema.errors
import pytest

from headrace import errors
from headrace.wire.kafka.errors import _CODES, MAX_MESSAGE_CHARS, Code, code_for

# Raised before a door opens, so no client ever hears of them.
NEVER_SENT = {
    errors.DirectoryLocked,
    errors.DirectoryUnusable,
    errors.FormatTooNew,
    errors.FormatTooOld,
    errors.HeadraceError,
}


def test_every_error_of_ours_has_a_code() -> None:
    ours = {kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    ours = {kind for kind in ours if not issubclass(kind, (errors.BackupError, errors.ClientError))}
    missing = {kind.__name__ for kind in ours - NEVER_SENT if not any(base in _CODES for base in kind.__mro__)}
    assert not missing


def test_codes_are_those_of_kafka() -> None:
    names = {code.value: code.name for code in kio.schema.errors.ErrorCode}
    assert {code.value: code.name.lower() for code in Code} == {code.value: names[code.value] for code in Code}


def test_a_subclass_has_the_code_of_its_nearest_base() -> None:
    class Own(errors.UnknownTopic):
        pass

    assert code_for(Own("gone")) == (Code.UNKNOWN_TOPIC_OR_PARTITION, "gone")
    assert code_for(errors.UnsupportedMagic("old"))[0] == Code.INVALID_RECORD


@pytest.mark.parametrize("error", [ValueError("x"), errors.HeadraceError("x")])
def test_what_has_no_code_is_a_fault_of_ours(error: Exception) -> None:
    assert code_for(error) == (Code.UNKNOWN_SERVER_ERROR, "x")


@pytest.mark.parametrize("kind", [errors.UnknownTopic, ValueError])
def test_a_text_that_quotes_a_long_name_is_cut_and_shows_it(kind: type[Exception]) -> None:
    _, text = code_for(kind("n" * 50_000))
    assert len(text) == MAX_MESSAGE_CHARS
    assert text.endswith("n…")
    fits = "n" * MAX_MESSAGE_CHARS
    assert code_for(kind(fits))[1] == fits
