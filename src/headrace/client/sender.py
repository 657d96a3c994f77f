"""How a producer's batches get to the brokers: which node's task (`node_sender`) a lane belongs to, what is done about
each kind of answer, and what happens to batches for which there is no leader, no producer id or no time.

A batch is never given up silently: it arrives, or its deadline passes, or the broker refuses it for good, and in each
case `settled` or `failed` is called for it exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Final

from headrace.client import backoff
from headrace.client.apis import INIT_PRODUCER_ID
from headrace.client.asking import Asking
from headrace.client.lane import Batch, Identity, Lane
from headrace.client.node_sender import NodeSender
from headrace.client.refusals import DUPLICATE_SEQUENCE_NUMBER, UNKNOWN_PRODUCER_ID, error_of
from headrace.errors import (
    ClientClosed,
    ConnectionFailed,
    HeadraceError,
    RequestTimedOut,
    UnknownTopic,
)
from headrace.wire.kafka.codes_client import RETRIABLE
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.init_producer_id import InitProducerIdRequest
from headrace.wire.kafka.produce import PartitionResult

SWEEP_S: Final = 0.25  # how often batches are looked through for those whose time is over
UNKNOWN_TOPIC_S: Final = 5.0  # a topic that is gone for this long is not coming back

PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING, RECORD_LIST_TOO_LARGE = 90, 49, 18
# Refusals after which the batch may be written all the same.
_DOUBTFUL: Final = frozenset({int(Code.REQUEST_TIMED_OUT), 13, 20, int(Code.KAFKA_STORAGE_ERROR)})
_LOST_NUMBERS: Final = frozenset({int(Code.OUT_OF_ORDER_SEQUENCE_NUMBER), UNKNOWN_PRODUCER_ID})
_NEW_IDENTITY: Final = frozenset({int(Code.INVALID_PRODUCER_EPOCH), PRODUCER_FENCED, INVALID_PRODUCER_ID_MAPPING})


class Sender:
    def __init__(
        self,
        asking: Asking,
        acks: int,
        request_timeout: float,
        settled: Callable[[Lane, Batch, int, int], None],
        failed: Callable[[Lane, Batch, HeadraceError], None],
        transactional_id: str | None = None,
    ) -> None:
        self.transactional_id = transactional_id
        self.identifier: Callable[[Lane], None] | None = None  # who gives lanes their identity, if not we
        self.newest_produce: int | None = None  # for who may not say it in the newest version
        self.asking, self.metadata, self.acks = asking, asking.metadata, acks
        self.request_timeout = request_timeout
        self.loop = asyncio.get_running_loop()
        self._settled, self._failed = settled, failed
        self._nodes: dict[int, NodeSender] = {}
        self._lanes: dict[Lane, None] = {}  # with something that is not settled, in the order of their first batch
        self._homeless: dict[Lane, float] = {}  # without a leader, since when
        self._identity: Identity | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopped = False
        self._searching: asyncio.Task[None] | None = None
        self._identifying: asyncio.Task[None] | None = None
        self.start(self._sweep())

    def start(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        fault = None if task.cancelled() else task.exception()
        if fault is not None and not self._is_stopped:  # a fault of ours: nobody may wait for ever because of it
            self._is_stopped = True
            self.loop.call_exception_handler({"message": "a producer's task failed", "exception": fault, "task": task})
            for lane in self.lanes:
                for batch in lane.clear():
                    self._failed(lane, batch, ClientClosed(f"the producer failed: {fault!r}"))

    async def stop(self) -> None:
        """Without a word to those whose batches are left; the caller settles them first."""
        self._is_stopped = True
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def lanes(self) -> list[Lane]:
        return list(self._lanes)

    def keep(self, lane: Lane) -> None:
        """It has something that is to be settled; `offer` says when it may leave."""
        self._lanes[lane] = None

    def offer(self, lane: Lane) -> None:
        """Something of this lane may be ready to leave."""
        if lane.is_empty:
            self._lanes.pop(lane, None)
            return
        if self._is_stopped:
            return
        self._lanes[lane] = None
        node = self.metadata.leader(lane.topic, lane.partition)
        if node is None:
            self.seek_leader(lane)
            return
        self._homeless.pop(lane, None)
        sender = self._nodes.get(node.id)
        if sender is None:
            sender = self._nodes[node.id] = NodeSender(self, node.id)
            self.start(sender.run())
        sender.offer(lane)

    def offer_at(self, when: float, lane: Lane) -> None:
        self.loop.call_at(when, self.offer, lane)

    # What became of a batch

    def answered(self, lane: Lane, batch: Batch, result: PartitionResult) -> None:
        code, now = result.error, self.loop.time()
        if not code:
            lane.arrived(batch, now)
            self._settled(lane, batch, result.base_offset, result.append_time_ms)
        elif code == DUPLICATE_SEQUENCE_NUMBER:
            lane.arrived(batch, now)
            self._settled(lane, batch, -1, -1)
        else:
            error = error_of(code, f"topic {lane.topic!r} partition {lane.partition}", result.message)
            self._refused(lane, batch, code, error, now)

    def lost(self, lane: Lane, batch: Batch, error: HeadraceError) -> None:
        """No answer: it may have been written."""
        batch.last_error = error
        lane.came_back(batch, is_doubtful=True, not_before=self.loop.time() + backoff.wait_s(batch.attempts))

    def _refused(self, lane: Lane, batch: Batch, code: int, error: HeadraceError, now: float) -> None:
        batch.last_error = error
        not_before = now + backoff.wait_s(batch.attempts)
        if lane.is_transactional and (code in _NEW_IDENTITY or (code in _LOST_NUMBERS and lane.is_first(batch))):
            self.refuse(lane, batch, error)  # only the coordinator may give other numbers
        elif lane.is_idempotent and code in _LOST_NUMBERS:
            lane.out_of_order(batch, 0.0 if batch.attempts == 1 else not_before)
        elif lane.is_idempotent and code in _NEW_IDENTITY:
            lane.out_of_order(batch, not_before, new_identity=True)
        elif code in (Code.MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE) and lane.split(batch):
            return
        elif code in RETRIABLE and batch.deadline > now:
            lane.came_back(batch, is_doubtful=code in _DOUBTFUL, not_before=not_before)
        else:
            self.refuse(lane, batch, error)

    def refuse(self, lane: Lane, batch: Batch, error: HeadraceError) -> None:
        """For good."""
        lane.refused(batch)
        self._failed(lane, batch, error)

    # Leaders and identities

    def seek_leader(self, lane: Lane) -> None:
        self._homeless.setdefault(lane, self.loop.time())
        if self._searching is None:
            self._searching = self.start(self._search())

    async def refresh(self, topics: Iterable[str]) -> None:
        try:
            await self.metadata.refresh(topics, create=True)
        except HeadraceError as error:  # the batches' deadlines decide how long this may go on
            for lane in self._lanes:
                lane.note(error)

    async def _search(self) -> None:
        looks = 0
        while self._homeless:
            await self.refresh({lane.topic for lane in self._homeless})
            for lane, since in list(self._homeless.items()):
                if self.metadata.leader(lane.topic, lane.partition) is not None:
                    self.offer(lane)
                elif self.metadata.known(lane.topic) is None and self.loop.time() - since > UNKNOWN_TOPIC_S:
                    del self._homeless[lane]
                    self.give_up(lane, UnknownTopic(f"topic {lane.topic!r} is not there any more"))
            looks += 1
            if self._homeless:
                await asyncio.sleep(backoff.wait_s(looks))
        self._searching = None

    def give_up(self, lane: Lane, error: HeadraceError) -> None:
        """Fails what waits; what is on its way has its own end."""
        for batch in lane.expire(float("inf")):
            self._failed(lane, batch, error)
        self.offer(lane)

    def identify(self, lane: Lane) -> None:
        """Gives the lane a producer id, at once if we have one that it can use."""
        if self.identifier is not None:
            self.identifier(lane)
        elif self._identity is not None and self._identity.id != lane.lost_id:
            lane.begin(self._identity)
            self.offer(lane)
        elif self._identifying is None:
            self._identifying = self.start(self._identify())

    async def _identify(self) -> None:
        failures = 0
        while True:
            error: HeadraceError
            try:
                answer = await self.asking.any(INIT_PRODUCER_ID, InitProducerIdRequest(None, -1))
                if not answer.error:
                    break
                error = error_of(answer.error, "a producer id")
                if answer.error not in RETRIABLE:
                    for lane in self.lanes:
                        self.give_up(lane, error)
            except (ConnectionFailed, RequestTimedOut) as lost:
                error = lost
            except HeadraceError as refusal:
                error = refusal
                for lane in self.lanes:
                    self.give_up(lane, refusal)
            for lane in self._lanes:
                lane.note(error)
            failures += 1
            await asyncio.sleep(backoff.wait_s(failures))
        self._identity = Identity(answer.producer_id, answer.producer_epoch)
        self._identifying = None
        for lane in self.lanes:
            if lane.needs_identity:
                self.offer(lane)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_S)
            now = self.loop.time()
            for lane in self.lanes:
                for batch in lane.expire(now):
                    why = f"; the last error was: {batch.last_error}" if batch.last_error else ""
                    words = "its time was over before it was acknowledged"
                    self._failed(
                        lane,
                        batch,
                        RequestTimedOut(f"topic {lane.topic!r} partition {lane.partition}: {words}{why}"),
                    )
                if lane.is_empty:
                    self._homeless.pop(lane, None)
                    self._lanes.pop(lane, None)
                elif lane.is_ready(now):
                    self.offer(lane)
            old = {lane.topic for lane in self._lanes if self.metadata.is_old(lane.topic)}
            if old:
                await self.refresh(old)
