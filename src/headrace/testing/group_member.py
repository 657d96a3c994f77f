"""A group member in the simulator: joins, leads if it has to, reads its partitions, commits, and now and then dies,
leaves or does not hear. What it is told is checked on the spot against what all members were told before.

Members are eager or, all of a run, cooperative: those hold on to their partitions while the group rebalances, say in
their metadata what they hold and since which generation, and who has to give something up joins once more when it has.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.broker.groups.coordinator import Groups
from headrace.broker.groups.events import Join, Joined, JoinedMember, Leaver, Protocols, Sync, Synced
from headrace.broker.groups.positions import Position
from headrace.errors import (
    FencedMember,
    HeadraceError,
    IllegalGeneration,
    MemberIdRequired,
    RebalanceInProgress,
    UnknownMember,
)
from headrace.testing.history import Violation

if TYPE_CHECKING:
    from headrace.testing.group_simulation import GroupSimulation

GROUP, TOPIC = "group", "simulated"
REQUEST_S = 3.0  # how long a client waits for an answer; for a join, its rebalance timeout longer
Give = Callable[[Any], None]


class Lost(Exception):
    """The request or its answer was, or the node was down."""


class Promises:
    """What was promised to all members together."""

    def __init__(self) -> None:
        self.owners: dict[tuple[int, int], str] = {}  # by generation and partition
        self.acknowledged: dict[int, int] = {}  # the furthest position of each partition

    def owned(self, generation: int, partitions: list[int], who: str) -> None:
        for partition in partitions:
            owner = self.owners.setdefault((generation, partition), who)
            if owner != who:
                raise Violation(f"partition {partition} has two owners in generation {generation}: {owner} and {who}")

    def committed(self, partition: int, offset: int) -> None:
        if offset < self.acknowledged.get(partition, 0):
            raise Violation(f"partition {partition} moved back from {self.acknowledged[partition]} to {offset}")
        self.acknowledged[partition] = offset

    def found(self, partition: int, offset: int) -> None:
        if offset < self.acknowledged.get(partition, 0):
            raise Violation(f"partition {partition} is at {offset}; {self.acknowledged[partition]} was acknowledged")


class GroupMember:
    def __init__(self, name: str, simulation: GroupSimulation, chance: random.Random) -> None:
        self.name, self._simulation, self._chance = name, simulation, chance
        self._instance = f"static-{name}" if chance.random() < 0.3 else None
        self._asks_twice = chance.random() < 0.7
        self._session_s, self._rebalance_s = chance.uniform(2, 6), chance.uniform(5, 15)
        self._lives = 0
        self._held: dict[int, int] = {}  # partitions, and how far each was read
        self._held_since = -1  # generation
        self.is_alive = False

    @property
    def _is_cooperative(self) -> bool:
        return self._simulation.options.is_cooperative

    async def run(self) -> None:
        """Lives, until the simulation says that it is over; then stays, alive."""
        simulation = self._simulation
        while not simulation.is_settled:
            await simulation.sleep(self._chance.uniform(0, 5))
            self.is_alive = True
            self._lives += 1
            self._id, self._generation = "", -1
            self._held, self._held_since = {}, -1
            ends_at = simulation.now + self._chance.expovariate(1 / 15)
            while not simulation.is_settled and (simulation.is_calm or simulation.now < ends_at):
                try:
                    await self._live_on(ends_at)
                except (Lost, RebalanceInProgress, MemberIdRequired):
                    continue
                except (UnknownMember, FencedMember, IllegalGeneration) as error:
                    self._held, self._held_since = {}, -1  # others may have them by now
                    if not isinstance(error, IllegalGeneration):
                        self._id = ""
                except HeadraceError:
                    await simulation.sleep(0.2)
            await self._end()

    async def _end(self) -> None:
        """Leaves, or dies without a word."""
        self.is_alive = False
        if self._id and self._chance.random() < 0.5:
            leaver = Leaver(self._id, self._instance)
            try:
                await self._ask(lambda groups, give: give(groups.leave(GROUP, [leaver])))
            except (Lost, HeadraceError):
                return

    async def _live_on(self, ends_at: float) -> None:
        simulation = self._simulation
        partitions = await self._join()
        kept = self._held.keys() & set(partitions) if self._is_cooperative else set[int]()
        gave_up = self._is_cooperative and len(kept) < len(self._held)
        self._held = {partition: self._held[partition] for partition in sorted(kept)}
        self._held_since = self._generation
        for partition in partitions:
            if partition not in kept:
                position = await self._position(partition)
                simulation.promises.found(partition, position)
                self._held[partition] = position
        if gave_up:
            return  # and joins again, so that somebody else gets it
        while not simulation.is_settled and (simulation.is_calm or simulation.now < ends_at):
            await simulation.sleep(self._chance.uniform(0.1, self._session_s / 3))
            if self._chance.random() < 0.02 and not simulation.is_calm:
                await simulation.sleep(self._chance.uniform(0, 10))  # a pause, and it may be out
            await self._read_on()
            try:
                await self._ask(self._beat)
            except RebalanceInProgress:
                if self._is_cooperative:
                    await self._read_on()  # while others join
                raise

    async def _read_on(self) -> None:
        for partition in self._held:
            if self._chance.random() < 0.5:
                self._held[partition] += self._chance.randint(0, 10)
                await self._commit(partition, self._held[partition])

    async def _join(self) -> list[int]:
        client = f"{self.name}.{self._lives}"

        def join(groups: Groups, give: Give) -> None:
            event = Join(
                give,
                self._id,
                groups.new_member_id(client),
                "consumer",
                self._protocols(),
                int(self._session_s * 1000),
                int(self._rebalance_s * 1000),
                self._instance,
                asks_twice=self._asks_twice,
            )
            groups.join(GROUP, event)

        joined: Joined = await self._ask(join, self._rebalance_s + REQUEST_S)
        if isinstance(joined.error, MemberIdRequired):
            self._id = joined.member_id
        if joined.error is not None:
            raise joined.error
        self._id, self._generation = joined.member_id, joined.generation
        leads = self._id == joined.leader and not joined.skip_assignment
        given = {}
        if leads and self._is_cooperative:
            given = cooperative_assignments(joined.members, self._simulation.options.partitions)
        elif leads:
            given = self._assignments([one.member_id for one in joined.members])
        synced: Synced = await self._ask(
            lambda groups, give: groups.sync(GROUP, Sync(give, self._id, self._generation, given, self._instance)),
            self._rebalance_s + REQUEST_S,
        )
        if synced.error is not None:
            raise synced.error
        partitions: list[int] = json.loads(synced.assignment or b"[]")
        self._simulation.promises.owned(self._generation, partitions, self._instance or self._id)
        return partitions

    def _protocols(self) -> Protocols:
        if not self._is_cooperative:
            return (("range", b""),)
        return (("cooperative", json.dumps([self._held_since, sorted(self._held)]).encode()),)

    def _assignments(self, members: list[str]) -> dict[str, bytes]:
        order = sorted(members)
        self._chance.shuffle(order)
        count = self._simulation.options.partitions
        return {one: json.dumps(list(range(place, count, len(order)))).encode() for place, one in enumerate(order)}

    async def _position(self, partition: int) -> int:
        def find(groups: Groups, give: Give) -> None:
            give(_position(groups, partition))

        found: int = await self._ask(find)
        return found

    def _beat(self, groups: Groups, give: Give) -> None:
        give(groups.heartbeat(GROUP, self._id, self._generation, self._instance))

    async def _commit(self, partition: int, offset: int) -> None:
        commits = [(TOPIC, partition, Position(offset))]

        def commit(groups: Groups, give: Give) -> None:
            groups.commit(GROUP, self._id, self._instance, self._generation, commits, give)

        await self._ask(commit, REQUEST_S, lambda: self._simulation.promises.committed(partition, offset))

    async def _ask(self, call: Callable[[Groups, Give], None], timeout_s: float = REQUEST_S, heard: Any = None) -> Any:
        """Asks; an error for an answer is raised."""
        answer = await self._simulation.ask(self.name, call, timeout_s, heard)
        if isinstance(answer, HeadraceError):
            raise answer
        return answer


def cooperative_assignments(members: Sequence[JoinedMember], partitions: int) -> dict[str, bytes]:
    """Everybody keeps what it holds, up to its share; what is held by nobody fills up the others. What goes from one
    to another is given to nobody yet."""
    holders: dict[int, tuple[int, str]] = {}
    for member in members:
        since, held = json.loads(member.metadata)
        for partition in held:
            holders[partition] = max(holders.get(partition, (-1, "")), (since, member.member_id))
    owned: dict[str, list[int]] = {member.member_id: [] for member in members}
    for partition, (_, member_id) in sorted(holders.items()):
        owned[member_id].append(partition)
    share, rest = divmod(partitions, len(members))
    free = [partition for partition in range(partitions) if partition not in holders]
    given: dict[str, bytes] = {}
    for place, member_id in enumerate(sorted(owned, key=lambda one: (-len(owned[one]), one))):
        most = share + (place < rest)
        mine = owned[member_id][:most]
        mine += [free.pop() for _ in range(min(most - len(mine), len(free)))]
        given[member_id] = json.dumps(mine).encode()
    return given


def _position(groups: Groups, partition: int) -> int:
    hosted = groups.find(GROUP)
    position = None if hosted is None else hosted.positions.get(TOPIC, partition)
    return 0 if position is None else position.offset
