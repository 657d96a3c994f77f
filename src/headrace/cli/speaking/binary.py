"""The binary door, in the words of its own client's command line."""

from __future__ import annotations

import queue
import secrets
import threading
import time
from collections.abc import Iterable, Sequence

from headrace.cli.exits import Refusal
from headrace.cli.record_values import text_of
from headrace.cli.speakers import SILENCE_S, refuse_kafka
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe, unknown
from headrace.compat.binary_values import Message, NotHandled, Refused
from headrace.compat.broker_client import BrokerClient
from headrace.errors import HeadraceError, RequestTimedOut

DOOR = "binary"
EVERY_MESSAGE = ("topic", "partition", "client_id", "created_at", "version")  # properties that say nothing of their own
WAIT_S = 0.2  # between two looks whether somebody pressed Ctrl-C


class BinarySpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        (self._host, self._port), self._timeout_s = places[0], timeout_s

    def _client(self, client_id: str | None = None) -> BrokerClient:
        """A partition takes an id once at a time: two commands of one second have two."""
        own = client_id or f"client_{int(time.time())}_{secrets.token_hex(4)}"
        client = BrokerClient(self._host, self._port, own, timeout=min(self._timeout_s, SILENCE_S), max_retries=0)
        try:
            self._greet(client)
        except BaseException:
            client.close()
            raise
        client.timeout = self._timeout_s
        return client

    def _greet(self, client: BrokerClient) -> None:
        """A binary door answers a heartbeat at once. Who is silent is asked whether it is another door, and then waited
        for."""
        try:
            client.ping()
        except RequestTimedOut:
            refuse_kafka(DOOR, [(self._host, self._port)])

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        properties = {**wish.properties}
        if wish.key is not None:
            properties["key"] = wish.key
        if wish.message_id is not None:
            properties["id"] = wish.message_id
        with self._client(wish.client_id) as client:
            for text in messages:
                try:
                    at = client.publish(wish.topic, text, wish.partition, properties)
                except Refused as error:
                    say(f"Failed to publish message to topic '{wish.topic}'", None)
                    raise _refusal(wish.topic, error) from error
                answer = "duplicate" if at.duplicate else "success"
                done = Done(DOOR, wish.topic, answer, at.partition, at.offset)
                say(f"Published message to topic '{wish.topic}'", done)

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        partition, offset = wish.partition or 0, wish.offset or 0
        hand, left = _Hand(), wish.count
        with self._client(wish.client_id) as client:
            try:
                client.subscribe(wish.topic, partition, offset, hand.take, group=wish.group, auto_ack=not wish.ack)
            except Refused as error:
                raise _refusal(wish.topic, error) from error
            say(f"Subscribing to {wish.topic}:{partition} from offset {offset}", None)
            say("Press Ctrl+C to stop...", None)
            try:
                while left is None or left > 0:
                    try:
                        _say(hand.arrived.get(timeout=WAIT_S), say)
                    except queue.Empty:
                        continue
                    left = None if left is None else left - 1
                    hand.shown(is_last=left == 0)
            finally:
                hand.end()

    def create_topic(self, wish: Create, say: Say) -> None:
        with self._client() as client:
            try:
                if not client.create_topic(wish.topic, wish.partitions, wish.retention_hours):
                    raise Refused(f"Topic '{wish.topic}' already exists")
            except Refused as error:
                say(f"Failed to create topic '{wish.topic}'", None)
                raise Refusal(str(error)) from error
        words = f"Created topic '{wish.topic}' with {wish.partitions} partitions"
        say(words, Done(DOOR, wish.topic, "success"))

    def history(self, wish: Past, say: Say) -> None:
        with self._client() as client:
            try:
                for message in self._past(client, wish):
                    _say(message, say)
            except Refused as error:
                raise _refusal(wish.topic, error) from error

    def _past(self, client: BrokerClient, wish: Past) -> Iterable[Message]:
        if not wish.is_range and wish.last < 1:
            return []
        if not wish.is_range:
            return client.history(wish.topic, wish.last, wish.partition)
        return client.records(
            wish.topic,
            limit=wish.count,
            partition=wish.partition,
            offset=wish.from_offset,
            to=wish.to_offset,
            since=wish.since_ms,
            until=wish.until_ms,
        )


def _refusal(topic: str, error: Refused) -> HeadraceError:
    return unknown(topic) if str(error) == f"Topic '{topic}' does not exist" else Refusal(str(error))


class _Hand:
    """Messages one at a time from the client's thread: the next is taken when the last one was shown, so that a group's
    message that nobody saw is not acknowledged."""

    def __init__(self) -> None:
        self.arrived: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._room = threading.Semaphore(0)
        self._shown = self._taken = 0
        self._is_over = False

    def take(self, message: Message) -> None:
        if self._is_over:
            raise NotHandled
        self._taken += 1
        self.arrived.put(message)
        self._room.acquire()
        if self._shown < self._taken:
            raise NotHandled

    def shown(self, *, is_last: bool) -> None:
        self._shown += 1
        self._is_over = is_last
        self._room.release()

    def end(self) -> None:
        """However it came: nobody waits for a turn that does not come."""
        self._is_over = True
        self._room.release()


def _say(message: Message, say: Say) -> None:
    heard = Heard(
        DOOR,
        message.topic,
        text_of(message.body),
        message.partition,
        message.offset,
        message.timestamp_ms,
        message.id,
        message.properties.get("key"),
        dict(message.properties),
    )
    others = {name: value for name, value in message.properties.items() if name not in EVERY_MESSAGE}
    body = message.body.decode(errors="replace")
    words = f"[{message.topic}:{message.partition}@{message.offset}] {body}"
    say(f"{words}\n  Properties: {others}" if others else words, heard)
