"""Reading past pages that the disk does not give any more.

What is refused is asked for once again, a page at a time. If that page is refused too, the disk may be away for a
moment: what was asked for then ends in front of it, and whoever would take that for damage has to `insist`, which
raises the disk's error. A page that has been refused for PATIENCE_S, and one that lies wholly in a hole that is known,
reads as zeros: no batch is that, so it is damage to whoever checks what he reads. Who may not take it for damage asks
`refusal_behind`.

A bad stretch is to take no longer than a bad page. So the pages behind one that is refused are asked too, each once,
and the patience with those that are refused as well goes along with it. None is lost by one refusal: it is asked again
when its turn comes.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from typing import NamedTuple

from headrace.log.damage import Hole
from headrace.log.format import SEGMENT_HEADER_BYTES
from headrace.log.segment import Segment
from headrace.ports import Clock, Files

PAGE_BYTES = 4096
PATIENCE_S = 60.0  # longer than a controller takes to come back, or a path to be changed
# A page that nobody asked for in so long may have been well meanwhile: two moments without the disk are not a long one.
# Such a time counts for half of the patience at most, so that who asks seldom gets an answer with the third refusal.
SELDOM_S = 2 * PATIENCE_S
FORGOTTEN_S = 1800.0  # after this it begins anew. The broker looks after logs that are not open every ten minutes
AHEAD_PAGES = 256  # what recovery reads at once
AHEAD_S = 1.0  # there are disks that take seconds to refuse a page


class _Refused(NamedTuple):
    since: float  # but for what does not count
    last: float
    asked: int  # the page that was asked for then: itself, or one before it


class Patience:
    """Since when pages are refused. Asked and told from any thread, each time in single steps: what is lost between two
    of them is a refusal, and patience lasts longer."""

    __slots__ = ("_clock", "_refused")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._refused: dict[str, dict[int, _Refused]] = {}  # by path and page

    def now(self) -> float:
        return self._clock.monotonic()

    def is_over(self, path: str, page: int, asked: int | None = None) -> bool:
        """It was refused just now; or it is known to be, and the one that was `asked` for, before it, was just now."""
        now = self.now()
        if path not in self._refused:
            self._expire(now)
        pages = self._refused.setdefault(path, {})
        since, last, _ = pages.get(page, (now, now, page))
        if now - last > FORGOTTEN_S:
            since = now
        elif now - last > SELDOM_S:
            since += now - last - PATIENCE_S / 2
        pages[page] = _Refused(since, now, page if asked is None else asked)
        return now - since >= PATIENCE_S

    def knows(self, path: str, page: int) -> bool:
        """It was refused, and not read since."""
        return page in self._refused.get(path, ())

    def doubts(self, segment: Segment) -> bool:
        """Some page of it was refused, and not read since. It is to be read by a PatientReader, which tells when it is:
        what is in memory may be well for as long as the disk is not."""
        if not self._refused or segment.path() not in self._refused:
            return False
        self._expire(self.now())
        return segment.path() in self._refused

    def was_read(self, path: str, position: int, end: int) -> None:
        """Those that were refused beside it were so for a moment: should they be again, that is another one."""
        pages = self._refused.get(path)
        if pages is None:
            return
        refused = pages.copy()
        well = {page for page in refused if position < (page + 1) * PAGE_BYTES and end > page * PAGE_BYTES}
        moments = {refused[page].asked for page in well}
        beside = {page for page, (_, _, asked) in refused.items() if asked in moments and asked != page}
        self._forget(path, well | beside)

    def found(self, path: str, hole: Hole, size: int) -> None:
        """A hole in a file of that size is known: it needs no patience any more."""
        pages = self._refused.get(path, {})
        self._forget(path, {page for page in pages.copy() if covers(hole, page, size)})

    def let_go(self, path: str) -> None:
        """The file goes."""
        self._refused.pop(path, None)

    def _forget(self, path: str, gone: set[int]) -> None:
        pages = self._refused.get(path, {})
        for page in gone:
            pages.pop(page, None)
        if not pages:
            self._refused.pop(path, None)

    def _expire(self, now: float) -> None:
        for path, pages in self._refused.copy().items():
            if all(now - refused.last > FORGOTTEN_S for refused in pages.copy().values()):
                self._refused.pop(path, None)


class PatientReader:
    """One open file. Without patience every page that is refused twice is an error."""

    __slots__ = ("_files", "_handle", "_holes", "_insists", "_lost", "_path", "_patience", "_refusal")

    def __init__(
        self, files: Files, handle: int, path: str, patience: Patience | None, holes: Sequence[Hole] = ()
    ) -> None:
        self._files, self._handle, self._path, self._patience = files, handle, path, patience
        self._holes = holes  # of this file
        self._lost: dict[int, OSError] = {}  # by page
        self._refusal: OSError | None = None  # of a page that may yet be read
        self._insists = False

    def insist(self) -> None:
        """Raises the refusal that there was, and from now on each as it comes."""
        if self._refusal is not None:
            raise self._refusal
        self._insists = True

    def fetch(self, size: int, position: int) -> bytes:
        data = self._read(size, position)
        if len(data) == size:
            return data
        parts, at, end = [data], position + len(data), position + size
        while data and at < end:  # interrupted, or in front of a page that is refused; nothing: the file ends
            data = self._read(end - at, at)
            parts.append(data)
            at += len(data)
        return b"".join(parts)

    @property
    def has_refused(self) -> bool:
        return self._refusal is not None

    def refusal_behind(self, position: int) -> OSError | None:
        """Why a page behind the position, or the one that holds it, read as zeros."""
        return next((error for page, error in self._lost.items() if (page + 1) * PAGE_BYTES > position), None)

    def _read(self, size: int, position: int) -> bytes:
        """All of it or less; nothing where the file ends, or seems to."""
        try:
            return self._try(size, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        size = min(size, PAGE_BYTES - position % PAGE_BYTES)
        try:
            return self._try(size, position)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return self._refused(error, position // PAGE_BYTES, size)

    def _try(self, size: int, position: int) -> bytes:
        data = self._files.pread(self._handle, size, position)
        if self._patience is not None:
            self._patience.was_read(self._path, position, position + len(data))
        return data

    def _refused(self, error: OSError, page: int, size: int) -> bytes:
        if self._is_lost(page):
            self._lost[page] = error
            return bytes(size)
        self._refusal = error
        if self._patience is not None:
            self._look_ahead(self._patience, page)
        if self._insists:
            raise error
        return b""

    def _is_lost(self, page: int) -> bool:
        if self._is_in_hole(page):
            return True
        return self._patience is not None and self._patience.is_over(self._path, page)

    def _is_in_hole(self, page: int) -> bool:
        return any(covers(hole, page, self._files.size(self._handle)) for hole in self._holes)

    def _look_ahead(self, patience: Patience, asked: int) -> None:
        until, end = patience.now() + AHEAD_S, -(-self._files.size(self._handle) // PAGE_BYTES)
        for page in range(asked + 1, min(asked + AHEAD_PAGES, end)):
            if patience.now() > until:
                return
            if not self._is_in_hole(page) and (patience.knows(self._path, page) or self._is_refused(page)):
                patience.is_over(self._path, page, asked)

    def _is_refused(self, page: int) -> bool:
        try:
            self._try(PAGE_BYTES, page * PAGE_BYTES)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            return True
        return False


def covers(hole: Hole, page: int, size: int) -> bool:
    """Whether all batches that have bytes in that page of a file of that size are lost already."""
    start, end = max(page * PAGE_BYTES, SEGMENT_HEADER_BYTES), min((page + 1) * PAGE_BYTES, size)
    return hole.position <= start and hole.end_position >= end
