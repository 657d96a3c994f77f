"""How commands end: a code for each class of cause, two lines for people."""

from __future__ import annotations

import errno
import inspect

import pytest

from headrace import errors
from headrace.cli import exits
from headrace.errors import HeadraceError

CLASSES = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, HeadraceError)]
PLAIN = [kind for kind in CLASSES if kind.__init__ is Exception.__init__]


@pytest.mark.parametrize("kind", PLAIN, ids=lambda kind: kind.__name__)
def test_every_error_of_ours_has_a_code_and_is_no_fault(kind: type[HeadraceError]) -> None:
    assert exits.code_of(kind("why")) in set(exits.MEANINGS) - {exits.OK, exits.FAULT, exits.INTERRUPTED}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.ConnectionFailed("x"), exits.UNREACHABLE),
        (errors.RequestTimedOut("x"), exits.TIMED_OUT),
        (errors.UnknownTopic("x"), exits.NOT_FOUND),
        (errors.TopicExists("x"), exits.REFUSED),
        (errors.InvalidConfig("x"), exits.REFUSED),
        (errors.BrokerRefused(1, "N", "x"), exits.REFUSED),
        (errors.DiskFull("x"), exits.STORAGE),
        (errors.DirectoryLocked("x"), exits.STORAGE),
        (errors.DeliveryFailed(3, errors.RequestTimedOut("x")), exits.TIMED_OUT),
        (errors.DeliveryFailed(1, errors.MessageTooLarge("x")), exits.REFUSED),
        (exits.usage("x"), exits.USAGE),
        (exits.not_found("x"), exits.NOT_FOUND),
        (exits.Refusal("x", code=exits.CHECK_FAILED), exits.CHECK_FAILED),
        (FileNotFoundError(errno.ENOENT, "No such file", "f"), exits.STORAGE),
        (TimeoutError(), exits.TIMED_OUT),
        (KeyError("x"), exits.FAULT),
        (AssertionError(), exits.FAULT),
    ],
)
def test_the_code_tells_the_class_of_the_cause(error: Exception, code: int) -> None:
    assert exits.code_of(error) == code


def test_the_cause_and_the_next_step_are_two_lines(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.fail(errors.ConnectionFailed("127.0.0.1:1: connection refused")) == exits.UNREACHABLE
    out, err = capsys.readouterr()
    first, second = err.splitlines()
    assert (out, first) == ("", "headrace: 127.0.0.1:1: connection refused")
    assert second.startswith("  try: ")


def test_what_a_delivery_failed_with_tells_the_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    assert exits.fail(errors.DeliveryFailed(2, errors.MessageTooLarge("too large"))) == exits.REFUSED
    assert "  try: `headrace topic alter TOPIC -c max.message.bytes=" in capsys.readouterr().err


def test_a_file_that_fails_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    exits.fail(PermissionError(errno.EACCES, "Permission denied", "/data/x"))
    assert capsys.readouterr().err == "headrace: /data/x: Permission denied\n"


def test_a_traceback_is_for_those_who_ask(capsys: pytest.CaptureFixture[str]) -> None:
    exits.fail(KeyError("k"))
    assert "Traceback" not in capsys.readouterr().err
    try:
        raise KeyError("k")
    except KeyError as error:
        exits.fail(error, trace=True)
    assert "Traceback" in capsys.readouterr().err
