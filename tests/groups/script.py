"""Scenarios of a group as text: what is done, and under it what the group says.

    > join a                      a new member, id a (asks twice unless `old` is said); `as NAME`: static
    > sync a 1 a=p0,p1 b=p2       at generation 1, with an assignment if it leads
    > beat a 1
    > leave a b                   `leave - as NAME`: an administrator, by instance
    > commit a 1                  may it commit? `commit - -1`: nobody's
    > saved                       what was to be written is synced; `lost`: it is not
    > time 30                     so many seconds later
    > state

Options of join: `session=10 rebalance=60 protocols=range,sticky old`. Each line of the answer is an effect, in order.
"""

from __future__ import annotations

from headrace.broker.groups.events import (
    Beaten,
    Effect,
    Event,
    Heartbeat,
    Join,
    Joined,
    Leave,
    Leaver,
    Left,
    Save,
    Saved,
    Sync,
    Synced,
    Tell,
    Tick,
)
from headrace.broker.groups.group import Group
from headrace.broker.groups.settings import GroupSettings
from headrace.errors import HeadraceError

NOBODY = "-"


class Script:
    def __init__(self, settings: GroupSettings | None = None) -> None:
        self.group = Group("g", settings or GroupSettings())
        self.now = 0.0
        self._saves: list[int] = []

    def run(self, text: str) -> str:
        """The commands of the text with what is said to each: equal to the text, if it tells the truth."""
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
            case ["time", seconds]:
                self.now += float(seconds)
                return self._step(Tick())
            case ["saved" | "lost" as what]:
                ticket = self._saves.pop(0)
                return self._step(Saved(ticket, HeadraceError("no disk") if what == "lost" else None))
            case ["state"]:
                group = self.group
                words = [group.state.value, "generation", str(group.generation), "leader", f"{group.roster.leader}:"]
                return [" ".join(words + [member.id for member in group.roster])]
            case ["commit", member, generation]:
                error = self.group.check_commit(self.now, _id(member), None, int(generation))
                return ["ok" if error is None else type(error).__name__]
            case ["join", member, *options]:
                return self._step(_join(member, options))
            case ["sync", member, generation, *given]:
                assignments = {name: value.encode() for name, _, value in (one.partition("=") for one in given)}
                return self._step(Sync(member, member, int(generation), assignments))
            case ["beat", member, generation]:
                return self._step(Heartbeat(member, member, int(generation)))
            case ["leave", "-", "as", instance]:
                return self._step(Leave("admin", [Leaver("", instance)]))
            case ["leave", *members]:
                return self._step(Leave(members[0], [Leaver(member) for member in members]))
        raise ValueError(f"what is {words}?")

    def _step(self, event: Event) -> list[str]:
        return [self._said(effect) for effect in self.group.step(self.now, event)]

    def _said(self, effect: Effect) -> str:
        match effect:
            case Save(ticket, snapshot):
                self._saves.append(ticket)
                members = " ".join(f"{m.member_id}={m.assignment.decode()}" for m in snapshot.members)
                return f"save generation {snapshot.generation}: {members}".rstrip(": ")
            case Tell(who, Joined(None) as joined):
                others = ",".join(m.member_id for m in joined.members)
                leads = f" leads {others}" if others else f" follows {joined.leader}"
                skips = " skip" if joined.skip_assignment else ""
                return f"{who}: {joined.member_id} in generation {joined.generation} by {joined.protocol}{leads}{skips}"
            case Tell(who, Joined(error, member_id)):
                return f"{who}: {type(error).__name__} {member_id}".rstrip()
            case Tell(who, Synced(None, assignment)):
                return f"{who}: has {assignment.decode()}".rstrip()
            case Tell(who, Left(errors)):
                return f"{who}: left " + " ".join("ok" if error is None else type(error).__name__ for error in errors)
            case Tell(who, Synced(error) | Beaten(error)):
                return f"{who}: {'ok' if error is None else type(error).__name__}"
        raise AssertionError(effect)


def _id(member: str) -> str:
    return "" if member == NOBODY else member


def _join(member: str, options: list[str]) -> Join:
    """`join a`: member a with its id; `join a new`: without one."""
    given = dict(option.split("=") for option in options if "=" in option)
    flags = [option for option in options if "=" not in option]
    instance = flags[flags.index("as") + 1] if "as" in flags else None
    protocols = tuple((name, f"{member} by {name}".encode()) for name in given.get("protocols", "range").split(","))
    return Join(
        member,
        "" if "new" in flags or "old" in flags else member,
        member,
        given.get("type", "consumer"),
        protocols,
        int(given.get("session", "10")) * 1000,
        int(given.get("rebalance", "60")) * 1000,
        instance,
        asks_twice="old" not in flags and instance is None,
        may_skip="noskip" not in flags,
    )
