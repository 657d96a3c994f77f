"""Compaction of one log: of every key the last record stays, and what came before it goes. In passes.

1. The keys of the dirty part go into a map, of a bounded size: the pass ends where it is full, and the next begins
   there.
2. From the log's start to that end, neighbouring segments that fit into one are written anew, without what went, to a
   file of another name (sifting.py, sieve.py).
3. On the loop, that one takes the place of those that it was made from; a snapshot that says so is written; then their
   files go. Whoever dies before the snapshot is safe finds the old ones, and after it the new one.
4. When all are done the log remembers up to where it is clean.

In the order of offsets, so that a tombstone never goes before what it deletes: not within a pass, and not when one is
cut short. Segments with holes are not rewritten, and as long as there are any, no tombstone and no marker goes: what it
deletes may be in such a segment.

What happens to the log meanwhile (retention, a cut-off end, closing) goes first: the pass gives up and begins anew
later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from headrace.errors import HeadraceError
from headrace.log.config import Done
from headrace.log.dirt import Dirt
from headrace.log.format import INDEX, LOG
from headrace.log.segment import Segment
from headrace.log.sieve import NEVER_MS, Caught, Rules, Sieve, make_rules
from headrace.log.sifting import DamageMet, GroupWork, KeyWork
from headrace.log.writing import explain
from headrace.records.kernel import OffsetMap

if TYPE_CHECKING:
    from headrace.log.log import Log

T = TypeVar("T")


class Compaction:
    """One pass. `done(None)` at its end, `done(error)` when it could not be ended."""

    def __init__(self, log: Log, dirt: Dirt[Segment], now_ms: int, memory_bytes: int, done: Done) -> None:
        self._log, self._dirt, self._done = log, dirt, done
        self._generation = log.generation
        self._holes = log.holes
        has_holes = any(log.holes.of_segment(segment.base) for segment in log.segments)
        self._caught: Caught | None = Caught(
            NEVER_MS if has_holes else now_ms,
            now_ms + log.config.delete_retention_ms,
            dirt.end_offset,
            log.producers.transactions.aborted_columns(log.start_offset),
            log.producers.states(),
        )
        self._cleaned = max(log.cleaned_offset, dirt.segments[0].base)
        keys = max(1, min(memory_bytes // OffsetMap.KEY_BYTES, dirt.end_offset - self._cleaned))
        self._offsets = OffsetMap(keys)
        self._rules: Rules | None = None
        self._keys: KeyWork | None = None
        self._sieve: Sieve | None = None
        self._waiting: list[Segment] = []
        self._work: GroupWork | None = None
        self.before_bytes = self.after_bytes = 0
        self.dropped = 0  # records
        self.keys = 0
        self.is_whole = False  # it came to its end

    def begin(self) -> None:
        self._run(self._make_rules, self._made_rules)

    def _make_rules(self) -> bool:
        """Off the loop."""
        assert self._caught is not None
        self._rules, self._caught = make_rules(self._caught), None
        return True

    def _made_rules(self, is_done: bool) -> None:
        log, dirt, rules = self._log, self._dirt, self._rules
        assert rules is not None
        files, cleaned = log.services.files, self._cleaned
        self._keys = KeyWork(files, dirt.segments, self._offsets, rules, log.holes, cleaned, dirt.end_offset)
        self._run(self._keys.step, self._stepped_over_keys)

    def _stepped_over_keys(self, is_done: bool) -> None:
        keys, rules = self._keys, self._rules
        assert keys is not None and rules is not None
        if not is_done:
            self._run(keys.step, self._stepped_over_keys)
            return
        self.keys = len(self._offsets)
        self._sieve = Sieve(self._offsets, keys.end_offset, rules)
        self._waiting = [
            segment
            for segment in self._dirt.segments
            if segment.base < keys.end_offset and not self._holes.of_segment(segment.base)
        ]
        self._next_group()

    def _next_group(self) -> None:
        if not self._waiting:
            self._finish()
            return
        log, sieve = self._log, self._sieve
        assert sieve is not None
        self._work = GroupWork(log.services.files, self._waiting, sieve, log.log_id, log.config)
        self._run(self._work.step, self._stepped_over_group)

    def _stepped_over_group(self, is_done: bool) -> None:
        work = self._work
        assert work is not None
        if not is_done:
            self._run(work.step, self._stepped_over_group)
            return
        before = sum(segment.size for segment in work.group)
        self.before_bytes += before
        self.after_bytes += work.made.size if work.has_changed else before
        if work.has_changed:
            self._swap(work)
        else:
            self._next_group()

    def _swap(self, work: GroupWork) -> None:
        """One step on the loop: nobody sees half of it."""
        log, sieve, group = self._log, self._sieve, work.group
        assert sieve is not None
        if any(log.holes.of_segment(segment.base) for segment in group) or not log.replace_segments(group, work.made):
            self._end(None)
            return
        self._work = None
        for offset in sieve.gone_markers:
            log.producers.transactions.forget_marker(offset)
        sieve.gone_markers.clear()
        for segment in group:
            log.leftovers += [segment.name(LOG), segment.name(INDEX)]
        log.checkpoint.request(self._saved)

    def _saved(self, error: HeadraceError | None) -> None:
        if error is not None or self._is_over():
            self._end(error)
        else:
            self._next_group()

    def _finish(self) -> None:
        log, sieve = self._log, self._sieve
        assert sieve is not None and self._keys is not None
        self.dropped = sieve.dropped
        log.cleaned_offset = self._keys.end_offset
        log.horizon_ms = sieve.horizon_ms
        self.is_whole = True
        log.checkpoint.request(self._end)

    # The ends

    def _is_over(self) -> bool:
        log = self._log
        return log.is_released or log.failed is not None or log.is_blocked or log.generation != self._generation

    def _run(self, work: Callable[[], bool], then: Callable[[bool], None]) -> None:
        def back(result: bool | None, error: BaseException | None) -> None:
            if isinstance(error, DamageMet) and not self._is_over():
                met = error
                self._log.run(lambda: _tell_of(self._log, met), lambda _, __: self._end(met))
            elif error is not None or self._is_over():
                self._end(error)
            else:
                assert result is not None, "work gives a result or an error"
                then(result)

        self._log.run(work, back)

    def _end(self, error: BaseException | None) -> None:
        self._offsets.release()  # the next one may begin before this is forgotten
        if self._work is not None:
            work, self._work = self._work, None
            if not self._log.is_released:  # else it goes with the folder, or when the log is opened
                self._log.run(work.discard, lambda _, __: None)
        self._done(None if error is None else explain(error, f"compacting {self._log.folder}"))


def _tell_of(log: Log, met: DamageMet) -> None:
    for offset in met.doubtful:
        log.judge(met.segment, offset)
