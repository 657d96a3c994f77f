"""Positions whose topics are gone, on their way out of the log.

- They are out of memory at once: a topic that is made under the same name finds none.
- Whoever deletes a topic waits until they are out of the log too, so that no restart brings them back. While groups are
  being read back after a start, that is when the reading is over: only then it is known which positions there are.
- What could not be written (the disk is full, a log is being recovered) is kept here and tried again; what cannot be
  read goes when it can. Nobody waits for that: a restart before it may bring those back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial

from headrace.broker.groups.hosted import Hosted
from headrace.broker.groups.positions import Place
from headrace.broker.state_topic import Entry
from headrace.errors import HeadraceError
from headrace.log.config import Done
from headrace.ports import Promise

AT_ONCE = 100  # places in one append: some MB with the longest names that there can be

Grave = tuple[Hosted, Sequence[Place]]


class Burial:
    """Of one topic."""

    __slots__ = ("left", "waiting")

    def __init__(self) -> None:
        self.left = 0  # appends
        self.waiting: list[Promise[None]] = []  # one for each who waits: who gives up takes nobody along


class Burials:
    def __init__(
        self, new_promise: Callable[[], Promise[None]], append: Callable[[Hosted, list[Entry], Done], None]
    ) -> None:
        self._new_promise, self._append = new_promise, append
        self._open: dict[Burial, None] = {}
        self._failed: list[Grave] = []

    def begin(self, graves: Iterable[Grave]) -> None:
        burial = Burial()
        for hosted, places in graves:
            for place in places:
                hosted.positions.remove(*place)
            for at in range(0, len(places), AT_ONCE):
                some = places[at : at + AT_ONCE]
                burial.left += 1
                entries = [hosted.entry(*place, None) for place in some]
                self._append(hosted, entries, partial(self._ended, burial, (hosted, some)))
        if burial.left:
            self._open[burial] = None

    def _ended(self, burial: Burial, grave: Grave, error: HeadraceError | None) -> None:
        if error is not None:
            self._failed.append(grave)
        burial.left -= 1
        if not burial.left:
            del self._open[burial]
            for promise in burial.waiting:
                if not promise.done():
                    promise.set_result(None)

    async def over(self) -> None:
        """Those that were begun until now."""
        for burial in list(self._open):
            if burial.left:
                burial.waiting.append(promise := self._new_promise())
                await promise

    def take_failed(self) -> list[Grave]:
        failed, self._failed = self._failed, []
        return failed

    def keep_failed(self, grave: Grave) -> None:
        self._failed.append(grave)
