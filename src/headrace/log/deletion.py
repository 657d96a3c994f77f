"""A folder of logs goes: it gets another name, which is synced, and then all in it is removed.

What the journal knows of these logs is forgotten first, and that is synced: without it a recovery would take the files
for lost. Which logs they are their segments say: most are not open.
"""

from __future__ import annotations

import contextlib

from headrace.errors import HeadraceError
from headrace.log.format import DELETED, LOG
from headrace.log.journal import Journal
from headrace.log.revisions import read_segment_header
from headrace.ports import Files


def log_ids(files: Files, folder: str) -> set[bytes]:
    """Off the loop. Of the log in the folder, or of those in the folders below it."""
    found: set[bytes] = set()
    with contextlib.suppress(OSError, HeadraceError):  # what does not say whose it is stays in the journal
        names = files.list(folder)
        segments = [name for name in names if name.endswith(LOG)]
        for name in names if not segments else ():
            found |= log_ids(files, f"{folder}/{name}")
        header = read_segment_header(files, f"{folder}/{segments[0]}") if segments else None
        if header is not None:
            found.add(header.log_id)
    return found


def delete_folder(files: Files, journal: Journal, folder: str) -> None:
    """Off the loop."""
    if files.exists(folder):
        journal.sync()
        if files.exists(folder + DELETED):
            remove_tree(files, folder + DELETED)
        files.rename(folder, folder + DELETED)
        files.sync_directory(folder.rpartition("/")[0])
        remove_tree(files, folder + DELETED)


def remove_tree(files: Files, path: str) -> None:
    for name in files.list(path):
        inner = f"{path}/{name}"
        try:
            files.remove(inner)
        except (IsADirectoryError, PermissionError):  # what Linux and macOS say of a directory
            remove_tree(files, inner)
    files.remove_directory(path)
