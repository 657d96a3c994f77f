"""A data directory: is it one, of a format that this program reads, and who works in it.

Looks and touches nothing: a directory that a node serves from is looked at while it serves.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator

import msgspec

from headrace.cli.doctor import processes
from headrace.cli.doctor.finding import Finding, failed, ok, unknown, warning
from headrace.cli.importing import telling
from headrace.log.format import OLDEST, VERSION
from headrace.log.store import FormatFile

DIRECTORY, FORMAT, LOCK = "data directory", "data format", "data lock"
_OURS = {"format", "lock", "synced", "topics", "metadata"}
_KAFKAS = "meta.properties"  # every log directory of Apache Kafka has one


def check(data: str) -> Iterator[Finding]:
    directory = _directory(data)
    yield directory
    if directory.result != "ok" or not os.path.isdir(data):
        return
    if os.path.exists(f"{data}/format"):
        yield _format(data)
    yield _lock(data)


def serving_pid(data: str) -> int | None:
    """The process that works in the directory, where that can be told."""
    return processes.lock_holder(f"{data}/lock")


def _directory(data: str) -> Finding:
    required = "Headrace's, or new"
    try:
        names = set(os.listdir(data))
    except FileNotFoundError:
        return ok(DIRECTORY, required, f"{data} is not there yet; `headrace serve` makes it")
    except NotADirectoryError:
        return failed(DIRECTORY, required, f"{data} is a file", "name a folder with --data DIR")
    except OSError as error:
        advice = f"this user cannot look into it: chown {data}, or run as its owner"
        return failed(DIRECTORY, required, f"{error.strerror}: {data}", advice)
    if _KAFKAS in names:
        advice = "name an empty folder with --data DIR; topics come over with `headrace export` and `headrace import`"
        return failed(DIRECTORY, required, f"{data} belongs to Apache Kafka", advice)
    strange = sorted(name for name in names - _OURS if not name.endswith((".new", ".deleted", ".probe")))
    if names and "format" not in names and strange:
        if stores := telling.kept_in(data):
            found = f"{data} holds what a {' and a '.join(stores)} broker kept"
            return failed(DIRECTORY, required, found, telling.to_import(stores, data))
        found = f"{data} holds other things ({', '.join(strange[:3])})"
        return warning(
            DIRECTORY, required, found, "a node does not start there: name a folder of its own with --data DIR"
        )
    return ok(DIRECTORY, required, data if names else f"{data} (empty)")


def _format(data: str) -> Finding:
    required = f"format {VERSION}" if OLDEST == VERSION else f"format {OLDEST} to {VERSION}"
    path = f"{data}/format"
    try:
        with open(path, "rb") as file:
            version = msgspec.json.decode(file.read(), type=FormatFile).format
    except OSError as error:
        return failed(FORMAT, required, f"{error.strerror}: {path}", "a node cannot read it either: look at its owner")
    except msgspec.MsgspecError as error:
        advice = f'restore {path} from a backup, or write {{"format": {VERSION}, "created_ms": 0}} into it'
        return failed(FORMAT, required, f"{path} does not read: {error}", advice)
    if version < OLDEST:
        advice = f"the format is too old: serve it with the version that wrote it, and export from there ({data})"
        return failed(FORMAT, required, f"format {version}", advice)
    if version > VERSION:
        advice = "a newer headrace wrote it: run that version, or a newer one (nothing was touched)"
        return failed(FORMAT, required, f"format {version}", advice)
    return ok(FORMAT, required, f"format {version}")


def _lock(data: str) -> Finding:
    required = "one node at a time"
    path = f"{data}/lock"
    if not os.path.exists(path):
        return ok(LOCK, required, "free")
    if processes.can_tell_locks():
        pid = processes.lock_holder(path)
        return ok(LOCK, required, "free" if pid is None else f"held by {processes.name_of(pid)}")
    try:
        with open(path, "rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # let go with the file
    except BlockingIOError:
        return ok(LOCK, required, "held by a running node")
    except OSError as error:
        return unknown(LOCK, required, error.strerror or "cannot be asked")
    return ok(LOCK, required, "free")
