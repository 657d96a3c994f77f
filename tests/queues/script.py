"""Scenarios of a queue as text: what happens to it, and under each what it wants done.

    > join a 2                    a member that holds at most two records
    > leave a / full a / resume a
    > came 0..3                   what was read: offsets 0 to 3; `came 0,2 to 5`: 0 and 2, and nothing else before 5;
                                  `more 0..3`: and there is more behind
    > ack a 0 2                   and `release a 0`, `reject a 0 WHY`, `renew a 0`
    > save                        what is to be kept, is; `lost` instead: it cannot be
    > begin / kept / lost         the same in two steps
    > buried 1 / unburied 1       the dead-letter topic has it, or refuses it
    > trim 5 / cut 5              the log begins, or ends, there now
    > reopen 1 2
    > reach x 3                   x wants to know when what is before 3 has gone out
    > time 30                     so many seconds later
    > restart                     only what was kept is known
    > start                       the first offset that is not settled

Each line of the answer is an effect, in order; attempts stand behind offsets from the second on.
"""

from __future__ import annotations

from headrace.broker.queues.events import (
    Acknowledge,
    Buried,
    Bury,
    Came,
    Cut,
    Deliver,
    Drop,
    Effect,
    Event,
    Full,
    Held,
    Join,
    Leave,
    Lost,
    More,
    Reach,
    Read,
    Reject,
    Release,
    Renew,
    Reopen,
    Resume,
    Save,
    Saved,
    Snapshot,
    Tell,
    Tick,
    Trimmed,
)
from headrace.broker.queues.machine import Machine
from headrace.broker.queues.settings import Policy
from headrace.errors import StorageFailed
from headrace.records.record import Record

ROOM = 1 << 20


class Script:
    def __init__(self, policy: Policy, start: int = 0) -> None:
        self.policy, self.now = policy, 0.0
        self.kept = self._saving = Snapshot(start)
        self._names: dict[int, str] = {}
        self._open()

    def _open(self) -> None:
        self.machine = Machine(self.policy)
        self.machine.open(0, self.kept)

    def run(self, text: str) -> str:
        """The commands of the text with what is wanted at each: equal to the text, if it tells the truth."""
        lines: list[str] = []
        for line in text.strip().splitlines():
            line = line.strip()
            if line.startswith(">"):
                lines += [line, *self.do(line[1:].split())]
            elif not line or line.startswith("#"):
                lines.append(line)
        return "\n".join(lines)

    def do(self, words: list[str]) -> list[str]:
        match words:
            case ["restart"]:
                self._open()
                return []
            case ["start"]:
                return [str(self.machine.windows[0].start)]
            case ["begin"]:
                self._saving = self.machine.begin_save(0)
                return [_snapshot(self._saving)]
            case ["save"]:
                return [*self.do(["begin"]), *self.do(["kept"])]
            case ["kept"]:
                self.kept = self._saving
                return self.step(Saved(0))
            case ["lost"]:
                return self.step(Saved(0, StorageFailed("no room")))
            case ["time", seconds]:
                self.now += float(seconds)
                return self.step(Tick()) if self.machine.wake_at <= self.now else ["nothing is due"]
            case _:
                return self.step(self.event(words))

    def step(self, event: Event) -> list[str]:
        return [text for effect in self.machine.step(self.now, event) if (text := self.said(effect))]

    def event(self, words: list[str]) -> Event:
        verb, *rest = words
        match verb:
            case "join":
                number = len(self._names) + 1
                self._names[number] = rest[0]
                return Join(number, int(rest[1]) if rest[1:] else 100, ROOM)
            case "leave":
                return Leave(self._number(rest[0]))
            case "full":
                return Full(self._number(rest[0]))
            case "resume":
                return Resume(self._number(rest[0]))
            case "came" | "more":
                offsets = _offsets(rest[0])
                end = int(rest[2]) if rest[1:] else offsets[-1] + 1
                at = self.machine.windows[0].read_at
                return Came(0, at, [Record(value=b"v", offset=offset) for offset in offsets], end, verb == "came")
            case "again":
                return More(0)
            case "ack":
                return Acknowledge(self._number(rest[0]), _places(rest[1:]), rest[0])
            case "release":
                return Release(self._number(rest[0]), _places(rest[1:]), rest[0])
            case "reject":
                return Reject(self._number(rest[0]), _places(rest[1:2]), " ".join(rest[2:]), rest[0])
            case "renew":
                return Renew(self._number(rest[0]), _places(rest[1:]))
            case "reach":
                return Reach({0: int(rest[1])}, rest[0])
            case "reopen":
                return Reopen(_places(rest))
            case "buried":
                return Buried(0, int(rest[0]))
            case "unburied":
                return Buried(0, int(rest[0]), StorageFailed("no room"))
            case "trim":
                return Trimmed(0, int(rest[0]))
            case "cut":
                return Cut(0, int(rest[0]))
        raise ValueError(f"no command: {words}")

    def said(self, effect: Effect) -> str:
        match effect:
            case Deliver(member, deliveries):
                given = " ".join(_offset(one.record.offset, one.attempt) for one in deliveries)
                return f"{self._names[member]} gets {given}"
            case Read(_, offset, _):
                return f"reads from {offset}"
            case Save():
                return "is to be saved"
            case Bury(_, record, attempts, reason):
                return f"buries {record.offset} after {attempts}: {reason}"
            case Drop(_, offset, attempts, reason):
                return f"drops {offset} after {attempts}: {reason}"
            case Held(records):
                return f"held {records}"
            case Tell(who, error):
                return f"tells {who} {'ok' if error is None else 'no'}"
            case Lost(_, records):
                return f"lost {records}"

    def _number(self, name: str) -> int:
        return max(number for number, known in self._names.items() if known == name)


def _offsets(text: str) -> list[int]:
    if ".." in text:
        first, _, last = text.partition("..")
        return list(range(int(first), int(last) + 1))
    return [int(part) for part in text.split(",")]


def _places(words: list[str]) -> list[tuple[int, int]]:
    return [(0, offset) for word in words for offset in _offsets(word)]


def _offset(offset: int, attempt: int) -> str:
    return str(offset) if attempt == 1 else f"{offset}({attempt})"


def _snapshot(snapshot: Snapshot) -> str:
    pending = " ".join(f"{offset}({attempts})" for offset, attempts in snapshot.pending.items())
    return f"all before {snapshot.end} is settled" + (f", but {pending}" if pending else "")
