"""How a command ends: one exit code per class of cause, and two lines that say what went wrong and what to try next.

Scripts act on the code, people on the words, so both come from one place. `Refusal` is what a command raises for
causes of its own; every other error of ours has its code in `CODES`. What is not of ours at all is a fault (1), and
its traceback is kept for `-vv`: nobody who mistyped an address wants to read one.
"""

from __future__ import annotations

import os
import sys
import traceback

from headrace import errors
from headrace.errors import HeadraceError

OK = 0
FAULT = 1
USAGE = 2
UNREACHABLE = 3
NOT_FOUND = 4
REFUSED = 5
TIMED_OUT = 6
STORAGE = 7
CHECK_FAILED = 8
INTERRUPTED = 130

MEANINGS = {
    OK: "it worked",
    FAULT: "a fault of Headrace; please report it",
    USAGE: "the command line says something that the command does not take",
    UNREACHABLE: "no server answers at the address",
    NOT_FOUND: "what was named does not exist",
    REFUSED: "refused: it exists already, is not valid, is not allowed, or was not confirmed",
    TIMED_OUT: "no answer in time (`--timeout`)",
    STORAGE: "a disk, file or data folder failed, is full or in use",
    CHECK_FAILED: "a check found something (`doctor`, `config validate`)",
    INTERRUPTED: "interrupted (Ctrl-C)",
}

CODES: dict[type[HeadraceError], int] = {
    errors.ConnectionFailed: UNREACHABLE,
    errors.RequestTimedOut: TIMED_OUT,
    errors.UnknownTopic: NOT_FOUND,
    errors.UnknownTopicId: NOT_FOUND,
    errors.GroupNotFound: NOT_FOUND,
    errors.UnknownTransactionalId: NOT_FOUND,
    errors.UnknownLedger: NOT_FOUND,
    errors.OffsetOutOfRange: NOT_FOUND,
    errors.StorageFailed: STORAGE,
    errors.DiskFull: STORAGE,
    errors.DirectoryLocked: STORAGE,
    errors.DirectoryUnusable: STORAGE,
    errors.FormatTooNew: STORAGE,
    errors.FormatTooOld: STORAGE,
    errors.DamagedRange: STORAGE,
    errors.NotABackup: NOT_FOUND,
    errors.BackupDamaged: STORAGE,
    errors.BackupUnsettled: STORAGE,
}  # every other error of ours is a refusal

NEXT_STEPS: dict[type[HeadraceError], str] = {
    errors.ConnectionFailed: "`headrace serve` starts a server here; -s HOST:PORT names another",
    errors.RequestTimedOut: "--timeout 60s waits longer; `headrace doctor` looks at the server",
    errors.UnknownTopic: "`headrace topic list` shows what there is",
    errors.UnknownPartition: "`headrace topic describe TOPIC` shows its partitions",
    errors.GroupNotFound: "`headrace group list` shows what there is",
    errors.GroupSubscribed: "stop its members first; `headrace group describe GROUP` names them",
    errors.GroupNotEmpty: "stop its members first; `headrace group describe GROUP` names them",
    errors.UnknownTransactionalId: "`headrace txn list` shows what there is",
    errors.UnknownLedger: "`headrace txn ledgers` shows what there is",
    errors.MessageTooLarge: "`headrace topic alter TOPIC -c max.message.bytes=4MiB` lets a larger one in",
    errors.OffsetOutOfRange: "`--start start` reads from the first that is there, `--start -10` the last ten",
    errors.DirectoryLocked: "--data DIR names another folder",
    errors.DirectoryUnusable: "--data DIR names another folder",
    errors.DiskFull: "make room on the disk; writing resumes by itself",
    errors.FormatTooNew: "use the version of headrace that wrote it",
}


class Refusal(HeadraceError):
    """What a command itself says no to: the cause, what to try next, and the class of the cause."""

    def __init__(self, cause: str, next_step: str | None = None, *, code: int = REFUSED) -> None:
        super().__init__(cause)
        self.next_step, self.code = next_step, code


def usage(cause: str, next_step: str | None = None) -> Refusal:
    return Refusal(cause, next_step, code=USAGE)


def not_found(cause: str, next_step: str | None = None) -> Refusal:
    return Refusal(cause, next_step, code=NOT_FOUND)


def code_of(error: BaseException) -> int:
    if isinstance(error, Refusal):
        return error.code
    if isinstance(error, HeadraceError):
        if isinstance(error, errors.DeliveryFailed):
            return code_of(error.first)
        return next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), REFUSED)
    if isinstance(error, UnicodeEncodeError):  # a name that was typed is no text
        return USAGE
    if isinstance(error, TimeoutError):
        return TIMED_OUT
    if isinstance(error, OSError):
        return STORAGE
    return FAULT


def fail(error: BaseException, *, trace: bool = False) -> int:
    """Says what went wrong on standard error; the exit code. `trace`: with the traceback."""
    if trace:
        traceback.print_exception(error)
    code = code_of(error)
    cause = _cause(error) if code != FAULT else f"{type(error).__name__}: {error}"
    print(f"headrace: {cause}", file=sys.stderr)
    if step := _next_step(error, code):
        print(f"  try: {step}", file=sys.stderr)
    return code


def end_quietly() -> int:
    """Whoever read our output has gone (`| head`): that is no fault, and Python must not complain of it at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return OK


def _cause(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    if isinstance(error, UnicodeEncodeError):
        return f"{error.object!r} is not UTF-8"
    if isinstance(error, errors.OffsetOutOfRange):  # its advice is for programs
        return error.cause
    return str(error) or type(error).__name__


def _next_step(error: BaseException, code: int) -> str | None:
    if isinstance(error, Refusal):
        return error.next_step
    if isinstance(error, errors.DeliveryFailed):
        return _next_step(error.first, code)
    if code == FAULT:
        return "the same with -vv shows the traceback; please report it"
    return next((NEXT_STEPS[kind] for kind in type(error).__mro__ if kind in NEXT_STEPS), None)
