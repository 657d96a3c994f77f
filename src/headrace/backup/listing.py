"""Which backups there are in a folder, without reading more than their manifests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Literal, NamedTuple

from headrace.backup import manifest as manifests
from headrace.backup.manifest import PROGRESS, Manifest
from headrace.errors import BackupDamaged, FormatTooNew
from headrace.log.files import ReadOnlyFiles

State = Literal["complete", "unfinished", "damaged"]


class Found(NamedTuple):
    path: str
    state: State
    manifest: Manifest | None
    why: str = ""


def backups_in(folder: str) -> list[Found]:
    """The folder itself, if it is one; else those that stand in it, oldest first and unfinished ones last."""
    folder = os.path.abspath(folder)
    if (itself := look(folder)) is not None:
        return [itself]
    found = [one for path in _folders(folder) if (one := look(path)) is not None]
    return sorted(found, key=lambda one: (one.manifest is None, one.manifest.began_ms if one.manifest else 0, one.path))


def look(path: str) -> Found | None:
    """None: it never was a backup."""
    if not os.path.exists(f"{path}/{manifests.NAME}"):
        return Found(path, "unfinished", None) if os.path.exists(f"{path}/{PROGRESS}") else None
    try:
        return Found(path, "complete", manifests.load(ReadOnlyFiles(), path))
    except (BackupDamaged, FormatTooNew) as error:
        return Found(path, "damaged", None, str(error))


def _folders(folder: str) -> Iterator[str]:
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                yield entry.path
