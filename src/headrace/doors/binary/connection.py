"""One connection of a client of the binary protocol: frames in, replies out in the order of the requests.

- What one read brought is one turn: its messages go to the broker together, as one batch for each partition.
- Replies keep the order of their requests; messages to subscribers go out when they come. So does a heartbeat.
- A request that has to wait for the broker (a new topic, a queue group, a range) holds back those behind it. A range
  also waits until the client has taken what was sent before.
- What a client may get wrong is answered with `status=error` and why. What is no frame ends the connection.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from functools import partial
from typing import TYPE_CHECKING

from headrace.broker.topic import Topic, check_readable
from headrace.broker.wishes import NewTopic
from headrace.doors.binary import ranges, replies
from headrace.doors.binary.grouping import grouped
from headrace.doors.binary.member import GroupMembers
from headrace.doors.binary.publisher import Publisher
from headrace.doors.binary.replies import Refused, number
from headrace.doors.binary.subscriber import BinarySubscriber, Key
from headrace.doors.tcp.answers import Answer
from headrace.doors.tcp.connection import TcpConnection
from headrace.doors.tcp.pipeline import Pipeline
from headrace.errors import HeadraceError, TopicExists
from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, Type
from headrace.wire.binary.ranges import is_range

if TYPE_CHECKING:
    from headrace.doors.binary.door import BinaryDoor

MAX_SUBSCRIPTIONS = 1000  # of one connection: each costs a place in its partition's feed
HOUR_MS = 3_600_000
FOR_EVER = -1  # hours, and milliseconds


class BinaryConnection(TcpConnection):
    def __init__(self, door: BinaryDoor) -> None:
        super().__init__(door)
        self.door = door
        self.pipeline = Pipeline(self, self._take, _is_alone)
        self.subscribers: dict[Key, BinarySubscriber] = {}
        self.members = GroupMembers(self)
        self._publisher = Publisher(self)
        self._decoder = Decoder(door.limits.max_frame_bytes)
        self._room: asyncio.Future[None] | None = None  # a range waits for it

    # Hooks

    def received(self, data: memoryview) -> None:
        frames: list[Frame] = []
        try:
            frames.extend(self._decoder.feed(data))
        finally:  # what came before a frame that is none is taken
            self.pipeline.put(grouped(frames))

    def has_room(self) -> None:
        if self._room is not None and not self._room.done():
            self._room.set_result(None)
        for subscriber in list(self.subscribers.values()):
            subscriber.resume()
        self.members.resume()

    def gone(self) -> None:
        self._decoder = Decoder(self.door.limits.max_frame_bytes)  # and with the old one what it kept
        for subscriber in list(self.subscribers.values()):
            self.leave(subscriber)
        self.members.leave_all()

    @property
    def unfinished_bytes(self) -> int:
        return self._decoder.unfinished_bytes

    def words_when_refused(self, why: str) -> bytes:
        return replies.refusal(0, self.now_ms, f"Connection refused: {why}")

    # Requests

    def _take(self, frames: list[Frame], answer: Answer) -> None:
        """One frame, or several that want the same."""
        frame = frames[0]
        self.door.metrics.requests += len(frames)
        try:
            match frame.type:
                case Type.PUBLISH:
                    self._publisher.publish(frames, answer)
                case Type.HEARTBEAT:
                    self.pipeline.give(answer, replies.heartbeat(frame.sequence, self.now_ms))
                case Type.SUBSCRIBE:
                    self._subscribe(frame, answer)
                case Type.UNSUBSCRIBE:
                    self._unsubscribe(frame, answer)
                case Type.CREATE_TOPIC:
                    self._create_topic(frame, answer)
                case Type.ACK if "group" in frame.properties:
                    self.members.settle(frames, partial(self.pipeline.give, answer))
                case _:
                    self.door.metrics.errors += 1
                    self.pipeline.give(answer, replies.unknown_type(frame.sequence, self.now_ms))
        except HeadraceError as error:
            self._refuse(frames, answer, str(error))

    def _refuse(self, frames: list[Frame], answer: Answer, text: str) -> None:
        self.door.metrics.errors += len(frames)
        self.pipeline.give(answer, b"".join([replies.refusal(one.sequence, self.now_ms, text) for one in frames]))

    def _wait_for(self, frame: Frame, answer: Answer, work: Coroutine[object, object, bytes]) -> None:
        """The reply is what the work gives."""
        self.tcp.spawn(self._wait(frame, answer, work), self)

    async def _wait(self, frame: Frame, answer: Answer, work: Coroutine[object, object, bytes]) -> None:
        try:
            reply = await work
        except HeadraceError as error:
            self._refuse([frame], answer, str(error))
        else:
            self.pipeline.give(answer, reply)

    async def room(self) -> None:
        """When there is some for an answer."""
        while self.is_full and not self.closed:
            self._room = self.tcp.loop.create_future()
            await self._room

    @property
    def now_ms(self) -> int:
        return self.door.broker.clock.now_ms()

    # Topics

    def _create_topic(self, frame: Frame, answer: Answer) -> None:
        properties, limits = frame.properties, self.door.limits
        name = properties.get("topic")
        if not name:
            raise Refused(replies.MISSING_TOPIC)
        partitions = number(properties.get("partitions", "1"))
        hours = properties.get("retention_hours")
        retention_ms = (limits.retention_ms or None) if hours is None else _retention_ms(number(hours))
        if name in self.door.broker.quorum.image.names:
            raise Refused(replies.topic_exists(name))
        most = limits.max_partitions or self.door.broker.settings.max_partitions_per_topic
        if partitions > most:
            raise Refused(replies.too_many_partitions(partitions, most))
        configs: dict[str, str | None] = {} if retention_ms is None else {"retention.ms": str(retention_ms)}
        # -1 would be the broker's default; whoever asks for no partitions is told that there must be some.
        wish = NewTopic(name, max(0, partitions), configs=configs)
        self._wait_for(frame, answer, self._created(frame.sequence, wish))

    async def _created(self, sequence: int, wish: NewTopic) -> bytes:
        [made] = await self.door.broker.create_topics([wish])
        if isinstance(made, TopicExists):
            raise Refused(replies.topic_exists(wish.name))
        if isinstance(made, HeadraceError):
            raise made
        return replies.success(sequence, self.now_ms, topic=wish.name, partitions=str(wish.partitions))

    def topic(self, name: str) -> Topic:
        topic = self.door.broker.topic(name)
        if topic is None:
            raise Refused(replies.no_topic(name))
        return topic

    # Subscribing

    def _subscribe(self, frame: Frame, answer: Answer) -> None:
        properties = frame.properties
        if is_range(properties):
            self._wait_for(frame, answer, ranges.reply(self, frame.sequence, ranges.asked(properties)))
            return
        key, offset = _key(frame), number(properties.get("offset", "0"))
        name, partition, client = key
        check_readable(name)
        partitions = self.topic(name).partitions
        if not 0 <= partition < len(partitions):
            raise Refused(replies.no_partition(name, partition))
        if len(self.subscribers) + len(self.members) >= MAX_SUBSCRIPTIONS:
            raise Refused(replies.too_many_subscriptions(MAX_SUBSCRIPTIONS))
        if "group" in properties:
            self._wait_for(frame, answer, self.members.join(frame, key))
            return
        if key in self.door.subscribers:
            raise Refused(replies.already_subscribed(client, name, partition))
        replay = properties.get("replay") == "true"
        subscriber = BinarySubscriber(self, key)
        self.subscribers[key] = self.door.subscribers[key] = subscriber
        if replay:
            self._wait_for(frame, answer, self._replay(frame.sequence, subscriber, offset))
        else:
            subscriber.begin(None)
            self.pipeline.give(answer, _subscribed(frame.sequence, self.now_ms, key))

    async def _replay(self, sequence: int, subscriber: BinarySubscriber, offset: int) -> bytes:
        """From the offset on, or from the first one that is still kept; never from one that there was not yet."""
        name, index, _ = subscriber.key
        try:
            log = (await self.topic(name).partitions[index].opened()).log
            if log is None:
                raise Refused(replies.no_topic(name))
            if not 0 <= offset <= log.end_offset:
                raise Refused(replies.outside(offset, name, index, log.start_offset, log.end_offset))
            subscriber.begin(max(offset, log.start_offset))
        except HeadraceError:
            self.leave(subscriber)
            raise
        return _subscribed(sequence, self.now_ms, subscriber.key)

    def _unsubscribe(self, frame: Frame, answer: Answer) -> None:
        key = _key(frame)
        name, partition, client = key
        if "group" in frame.properties:
            self.members.leave(frame, key)
        else:
            subscriber = self.door.subscribers.get(key)
            if subscriber is None:
                self.topic(name)
                raise Refused(replies.not_subscribed(client, name, partition))
            subscriber.connection.leave(subscriber)
        self.pipeline.give(answer, _subscribed(frame.sequence, self.now_ms, key))

    def leave(self, subscriber: BinarySubscriber) -> None:
        subscriber.close()
        self.subscribers.pop(subscriber.key, None)
        if self.door.subscribers.get(subscriber.key) is subscriber:
            del self.door.subscribers[subscriber.key]


def _is_alone(frames: list[Frame]) -> bool:
    """It has to be answered before the next is looked at; a subscription's reply also comes before its messages."""
    return frames[0].type in (Type.CREATE_TOPIC, Type.SUBSCRIBE)


def _key(frame: Frame) -> Key:
    properties = frame.properties
    topic, client = properties.get("topic"), properties.get("client_id")
    if not topic or not client:
        raise Refused(replies.MISSING_TOPIC_OR_CLIENT)
    return topic, number(properties.get("partition", "0")), client


def _subscribed(sequence: int, now_ms: int, key: Key) -> bytes:
    topic, partition, client = key
    return replies.success(sequence, now_ms, topic=topic, partition=str(partition), client_id=client)


def _retention_ms(hours: int) -> int:
    if hours == FOR_EVER:
        return FOR_EVER
    if hours < 1:
        raise Refused(replies.invalid_retention(hours))
    return hours * HOUR_MS
