"""`headrace serve` with the steps of a commit that traps can be set at, and with faults that can be planted in its
ledger: `main(traps' folder)`. It stands on the machine of transactions, to which every step is an event.

- `no ledger`: which batches were committed is not heeded.
- `ledger first`, `ledger last`: it is not in one batch with the commit, but in another, before or behind it.
- `no refusal`: members that are not under way any more are left out of a commit, instead of refusing it.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from msgspec.structs import replace

from headrace.broker.transactions import coordinator
from headrace.broker.transactions.events import (
    Append,
    Appended,
    CommitBatch,
    Effect,
    Event,
    Ledger,
    Loaded,
    Marked,
    Tick,
)
from headrace.broker.transactions.machine import Machine
from headrace.broker.transactions.sink import Sinks
from headrace.broker.transactions.transaction import NONE, Place, State, Transaction
from headrace.cli.main import main as serve
from headrace.doors.kafka import sink as door
from headrace.doors.kafka.context import Context
from headrace.wire.kafka.sink import Action, SinkRequest, SinkResponse
from tests.spark.traps import ANSWER, FIRST_MARKER, LAST_MARKER, SENT, SYNCED, TIME, Traps

NO_LEDGER, LEDGER_FIRST, LEDGER_LAST, NO_REFUSAL = "no ledger", "ledger first", "ledger last", "no refusal"
LONG_MS = 3_600_000
MARKERS_LIMIT_S, COMPLETE_S = 10.0, 0.1


class MortalMachine(Machine):
    traps: ClassVar[Traps]
    unmarked: ClassVar[set[tuple[str, Place]]] = set()  # of the last commit

    def __init__(self, *settings: object) -> None:
        super().__init__(*settings)  # type: ignore[arg-type]
        self.sinks = MortalSinks(self)
        self._rest: Append | None = None  # of a commit that a fault has split
        self._is_first = False

    def step(self, now_ms: int, event: Event) -> list[Effect]:
        before: list[Effect] = []
        if isinstance(event, CommitBatch):
            if self.traps.reach(SENT) == TIME:
                before = super().step(now_ms + LONG_MS, Tick())
        elif isinstance(event, Appended):
            self._note_synced(event)
        elif isinstance(event, Loaded):
            self._note_prepared(event.transactions)
        elif isinstance(event, Marked) and (event.id, event.place) in self.unmarked:
            self.unmarked.discard((event.id, event.place))
            if self._is_first:
                self._is_first = False
                self.traps.reach(FIRST_MARKER)
            if not self.unmarked:
                self.traps.reach(LAST_MARKER)
        rest, self._rest = (self._rest, None) if isinstance(event, Appended) else (None, self._rest)
        effects = [self._planted(effect) for effect in super().step(now_ms, event)]
        return [*before, *effects, *([rest] if rest is not None else [])]

    def _note_synced(self, event: Appended) -> None:
        changed = [self.entries[name].change for name in event.ids]
        is_commit = self._note_prepared([one for one in changed if isinstance(one, Transaction)])
        if event.error is None and (is_commit or self._rest is not None):
            self.traps.reach(SYNCED)

    def _note_prepared(self, changed: Sequence[Transaction]) -> bool:
        """Whether something is being committed, whose markers follow."""
        committed = [one for one in changed if one.state is State.PREPARE_COMMIT]
        self.unmarked.update((one.id, place) for one in committed for place in one.partitions)
        self._is_first = self._is_first or bool(committed)
        return bool(committed)

    def _planted(self, effect: Effect) -> Effect:
        if not isinstance(effect, Append) or effect.ledger is None or not effect.states:
            return effect
        states, ledger = replace(effect, ledger=None), replace(effect, states=())
        fault = self.traps.fault()
        if fault == LEDGER_FIRST:
            self._rest = states
            return ledger
        if fault == LEDGER_LAST:
            self._rest = ledger
            return states
        return effect


class MortalSinks(Sinks):
    def ledger(self, query: str) -> Ledger:
        found = super().ledger(query)
        return replace(found, batch=NONE) if MortalMachine.traps.fault() == NO_LEDGER else found

    def _commit(self, now_ms: int, ask: CommitBatch) -> None:
        if MortalMachine.traps.fault() == NO_REFUSAL:
            under_way = {one.id for one in self._open_members(ask)}
            ask = replace(ask, members=tuple(member for member in ask.members if member[0] in under_way))
        super()._commit(now_ms, ask)


plain = door._asked


async def asked(request: SinkRequest, context: Context) -> SinkResponse:
    """The answer to a commit, when a trap is set at it, is held back until all that was promised is done."""
    answer = await plain(request, context)
    if request.action is Action.COMMIT and MortalMachine.traps.is_set(ANSWER):
        async with asyncio.timeout(MARKERS_LIMIT_S):
            while MortalMachine.unmarked:  # noqa: ASYNC110 (a machine has no events to wait for)
                await asyncio.sleep(0.005)
        await asyncio.sleep(COMPLETE_S)
        MortalMachine.traps.reach(ANSWER)
    return answer


def main(folder: str) -> None:
    MortalMachine.traps = Traps(Path(folder))
    coordinator.Machine = MortalMachine  # type: ignore[misc]
    door._asked = asked
    sys.exit(serve())
