"""Files that are synced together, at the end. Six thousand small ones take a second then, and half a minute one by one.

Nothing of a backup counts before its manifest, and nothing of a restore before its end: so no sync on the way is
needed, if before that last word all of it is safe. `settle` makes it so.
"""

from __future__ import annotations

import ctypes
import os

from headrace.log.files import OsFiles


class LateFiles(OsFiles):
    """A sync does nothing yet."""

    def datasync(self, handle: int) -> None:
        pass

    def sync_directory(self, path: str) -> None:
        pass


def settle(root: str) -> None:
    """All below is on the disk when this returns. OSError: it may not be."""
    handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        if not _sync_filesystem(handle):
            _sync_each(root)
    finally:
        os.close(handle)
    OsFiles().sync_directory(os.path.dirname(root))


def _sync_filesystem(handle: int) -> bool:
    """Linux's syncfs, which also tells of writes that failed. False: there is none."""
    try:
        call = ctypes.CDLL(None, use_errno=True).syncfs
    except (AttributeError, OSError):
        return False
    if call(handle) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return True


def _sync_each(root: str) -> None:
    files = OsFiles()
    for folder, _, names in os.walk(root, topdown=False):
        for name in names:
            handle = files.open(f"{folder}/{name}")
            try:
                files.datasync(handle)
            finally:
                files.close(handle)
        files.sync_directory(folder)
