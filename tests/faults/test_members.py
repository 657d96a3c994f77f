"""A crowd in one group, on a real node: members join, leave, pause and die without a word, at random.

Each speaks the protocol over a connection of its own. What must hold, in words:
- a partition has at most one owner in a generation;
- an acknowledged position never moves back, whoever owns the partition next;
- when nobody comes or goes any more, the group settles within its timeouts: everybody is in it, in one generation,
  every partition has its owner, and it stays like that.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.testing.group_member import Promises
from headrace.testing.served import ServedBroker
from headrace.wire.kafka import header
from headrace.wire.kafka.errors import Code
from tests.doors.asking import Asker
from tests.groups.asking import GROUP, beat, join, leave, ms, only
from tests.growth.test_size import stood_in_line_s
from tests.support import Wire, assert_no_fault

TOPIC = "shared"
SESSION_S, REBALANCE_S, BEAT_S = 2.0, 4.0, 0.4
# The last death is noticed, then all join, then all are told; and once more, for one who came in between.
SETTLE_S = SESSION_S + 2 * 2 * REBALANCE_S
# Who beats every BEAT_S is out when it, or the node, had to wait for a processor for so long: not the group's fault.
MISSED_S = SESSION_S - 2 * BEAT_S
TRIES = 3
LONGEST_PAUSE_S = 3 * SESSION_S  # some are out when they wake up
JOIN_VERSIONS = (3, 5, 9)  # one that is let in at once, one that asks twice, and the newest
OUT = {Code.UNKNOWN_MEMBER_ID, Code.FENCED_INSTANCE_ID}  # it is a member no more, and joins as a new one
BEHIND = {Code.REBALANCE_IN_PROGRESS, Code.ILLEGAL_GENERATION, Code.MEMBER_ID_REQUIRED}  # it joins again


class Again(Exception):
    """The broker says: join again."""


class Member:
    def __init__(self, number: int, crowd: Crowd) -> None:
        self.crowd = crowd
        self.instance = f"static-{number}" if number % 5 == 0 else None
        self.version = 5 if self.instance else JOIN_VERSIONS[number % len(JOIN_VERSIONS)]
        self.id, self.generation = "", -1
        self.places: dict[int, int] | None = None  # None: it has not been told yet
        self.pause_s = 0.0
        self.is_away = False  # it pauses, or has not been heard of since
        self.life: asyncio.Task[None] | None = None

    def begin(self) -> None:
        self.id, self.generation, self.pause_s, self.is_away = "", -1, 0.0, False
        self.life = asyncio.create_task(self._live())

    async def end(self, *, leaves: bool) -> None:
        """Whatever it is doing: its connection is gone, in the middle of a request or of an answer."""
        assert self.life is not None
        self.life.cancel()
        await asyncio.wait([self.life])
        if not self.life.cancelled():
            self.life.result()
        self.life, self.places = None, None
        if leaves and self.id and self.instance is None:
            asker = await self.crowd.connect()
            await leave(asker, self.id)
            asker.writer.close()

    async def _live(self) -> None:
        asker = await self.crowd.connect()
        try:
            while True:
                try:
                    await self._join(asker)
                    await self._work(asker)
                except Again:
                    self.places = None
        finally:
            asker.writer.transport.abort()

    async def _join(self, asker: Asker) -> None:
        more = {"session_timeout": ms(int(SESSION_S * 1000)), "rebalance_timeout": ms(int(REBALANCE_S * 1000))}
        more |= only(self.version, 5, group_instance_id=self.instance)
        joined = await join(asker, self.version, self.id, **more)
        if joined.error_code == Code.MEMBER_ID_REQUIRED:
            self.id = joined.member_id
        self._check(joined)
        self.id, self.generation = joined.member_id, joined.generation_id
        leads = joined.leader == self.id and not getattr(joined, "skip_assignment", False)
        given = self.crowd.share([one.member_id for one in joined.members]) if leads else {}
        fields = {
            "group_id": GROUP,
            "generation_id": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "assignments": [{"member_id": who, "assignment": what} for who, what in given.items()],
        }
        synced = await asker.ask_by_schema(header.SYNC_GROUP, 3, fields)
        self._check(synced)
        partitions: list[int] = json.loads(synced.assignment or b"[]")
        self.crowd.owned(self.generation, partitions, self.instance or self.id)
        self.places = await self.crowd.positions(asker, partitions)

    async def _work(self, asker: Asker) -> None:
        assert self.places is not None
        while True:
            pause_s, self.pause_s = self.pause_s, 0.0
            await asyncio.sleep(self.crowd.chance.uniform(BEAT_S / 2, BEAT_S) + pause_s)
            if self.places:
                await self._commit(asker, {p: at + self.crowd.chance.randint(0, 10) for p, at in self.places.items()})
            code = await beat(asker, self.id, self.generation)
            self.is_away = self.pause_s > 0
            self._check_code(code)

    async def _commit(self, asker: Asker, places: dict[int, int]) -> None:
        partitions = [
            {"partition_index": n, "committed_offset": at, "committed_metadata": "", "committed_leader_epoch": -1}
            for n, at in places.items()
        ]
        fields = {
            "group_id": GROUP,
            "generation_id_or_member_epoch": self.generation,
            "member_id": self.id,
            "group_instance_id": self.instance,
            "topics": [{"name": TOPIC, "partitions": partitions}],
        }
        answer = await asker.ask_by_schema(header.OFFSET_COMMIT, 7, fields)
        for one in answer.topics[0].partitions:
            self._check(one)
            self.crowd.promises.committed(one.partition_index, places[one.partition_index])
        self.places = places
        self.crowd.seen["commit"] += 1

    def _check(self, answer: Any) -> None:
        self._check_code(int(answer.error_code))

    def _check_code(self, code: int) -> None:
        if code in OUT:
            self.crowd.seen["out"] += 1
            self.id, self.is_away = "", self.pause_s > 0
        if code:
            assert code in OUT | BEHIND, f"a member was refused: {Code(code).name}"
            raise Again


class Crowd:
    def __init__(self, address: str, size: int, partitions: int, seed: int) -> None:
        self.chance, self.promises = random.Random(seed), Promises()
        self.partitions, self.generation = partitions, 0
        self.seen: Counter[str] = Counter()
        self.members = [Member(number, self) for number in range(size)]
        self._host, _, self._port = address.rpartition(":")

    async def connect(self) -> Asker:
        reader, writer = await asyncio.open_connection(self._host, int(self._port))
        return Asker(None, reader, writer)  # type: ignore[arg-type]  # the node is in another process

    def share(self, members: list[str]) -> dict[str, bytes]:
        self.chance.shuffle(members)
        count = len(members)
        return {who: json.dumps(list(range(n, self.partitions, count))).encode() for n, who in enumerate(members)}

    def owned(self, generation: int, partitions: list[int], who: str) -> None:
        self.promises.owned(generation, partitions, who)
        self.generation = max(self.generation, generation)

    async def positions(self, asker: Asker, partitions: list[int]) -> dict[int, int]:
        asked = [{"name": TOPIC, "partition_indexes": partitions}]
        fields = {"group_id": GROUP, "topics": asked, "require_stable": False}
        before = dict(self.promises.acknowledged)
        answer = await asker.ask_by_schema(header.OFFSET_FETCH, 7, fields)
        found = {one.partition_index: max(0, one.committed_offset) for one in answer.topics[0].partitions}
        for partition, at in found.items():
            assert at >= before.get(partition, 0), f"partition {partition} is at {at}; {before[partition]} was promised"
        return found

    async def come_and_go(self, seconds: float) -> None:
        """A few at once, so that deaths fall into rebalances that others began."""
        ends_at = asyncio.get_running_loop().time() + seconds
        while asyncio.get_running_loop().time() < ends_at:
            await asyncio.sleep(self.chance.uniform(0, 2.5))
            for member in self.chance.sample(self.members, self.chance.randint(1, max(2, len(self.members) // 10))):
                await self._strike(member)
        for member in self.members:
            if member.life is None:
                member.begin()

    async def _strike(self, member: Member) -> None:
        kind = self.chance.choice(("leave", "die", "die", "pause")) if member.life is not None else "join"
        self.seen[kind] += 1
        if kind == "join":
            member.begin()
        elif kind == "pause":
            member.pause_s, member.is_away = self.chance.uniform(0, LONGEST_PAUSE_S), True
        else:
            await member.end(leaves=kind == "leave")

    async def awake(self) -> None:
        """Who pauses still looks like a member that is content, until its session is over."""
        while any(member.is_away for member in self.members):
            await asyncio.sleep(0.05)
            self.check_lives()

    @property
    def is_settled(self) -> bool:
        told = [member for member in self.members if member.places is not None]
        owned = sorted(place for member in told for place in member.places or ())
        in_one = {member.generation for member in self.members} == {self.generation}
        return len(told) == len(self.members) and in_one and owned == list(range(self.partitions))

    async def settle(self, within_s: float) -> float:
        """How long it took until all were in one generation that owns every partition, once."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        while not self.is_settled:
            generations = Counter(member.generation for member in self.members)
            assert loop.time() < began + within_s, (
                f"not settled after {within_s} s; members by generation: {generations}"
            )
            await asyncio.sleep(0.05)
            self.check_lives()
        return loop.time() - began

    def check_lives(self) -> None:
        for member in self.members:
            if member.life is not None and member.life.done():
                member.life.result()


async def live_together(folder: Path, *, size: int, partitions: int, seconds: float, seed: int) -> Crowd:
    with ServedBroker(folder, "--group-min-session-ms", "1000") as broker:
        with Wire(broker.address) as wire:
            wire.create_topic(TOPIC, partitions)
        crowd = Crowd(broker.address, size, partitions, seed)
        for member in crowd.members:
            member.begin()
        try:
            await crowd.come_and_go(seconds)
            async with asyncio.timeout(2 * LONGEST_PAUSE_S + SETTLE_S):
                await crowd.awake()
            took_s = await settled_for_good(crowd, broker)
        finally:
            for member in crowd.members:
                if member.life is not None:
                    await member.end(leaves=False)
        asker = await crowd.connect()
        await crowd.positions(asker, list(range(partitions)))
        asker.writer.close()
        print(f"{size} members: {crowd.generation} generations, settled in {took_s:.1f} s, {dict(crowd.seen)}")
    assert_no_fault(broker)
    return crowd


async def settled_for_good(crowd: Crowd, broker: ServedBroker) -> float:
    """How long it took. One whose members or node were kept from working may settle once more."""
    for left in reversed(range(TRIES)):
        took_s = await crowd.settle(SETTLE_S)
        settled, waited_s = crowd.generation, waited_for_processors_s(broker)
        await asyncio.sleep(2 * SESSION_S)
        if crowd.is_settled and crowd.generation == settled:
            break
        is_excused = left > 0 and waited_for_processors_s(broker) - waited_s > MISSED_S
        assert is_excused, "it did not stay settled"
    return took_s


def waited_for_processors_s(broker: ServedBroker) -> float:
    return stood_in_line_s(broker.pid) + stood_in_line_s(os.getpid())


@pytest.mark.timeout(300)
async def test_sixty_members_come_and_go_and_share_without_a_quarrel(tmp_path: Path) -> None:
    crowd = await live_together(tmp_path, size=60, partitions=90, seconds=20, seed=60)
    assert crowd.generation >= 5 and min(crowd.seen[kind] for kind in ("join", "leave", "die", "pause", "out")) > 0
    assert crowd.seen["commit"] > 300, "there was hardly any work"


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_two_hundred_members_come_and_go_and_share_without_a_quarrel(tmp_path: Path) -> None:
    crowd = await live_together(tmp_path, size=200, partitions=240, seconds=180, seed=200)
    assert crowd.generation >= 20 and min(crowd.seen[kind] for kind in ("join", "leave", "die", "pause", "out")) > 5
