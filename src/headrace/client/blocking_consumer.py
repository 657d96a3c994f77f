"""The sync face of consumers. Iteration takes whole batches, and hands them out without a word to the loop.

A member of a group tells the loop how far the program is by a plain number (`done`), and looks at a plain flag whether
the group wants something; its callbacks run in the program's own thread, while that waits for records.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, cast

from headrace.client import client as core
from headrace.client.callbacks import Callbacks
from headrace.client.closing import Closing
from headrace.client.consumer import Consumer as AsyncConsumer
from headrace.client.group_consumer import GroupConsumer as AsyncGroupConsumer
from headrace.client.group_options import Partitions
from headrace.client.group_values import Committed
from headrace.client.positions import Position
from headrace.client.values import Record, TopicPartition

if TYPE_CHECKING:
    from headrace.client.blocking import Client

T = TypeVar("T")

ITERATED_RECORDS: Final = 5000  # taken at once by `for record in consumer`
_CALLBACKS: Final = ("on_assigned", "on_revoked", "on_lost")


class Consumer(Closing):
    """`client.consumer(...)`, or `Consumer("host:9092", "topic", **options)` with a connection of its own."""

    _owned: Client | None = None

    def __new__(cls, *args: object, **options: object) -> Self:
        """With a group it is a member of it."""
        kind = GroupConsumer if cls is Consumer and options.get("group") is not None else cls
        return cast(Self, super().__new__(kind))

    def __init__(
        self, servers: str | Iterable[str], *topics: Any, client_id: str | None = None, **options: Any
    ) -> None:
        from headrace.client.blocking import connect

        client = connect(servers, client_id, options.pop("timeout", core.DEFAULT_TIMEOUT_S))
        try:
            self._begin(client, topics, options)
        except BaseException:
            client.close()
            raise
        self._owned = client

    @classmethod
    def _of(cls, client: Client, topics: Iterable[Any], options: dict[str, Any]) -> Self:
        consumer = cls.__new__(cls)
        consumer._begin(client, topics, options)
        return consumer

    def _begin(self, client: Client, topics: Iterable[Any], options: dict[str, Any]) -> None:
        self._client, self._portal = client, client._portal
        self._core: AsyncConsumer = self._portal.run(client._core.consumer, *topics, **options)
        self._taken: list[Record] = []
        self._at = 0
        if topics:
            self._call(self._core.start())

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Record:
        if self._at >= len(self._taken):
            self._taken, self._at = self._call(self._core.take(ITERATED_RECORDS, None)), 0
            if not self._taken:
                raise StopIteration
        self._at += 1
        return self._taken[self._at - 1]

    def take(self, max_records: int = 500, timeout: float | None = 1.0) -> list[Record]:
        """What is there, at most `max_records`; waits for the first. An empty list: none came in time."""
        if self._at < len(self._taken):
            taken = self._taken[self._at : self._at + max_records]
            self._at += len(taken)
            return taken
        return self._call(self._core.take(max_records, timeout))

    @property
    def is_done(self) -> bool:
        return self._at >= len(self._taken) and self._portal.run(lambda: self._core.is_done)

    @property
    def assignment(self) -> tuple[TopicPartition, ...]:
        return self._portal.run(lambda: self._core.assignment)

    def assign(
        self, where: Iterable[tuple[str, int]] | Mapping[TopicPartition, Position] | Mapping[tuple[str, int], Position]
    ) -> None:
        """Reads these partitions and no others."""
        self._taken, self._at = [], 0
        self._portal.call(self._core.assign(where))

    def seek(self, topic: str, partition: int, to: Position) -> None:
        self._drop(topic, partition)
        self._call(self._core.seek(topic, partition, to))

    def position(self, topic: str, partition: int) -> int:
        """The offset of the next record that will be handed out."""
        for record in self._taken[self._at :]:
            if record.topic == topic and record.partition == partition:
                return record.offset
        return self._portal.run(self._core.position, topic, partition)

    def pause(self, topic: str, partition: int) -> None:
        offset = self.position(topic, partition)
        self._drop(topic, partition)

        async def pause() -> None:
            self._core.pause(topic, partition)
            await self._core.seek(topic, partition, offset)

        self._portal.call(pause())

    def resume(self, topic: str, partition: int) -> None:
        self._portal.run(self._core.resume, topic, partition)

    def close(self) -> None:
        try:
            self._taken, self._at = [], 0
            if not self._portal.is_stopped:
                self._call(self._core.close())
        finally:
            if self._owned is not None:
                self._owned.close()

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._portal.call(work)

    def _drop(self, topic: str, partition: int) -> None:
        """What was taken of it and not handed out; what was handed out last stays, it is in the program's hands."""
        left, held = self._taken[self._at :], self._taken[max(0, self._at - 1) : self._at]
        self._taken = held + [one for one in left if (one.topic, one.partition) != (topic, partition)]
        self._at = len(held)


class GroupConsumer(Consumer):
    """`client.consumer(..., group="name")`, or `Consumer("host:9092", "topic", group="name", **options)`."""

    _core: AsyncGroupConsumer

    def _begin(self, client: Client, topics: Iterable[Any], options: dict[str, Any]) -> None:
        self._callbacks = Callbacks(client._portal)
        ours = {name: self._in_program(options[name]) for name in _CALLBACKS if options.get(name) is not None}
        super()._begin(client, topics, options | ours)

    def __next__(self) -> Record:
        core, at = self._core, self._at
        core.done = at
        if core.is_wanted and at < len(self._taken):
            self._taken = self._call(core.settle())
            at = 0
        if at >= len(self._taken):
            self._taken, self._at = [], 0  # also should it fail: what was handed out does not come again
            self._taken = self._call(core.take(ITERATED_RECORDS, None))
            at = 0
            if not self._taken:
                raise StopIteration
        self._at = at + 1
        return self._taken[at]

    def take(self, max_records: int = 500, timeout: float | None = 1.0) -> list[Record]:
        """What is there, at most `max_records`; waits for the first. An empty list: none came in time."""
        core = self._core
        core.done = self._at
        if self._at < len(self._taken) and core.is_wanted:
            self._taken, self._at = self._call(core.settle()), 0
        if self._at >= len(self._taken):
            self._taken, self._at = self._call(core.take(max_records, timeout)), 0
        taken = self._taken[self._at : self._at + max_records]
        self._at += len(taken)
        return taken

    def commit(self, to: Mapping[tuple[str, int], int | Committed] | None = None) -> None:
        """All that was handed out, or the given positions: offsets of the next records to be read.

        IllegalGeneration: the group went on without this member, and others read again what it has read.
        """
        self._call(self._core.commit_done(self._at) if to is None else self._core.commit(to))

    def rewind(self) -> None:
        """Back to where the group stands: what was handed out and not committed is read again."""
        self._taken, self._at = [], 0
        self._call(self._core.rewind())

    def handed_out(self) -> tuple[AsyncGroupConsumer, int]:
        """The core, and how many of the records that it gave us were handed out."""
        return self._core, self._at

    def _call(self, work: Coroutine[Any, Any, T]) -> T:
        return self._callbacks.wait(work)

    def _drop(self, topic: str, partition: int) -> None:
        super()._drop(topic, partition)
        self._portal.run(self._core.hand, list(self._taken))

    def _in_program(self, callback: Callable[[Partitions], None]) -> Callable[[Partitions], Coroutine[Any, Any, None]]:
        async def call(partitions: Partitions) -> None:
            await self._callbacks.ask(lambda: callback(partitions), is_last=self._core.is_closing)

        return call
