"""How a record's attempt ends: acknowledged, rejected, released, or by silence; and what becomes of it then.

A record that is given up is settled when it is safe in the dead-letter topic, not before; without one it is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from headrace.broker.queues.events import Buried, Bury, Drop, Held, Place, Tell, Who
from headrace.broker.queues.keeping import Keeping
from headrace.broker.queues.settings import RETRY_S
from headrace.broker.queues.window import Asked, Entry, State, Window

RELEASED = "released"


class Settling(Keeping):
    def _settle_each(
        self, number: int, places: Sequence[Place], who: Who | None, settle: Callable[[Window, Entry], None]
    ) -> None:
        held = 0
        changed: dict[int, Window] = {}
        for partition, offset in places:
            window = self.windows.get(partition)
            entry = None if window is None else window.held(offset, number)
            if window is not None and entry is not None:
                held += 1
                settle(window, entry)
                changed[partition] = window
        self._effects.append(Held(held))
        self._answer(changed, who)

    def _answer(self, changed: dict[int, Window], who: Who | None) -> None:
        """All that changed is to be kept; `who` is told when it is."""
        asked = None if who is None else Asked(who, len(changed))
        for window in changed.values():
            self._changed(window, asked)
        if who is not None and not changed:
            self._effects.append(Tell(who, None))

    def _acknowledge(self, window: Window, entry: Entry) -> None:
        self._let_go(entry)
        window.remove(entry.record.offset)
        self.counts.acknowledged += 1

    def _reject(self, window: Window, entry: Entry, reason: str) -> None:
        self.counts.rejected += 1
        self._let_go(entry)
        self._give_up(window, entry, reason)

    def _release(self, number: int, places: Sequence[Place], who: Who | None) -> None:
        found: dict[int, list[Entry]] = {}
        for partition, offset in dict.fromkeys(places):  # each once, whatever it says
            window = self.windows.get(partition)
            entry = None if window is None else window.held(offset, number)
            if entry is not None:
                found.setdefault(partition, []).append(entry)
        self._effects.append(Held(sum(map(len, found.values()))))
        for partition, entries in found.items():
            self.counts.released += len(entries)
            self._failed(self.windows[partition], entries, RELEASED)
        self._answer({partition: self.windows[partition] for partition in found}, who)

    def _renew(self, number: int, places: Sequence[Place]) -> None:
        held = 0
        for partition, offset in places:
            window = self.windows.get(partition)
            entry = None if window is None else window.held(offset, number)
            if window is not None and entry is not None:
                held += 1
                window.renew(entry, self._now)
        self._effects.append(Held(held))

    def _let_go(self, entry: Entry) -> None:
        member = self.members.by_number.get(entry.member)
        if member is not None:
            member.held -= 1
            member.bytes -= entry.size

    def _failed(self, window: Window, entries: Sequence[Entry], reason: str, at_once: bool = False) -> None:
        """An attempt that came to nothing: there is another, unless that was the last."""
        again = []
        for entry in entries:
            self._let_go(entry)
            if self._is_last(entry):
                self._give_up(window, entry, reason)
            elif at_once or not (delay_s := self.policy.delay_s(entry.attempts)):
                again.append(entry)
            else:
                window.put_aside(entry, State.WAITING, self._now + delay_s)
        window.put_back(again)
        if entries:
            self._changed(window)

    def _is_last(self, entry: Entry) -> bool:
        return 0 < self.policy.max_attempts <= entry.attempts

    def _give_up(self, window: Window, entry: Entry, reason: str) -> None:
        if self.policy.has_dead_letter:
            entry.reason = reason
            window.put_aside(entry, State.DYING, inf)
            self._effects.append(Bury(window.partition, entry.record, entry.attempts, reason))
        else:
            self.counts.dropped += 1
            window.remove(entry.record.offset)
            self._effects.append(Drop(window.partition, entry.record.offset, entry.attempts, reason))
            self._changed(window)

    def _buried(self, event: Buried) -> None:
        window = self.windows[event.partition]
        entry = window.entries.get(event.offset)
        if entry is None or entry.state is not State.DYING:
            return
        if event.error is None:
            self.counts.dead += 1
            window.remove(event.offset)
            self._changed(window)
        else:
            window.put_aside(entry, State.DYING, self._now + RETRY_S)

    def _reopen(self, places: Sequence[Place], who: Who | None) -> None:
        changed: dict[int, Window] = {}
        count = 0
        for partition, offset in places:
            window = self.windows.get(partition)
            if window is not None and window.reopen(offset):
                changed[partition] = window
                count += 1
        self._effects.append(Held(count))
        for window in changed.values():
            window.sort()
            window.is_at_end = False
        self._answer(changed, who)
