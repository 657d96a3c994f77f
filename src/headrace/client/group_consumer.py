"""A consumer of a group: the group gives it partitions, takes them away again, and remembers where it stands.

The program and the group. Partitions change hands only while the program is here, waiting for records, or has none in
its hands: so what it is busy with is still its own, and it can commit it. A program that stays away for longer than
`handling_timeout` is given up by its group; then what it has is lost, and a commit of it is refused.

In the program's hands (`handed`) is what the last `take`, or step of an iteration, gave out. It has come back for it
(`done`) with the next one, or with `commit`. An automatic commit is of that, and of nothing more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from headrace.client.group_reader import GroupReader
from headrace.client.group_values import Committed
from headrace.client.member import State
from headrace.client.member_events import Begin, Grown, Hung, Wish
from headrace.client.values import Record, TopicPartition
from headrace.errors import HeadraceError, UnknownTopic

WATCH_S: Final = 1.0  # how often it is looked whether the program hangs
CLOSE_LIMIT_S: Final = 5.0  # for the last commit, when nobody answers


class GroupConsumer(GroupReader):
    """Made by `client.consumer(..., group="name")`; use it with `async with`, or `start` and `close` it."""

    async def _start(self) -> None:
        """Finds the topics and begins to join; partitions come later, `take` waits for them."""
        if not (self._topics or self._patterns):
            raise UnknownTopic("nothing to read: name a topic, or give a pattern")
        self._attendance.member.topics = await self._look()
        self._attendance.post(Begin())
        loop = asyncio.get_running_loop()
        chores = [self._watch(), self._look_often()]
        if self._group_options.auto_commit:
            chores.append(self._commit_often())
        self._tasks = [loop.create_task(chore) for chore in chores]

    async def close(self) -> None:
        """Commits what the program has come back for, where that is automatic, and leaves the group."""
        if self._is_closed or self.is_closing:
            return
        self.is_closing = True
        for task in (*self._tasks, *([self._working] if self._working else [])):
            task.cancel()
        self._works.clear()  # nobody does them any more
        try:
            if self._readings and self._failure is None:
                async with asyncio.timeout(CLOSE_LIMIT_S):
                    await self._commit_quietly(self.assignment)
                async with asyncio.timeout(self._group_options.handling_timeout):
                    await self._call(self._group_options.on_revoked, self.assignment)
        except TimeoutError:
            pass
        finally:
            await self._attendance.leave()
            self._positions.close()
            await super().close()

    def forked(self) -> None:
        super().forked()
        self.is_closing = True

    # Records

    async def __anext__(self) -> Record:
        self._come_back()
        if self.is_wanted or self._at >= len(self._records):
            self._here += 1
            try:
                await self.attend()
                record = await super().__anext__()
            finally:
                self._here -= 1
        else:
            record = self._records[self._at]
            self._at += 1
        self.handed = [record]
        if self._stale:
            self._stale.clear()  # what was given up while it waited says nothing of what it got
        return record

    async def take(self, max_records: int = 500, timeout: float | None = 1.0) -> list[Record]:  # noqa: ASYNC109
        self._come_back()
        self._here += 1
        loop = asyncio.get_running_loop()
        deadline = None if timeout is None else loop.time() + timeout
        try:
            try:
                async with asyncio.timeout_at(deadline):
                    await self.attend()
            except TimeoutError:
                return []
            left = None if deadline is None else max(0.0, deadline - loop.time())
            self.hand(await super().take(max_records, left))
            return list(self.handed)
        finally:
            self._here -= 1

    async def settle(self) -> list[Record]:
        """For who hands out by itself what it took: does the group's work, and gives what of it is still ours. The
        program has come back for the first `done` of them."""
        self._visits += 1
        self._here += 1
        try:
            await self.attend()
        finally:
            self._here -= 1
        self.hand([one for one in self.handed[self.done :] if TopicPartition(*one[:2]) not in self._stale])
        return list(self.handed)

    @property
    def is_done(self) -> bool:
        return self._is_started and not self._is_left() and self._is_over()

    async def assign(self, where: object) -> None:
        raise ValueError("a group gives out partitions by itself; a consumer without a group can be assigned some")

    # Positions

    async def commit(self, to: Mapping[tuple[str, int], int | Committed] | None = None) -> None:
        """All that was handed out, or the given positions: offsets of the next records to be read.

        Waits for the coordinator. IllegalGeneration: the group went on without this member, and others read again what
        it has read.
        """
        if to is None:
            await self.commit_done(len(self.handed))
        else:
            given = {where: at if isinstance(at, Committed) else Committed(at) for where, at in to.items()}
            await self._commit({TopicPartition(*where): at for where, at in given.items()})

    async def commit_done(self, done: int) -> None:
        """The first so many of what was handed out."""
        self.done = done
        await self._commit(self.standing())

    async def rewind(self) -> None:
        """Back to where the group stands: what was handed out and not committed is read again."""
        mine = self.assignment
        begins = await self._begins(mine)
        self._drop_records()
        self._come_back()
        for where, at in begins.items():
            reading = self._readings.get(where)
            if reading is not None:
                reading.move(at.offset)
                reading.fetch_epoch = at.leader_epoch
                self._fetcher.bind(reading)
        self._fetcher.wake()

    # Chores

    async def _watch(self) -> None:
        loop, limit_s = asyncio.get_running_loop(), self._group_options.handling_timeout
        seen, since = (-1, -1), loop.time()
        while True:
            await asyncio.sleep(min(WATCH_S, limit_s / 4))
            now = self._visits, self.done
            if self._here or now != seen:
                seen, since = now, loop.time()
            elif loop.time() - since > limit_s:
                self._attendance.post(Hung())

    async def _commit_often(self) -> None:
        while True:
            await asyncio.sleep(self._group_options.commit_interval)
            if self._attendance.member.state in (State.STABLE, State.REVOKING):
                await self._commit_quietly(self.assignment)

    async def _look_often(self) -> None:
        """For new topics of a pattern, and for new partitions."""
        while True:
            await asyncio.sleep(self._group_options.look_interval)
            try:
                topics = await self._look(again=True)
            except HeadraceError:
                continue  # nobody could be asked, or a topic is gone: later
            self._attendance.post(Wish(topics))
            known = {topic: self._asking.metadata.known(topic) for topic in topics}
            self._attendance.post(Grown({name: len(one.partitions) for name, one in known.items() if one is not None}))

    async def _look(self, *, again: bool = False) -> tuple[str, ...]:
        metadata = self._asking.metadata
        found = set(self._topics)
        if self._patterns:
            every = [topic.name for topic in await metadata.all() if not topic.internal]
            found |= {name for name in every if any(pattern.fullmatch(name) for pattern in self._patterns)}
        if again:
            await metadata.refresh(found)
        for name in found:
            await metadata.topic(name)  # raises when there is none
        return tuple(sorted(found))
