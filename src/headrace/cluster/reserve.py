"""Room that is set aside for the next start: a file of bytes that no file system makes fewer.

What a start writes is little, but it cannot do without: a term, and an entry that gives partitions their next leader
epochs. On a full disk there would be no room for it, and only a node that runs lets go of what retention says may go.
So a start gives this room up before it writes, and takes it again with the first entry that is kept; where the disk has
less by then, what there is. So does an entry without which a log that failed could not be opened anew. It is not
synced: what a power loss takes of it is free again.
"""

from __future__ import annotations

import contextlib
from random import Random

from headrace.log.writing import is_short_of_handles, write_all
from headrace.ports import Files

RESERVE_BYTES = 256 << 10  # a few blocks for each of the few files, also where a block is large


class Reserve:
    def __init__(self, files: Files, path: str) -> None:
        self._files, self._path = files, path
        self._is_set_aside = False

    def give_up(self) -> None:
        """Blocks."""
        self._is_set_aside = False
        with contextlib.suppress(FileNotFoundError):
            self._files.remove(self._path)

    def set_aside(self) -> None:
        """Once, whether or not there is room: who lives on a full disk needs every byte that comes free."""
        if self._is_set_aside:
            return
        self._is_set_aside = True
        try:
            handle = self._files.open(self._path, create=True)
            try:
                write_all(self._files, handle, Random(RESERVE_BYTES).randbytes(RESERVE_BYTES), 0)
            finally:
                self._files.close(handle)
        except OSError as error:
            self._is_set_aside = not is_short_of_handles(error)
