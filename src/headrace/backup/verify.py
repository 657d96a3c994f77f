"""Whether a backup is still what was written: every file that the manifest lists, to the byte, and no other."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from headrace.backup import manifest as manifests
from headrace.backup.manifest import LOCK, PROGRESS, FileEntry, Manifest
from headrace.backup.place import within
from headrace.log.copied import digest_of_file
from headrace.log.files import ReadOnlyFiles

UNLISTED = {manifests.NAME, PROGRESS, LOCK}


class Problem(NamedTuple):
    path: str
    why: str


def verify(folder: str, manifest: Manifest, pace: Callable[[int], None] = lambda _: None) -> list[Problem]:
    """Reads all of it. Empty: every byte is there."""
    folder = os.path.abspath(folder)
    listed = manifest.all_files()
    problems = [found for file in listed if (found := check_file(folder, file, pace)) is not None]
    others = set(within(folder)) - {file.path for file in listed} - UNLISTED
    return problems + [Problem(path, "not a part of the backup") for path in sorted(others)]


def check_file(folder: str, file: FileEntry, pace: Callable[[int], None]) -> Problem | None:
    path = f"{folder}/{file.path}"
    try:
        size = os.stat(path).st_size
        if size != file.bytes:
            return Problem(file.path, f"{size} bytes instead of {file.bytes}")
        if digest_of_file(ReadOnlyFiles(), path, pace) != file.digest:
            return Problem(file.path, "its bytes have changed")
    except FileNotFoundError:
        return Problem(file.path, "missing")
    except OSError as error:
        return Problem(file.path, f"does not read: {error.strerror}")
    return None
