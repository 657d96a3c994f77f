"""`BrokerClient`: the binary protocol for programs with threads.

    with BrokerClient("127.0.0.1", 9999, client_id="me") as client:
        client.create_topic("events", partitions=3)
        client.publish_text("events", "Hello World!", partition=0)
        client.subscribe("events", partition=0, handler=lambda message: print(message.text))

- Requests go over one connection, each subscription over one of its own. So a message is never taken for a reply, it
  is always known which partition it is of, a slow handler holds back its own subscription alone, and it may call the
  client itself.
- A connection that is lost is made anew: for requests with the next one, for a subscription at once, and it goes on
  behind the last message that its handler got. Whether a request that was under way was done is then not known.
- Handlers run on the subscription's own thread. One that raises is told of in the log (`headrace.compat`), and the
  next message comes.
"""

from __future__ import annotations

import itertools
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from headrace.compat import binary_values as values
from headrace.compat.binary_values import Bounds, Message, Page, PublishedAt, Refused, Request, Wanted
from headrace.errors import ClientClosed, ConnectionFailed, RequestTimedOut
from headrace.wire.binary.decoder import Decoder
from headrace.wire.binary.frame import Frame, MalformedFrame, Type

Handler = Callable[[Message], object]

_log = logging.getLogger("headrace.compat")
READ_BYTES = 256 << 10


class BrokerClient:
    def __init__(
        self,
        host: str = values.HOST,
        port: int = values.PORT,
        client_id: str | None = None,
        *,
        timeout: float = values.REQUEST_TIMEOUT_S,
        heartbeat: float = values.HEARTBEAT_S,
        max_retries: int = values.MAX_RETRIES,
        retry_delay: float = values.RETRY_DELAY_S,
    ) -> None:
        self.host, self.port, self.client_id = host, port, client_id or values.default_client_id()
        self.timeout, self.heartbeat, self.max_retries, self.retry_delay = timeout, heartbeat, max_retries, retry_delay
        self.subscriptions: list[Subscription] = []
        self._link: _Link | None = None
        self._lock = threading.Lock()
        self._is_closed = False

    # Coming and going

    def connect(self) -> Self:
        """At once, and not with the first request."""
        self._connected()
        return self

    def close(self) -> None:
        self._is_closed = True
        for subscription in self.subscriptions:
            subscription.say_no_more()
        for subscription in list(self.subscriptions):
            subscription.close()
        if self._link is not None:
            self._link.close()

    def __enter__(self) -> Self:
        return self.connect()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Requests

    def create_topic(self, topic: str, partitions: int = 1, retention_hours: int | None = None) -> bool:
        """True: it was made. False: it was there, and stays as it is. Without `retention_hours` the broker's default;
        -1: for ever."""
        return values.created(topic, self._ask(values.create_topic(topic, partitions, retention_hours)))

    def publish(
        self,
        topic: str,
        body: bytes | str,
        partition: int | None = None,
        properties: Mapping[str, str] | None = None,
    ) -> PublishedAt:
        """When it is stored. Properties that the broker knows: `key`, `acks` (0, 1, all), `id`."""
        return values.published(self._ask(values.publish(topic, body, self.client_id, partition, properties)))

    def publish_text(
        self, topic: str, text: str, partition: int | None = None, properties: Mapping[str, str] | None = None
    ) -> PublishedAt:
        return self.publish(topic, text, partition, properties)

    def page(self, topic: str, *, limit: int | None = None, page: str | None = None, **bounds: Unpack[Bounds]) -> Page:
        """A page of a range, of `limit` messages at most; with the `next_page` of the one before, the next."""
        return values.paged(topic, self._ask(values.page(topic, self.client_id, bounds, limit, page)))

    def records(self, topic: str, *, limit: int | None = None, **bounds: Unpack[Bounds]) -> Iterator[Message]:
        """A range, page by page; `limit` is of all of it."""
        page: str | None = None
        while limit is None or limit > 0:
            found = self.page(topic, limit=limit, page=page, **bounds)
            yield from found.messages
            page = found.next_page
            if page is None:
                return
            limit = None if limit is None else limit - len(found.messages)

    def history(self, topic: str, count: int = 10, partition: int | None = None) -> list[Message]:
        """The last so many, oldest first."""
        return values.paged(topic, self._ask(values.history(topic, self.client_id, count, partition))).messages

    def ping(self) -> None:
        """Returns when the broker has answered."""
        self._ask(Request(Type.HEARTBEAT, {}))

    def subscribe(
        self,
        topic: str,
        partition: int = 0,
        offset: int = 0,
        handler: Handler = print,
        *,
        replay: bool = True,
        group: str | None = None,
        auto_ack: bool = True,
    ) -> Subscription:
        """From `offset` on, or with replay=False only what comes. With `group`, each message of the topic goes to one
        of the group's members; auto_ack=False acknowledges it when its handler returned, and gives it back when the
        handler raised (NotHandled: leaves it as it is, for who comes next)."""
        wanted = Wanted(topic, partition, self.client_id, offset, replay, group, auto_ack)
        subscription = Subscription(self, wanted, handler)
        self.subscriptions.append(subscription)
        return subscription

    def unsubscribe(self, topic: str, partition: int = 0) -> None:
        for subscription in [one for one in self.subscriptions if one.is_of(topic, partition)]:
            subscription.close()

    def _ask(self, request: Request) -> Frame:
        return self._connected().ask(request, self.timeout)

    def _connected(self) -> _Link:
        with self._lock:
            if self._is_closed:
                raise ClientClosed("the client is closed")
            if self._link is None or self._link.is_lost:
                self._link = self.new_link()
                self._link.start(f"headrace-binary-{self.client_id}", lambda frame: None)
            return self._link

    def new_link(self, retries: int | None = None) -> _Link:
        """Tries a few times."""
        left = self.max_retries if retries is None else retries
        while True:
            try:
                return _Link(self.host, self.port, self.timeout, self.heartbeat)
            except OSError as error:
                if not left or self._is_closed:
                    raise ConnectionFailed(
                        f"no connection to {self.host}:{self.port} ({error}); is a broker with a binary door there?"
                    ) from error
                left -= 1
                time.sleep(self.retry_delay)


class Subscription:
    """Open until `close`, or until the client is closed."""

    def __init__(self, client: BrokerClient, wanted: Wanted, handler: Handler) -> None:
        self._client, self._wanted, self._handler = client, wanted, handler
        self._is_closed = threading.Event()
        self._link = self._begin(client.max_retries)
        name = f"headrace-binary-{wanted.topic}-{wanted.partition}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def is_of(self, topic: str, partition: int) -> bool:
        return (self._wanted.topic, self._wanted.partition) == (topic, partition)

    @property
    def next_offset(self) -> int:
        """Behind the last message that the handler got."""
        return self._wanted.offset

    def close(self) -> None:
        """No handler runs after it, unless it is called from one. The broker, if it is there, has seen the end and what
        was acknowledged: who subscribes again is not told that it is subscribed already."""
        if self in self._client.subscriptions:
            self._client.subscriptions.remove(self)
        self.say_no_more()
        is_own = threading.current_thread() is self._thread
        self._link.drain(values.LEAVE_S) if is_own else self._thread.join(values.LEAVE_S)
        self._link.close()
        if not is_own:
            self._thread.join()

    def say_no_more(self) -> None:
        self._is_closed.set()
        self._link.say_no_more()

    def _begin(self, retries: int) -> _Link:
        link = self._client.new_link(retries)
        try:
            values.accepted(link.ask_alone(self._wanted.request(), self._client.timeout))
        except BaseException:
            link.close()
            raise
        return link

    def _run(self) -> None:
        while not self._is_closed.is_set():
            self._link.run(self._took)
            self._link.close()
            delay = self._client.retry_delay
            while not self._is_closed.wait(delay):
                try:
                    self._link = self._begin(0)
                    break
                except (ConnectionFailed, RequestTimedOut, Refused) as error:  # the old one may not be gone yet
                    delay = min(2 * delay, values.MAX_RETRY_DELAY_S)
                    _log.warning("%s[%d]: not subscribed: %s", self._wanted.topic, self._wanted.partition, error)
        self._link.close()

    def _took(self, frame: Frame) -> None:
        if self._is_closed.is_set():
            return
        if frame.type == Type.ACK:
            _log.warning("%s: %s", self._wanted.topic, frame.properties.get("error"))
            return
        message, settle = self._wanted.message(frame), "ack"
        try:
            self._handler(message)
        except values.NotHandled:
            return
        except Exception:  # noqa: BLE001  # whatever it is, it is the handler's
            _log.exception("the handler of %s[%d] failed", message.topic, message.partition)
            settle = "release"
        self._wanted = self._wanted.after(message)
        if self._wanted.settles:
            self._link.send(self._wanted.settlement(message, settle))


class _Link:
    """One connection. Its reader is a thread of its own (`start`), or whoever calls `run`."""

    def __init__(self, host: str, port: int, timeout: float, heartbeat: float) -> None:
        self._socket = socket.create_connection((host, port), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(heartbeat)
        self._decoder = Decoder(values.MAX_FRAME_BYTES)
        self._early: deque[Frame] = deque()  # messages that came with the reply to a subscription
        self._sequence = itertools.count(1)
        self._sending = threading.Lock()
        self._waiting: dict[int, tuple[threading.Event, list[Frame]]] = {}
        self.is_lost = False

    def start(self, name: str, took: Callable[[Frame], None]) -> None:
        threading.Thread(target=self.run, args=(took,), name=name, daemon=True).start()

    def close(self) -> None:
        self.is_lost = True
        with suppress(OSError):  # it may have ended by itself
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def say_no_more(self) -> None:
        """The broker closes when it has answered all."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)

    def drain(self, timeout: float) -> None:
        """To the end of what comes, for so long."""
        deadline = time.monotonic() + timeout
        with suppress(OSError):  # a TimeoutError is one
            while (left := deadline - time.monotonic()) > 0:
                self._socket.settimeout(left)
                if not self._socket.recv(READ_BYTES):
                    break

    def send(self, data: bytes) -> None:
        """A loss is told to the reader; half a frame is one, too."""
        try:
            with self._sending:
                self._socket.sendall(data)
        except OSError:
            self.is_lost = True
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def ask(self, request: Request, timeout: float) -> Frame:
        """The reply, which another thread reads."""
        sequence, event, found = next(self._sequence), threading.Event(), list[Frame]()
        self._waiting[sequence] = event, found
        try:
            self.send(request.encode(sequence))
            if self.is_lost:
                raise ConnectionFailed("the connection was lost before the request was sent")
            if not event.wait(timeout):
                raise RequestTimedOut(f"no reply for {timeout:g} s; whether it was done is not known")
        finally:
            del self._waiting[sequence]
        if not found:
            raise ConnectionFailed("the connection was lost; whether the request was done is not known")
        return found[0]

    def ask_alone(self, request: Request, timeout: float) -> Frame:
        """The reply, read here: nobody else reads yet."""
        sequence, deadline = next(self._sequence), time.monotonic() + timeout
        self.send(request.encode(sequence))
        while time.monotonic() < deadline:
            frames = self._read()
            if frames is None:
                raise ConnectionFailed("the connection was lost before the reply came")
            for place, frame in enumerate(frames):
                if frame.type in values.ANSWERS and frame.sequence == sequence:
                    self._early.extend(frames[place + 1 :])
                    return frame
        raise RequestTimedOut(f"no reply for {timeout:g} s")

    def run(self, took: Callable[[Frame], None]) -> None:
        """Until the connection ends. Replies go to who waits for them, all else to `took`, heartbeats to nobody."""
        frames: list[Frame] | None = list(self._early)
        while frames is not None:
            for frame in frames:
                waiting = self._waiting.get(frame.sequence) if frame.type in values.ANSWERS else None
                if waiting is not None:
                    waiting[1].append(frame)
                    waiting[0].set()
                elif frame.type != Type.HEARTBEAT:
                    took(frame)
            frames = self._read()
        self.is_lost = True
        for event, _ in list(self._waiting.values()):
            event.set()

    def _read(self) -> list[Frame] | None:
        """What came; None: nothing will any more. In a silence, heartbeats are sent; a long one is the end."""
        for _ in range(values.SILENT_BEATS):
            try:
                data = self._socket.recv(READ_BYTES)
                return list(self._decoder.feed(data)) if data else None
            except TimeoutError:
                self.send(Request(Type.HEARTBEAT, {}).encode(0))
            except (OSError, MalformedFrame):
                return None
        return None
