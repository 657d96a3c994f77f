"""`HttpClient`: the HTTP protocol for programs with threads.

    with HttpClient("127.0.0.1:8081,127.0.0.1:8082") as client:
        client.create_topic("orders")
        client.publish("orders", {"total": 12}, key="user-7")
        for record in client.consume("orders", group_id="billing", consumer_id="c1"):
            print(record.offset, record.value)

- Several addresses: it stays with the one that answers, and with the replica that answered its polls; when that one
  fails it goes on to the next, and a consumer continues where it was.
- A publish whose answer did not come is never sent again by itself: see http_values.py. `resend=True` is for records
  with an id on a topic that knows repeated ids (`headrace.dedup.window.ms`).
- Threads may share a client.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator, Mapping
from types import TracebackType
from typing import Self

import msgspec

from headrace.compat import http_values as values
from headrace.compat.http_links import Links
from headrace.compat.http_values import HttpRecord, Json, Polled, Published, Request, Result
from headrace.errors import ConnectionFailed

SSE = "text/event-stream"
QUIET_S = 60.0  # a stream shows every fifteen seconds that it lives


class HttpClient:
    def __init__(
        self, addresses: str | Iterable[str] = f"{values.HOST}:{values.PORT}", *, timeout: float = values.TIMEOUT_S
    ) -> None:
        given = addresses if isinstance(addresses, str) else list(addresses)
        self._links = Links(values.addresses_of(given), timeout)
        self._replicas: dict[str, int] = {}  # by topic: which answered the last poll

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._links.close()

    @property
    def address(self) -> str:
        """Of the broker that it is with."""
        return self._links.address

    def request(self, method: str, path: str, body: Json = None) -> Json:
        """Any route: what it answers. It may be sent twice, unless it is a POST."""
        content = None if body is None else msgspec.json.encode(body)
        return self._links.ask(Request(method, path, content, is_repeatable=method != "POST"))

    # Publishing

    def publish(
        self,
        topic: str,
        value: Json,
        key: str | None = None,
        headers: Mapping[str, Json] | None = None,
        *,
        partition: int | None = None,
        acks: int | str | None = None,
        message_id: str | None = None,
        resend: bool = False,
    ) -> Published:
        """One record; `value` is what JSON can say."""
        headers = dict(headers or {})
        if message_id is not None:
            headers["id"] = message_id
        content = msgspec.json.encode({"key": key, "value": value, "headers": headers})
        path = values.path("topics", topic, "publish", acks=acks, partition=partition)
        return values.published(self._links.ask(Request("POST", path, content, resend and "id" in headers)))

    def publish_many(
        self,
        topic: str,
        records: Iterable[Mapping[str, Json]],
        *,
        partition: int | None = None,
        acks: int | str | None = None,
        resend: bool = False,
    ) -> list[Result]:
        """Each with `value` or `value_base64`, and `key`, `headers`, `partition`, `timestamp_ms`, `id` as it likes."""
        many = list(records)
        path = values.path("topics", topic, "records", acks=acks, partition=partition)
        is_repeatable = resend and all("id" in one for one in many)
        return values.results(self._links.ask(Request("POST", path, values.body(records=many), is_repeatable)))

    # Consuming

    def subscribe(
        self,
        topic: str,
        *,
        group_id: str | None = None,
        consumer_id: str | None = None,
        from_offset: int | None = None,
        partition: int | None = None,
    ) -> dict[str, Json]:
        """Where reading would begin; takes the group's lease."""
        who = {"group_id": group_id, "consumer_id": consumer_id, "partition": partition}
        content = values.body(topic=topic, from_offset=from_offset, **who)
        return dict(self._links.ask(Request("POST", "/subscribe", content)))

    def poll(
        self,
        topic: str,
        *,
        group_id: str | None = None,
        consumer_id: str | None = None,
        from_offset: int | None = None,
        max_records: int = 100,
        timeout_ms: int = values.POLL_MS,
        prefer_replica: int | None = None,
        partition: int | None = None,
    ) -> Polled:
        """Records from the position on; waits for some. It does not commit."""
        path = values.path(
            "poll",
            topic=topic,
            group_id=group_id,
            consumer_id=consumer_id,
            from_offset=from_offset,
            max_records=max_records,
            timeout_ms=timeout_ms,
            prefer_replica=self._replicas.get(topic) if prefer_replica is None else prefer_replica,
            partition=partition,
        )
        polled = values.polled(self._links.ask(Request("GET", path, wait_s=timeout_ms / 1000)))
        self._replicas[topic] = polled.replica_id
        return polled

    def commit(
        self,
        topic: str,
        offset: int,
        *,
        group_id: str | None = None,
        consumer_id: str | None = None,
        partition: int | None = None,
    ) -> int:
        """Keeps the offset of the last record that was processed."""
        who = {"group_id": group_id, "consumer_id": consumer_id, "partition": partition}
        told = self._links.ask(Request("POST", "/commit", values.body(topic=topic, offset=offset, **who)))
        return int(told["committed"])

    def consume(
        self,
        topic: str,
        *,
        group_id: str | None = None,
        consumer_id: str | None = None,
        from_offset: int | None = None,
        partition: int | None = None,
        max_records: int = 100,
        commit: bool = True,
        timeout_ms: int = values.POLL_MS,
        prefer_replica: int | None = None,
        until_idle: bool = False,
    ) -> Iterator[HttpRecord]:
        """Polls again and again. A page is committed when its last record was taken and the next is asked for; what
        was not committed comes again to whoever comes next. `until_idle`: ends when a poll brings nothing."""
        at = from_offset
        while True:
            polled = self.poll(
                topic,
                group_id=group_id,
                consumer_id=consumer_id,
                from_offset=at,
                max_records=max_records,
                timeout_ms=timeout_ms,
                prefer_replica=prefer_replica,
                partition=partition,
            )
            if until_idle and not polled.records:
                return
            yield from polled.records
            if polled.records and commit:
                last = polled.records[-1].offset
                self.commit(topic, last, group_id=group_id, consumer_id=consumer_id, partition=polled.partition)
            if not commit or from_offset is not None:
                at = polled.next_offset

    # Reading

    def records(self, topic: str, **bounds: Json) -> Iterator[HttpRecord]:
        """A range: `from_`, `to`, `since`, `until`, `partition`, `limit` (of each page); page by page."""
        page = None
        while True:
            told = self._links.ask(Request("GET", values.path("topics", topic, "records", **bounds, page=page)))
            for one in told["records"]:
                yield values.record(topic, one)
            page = told["next_page"]
            if page is None:
                return

    def stream(
        self,
        topic: str,
        *,
        from_offset: int | None = None,
        since: int | str | None = None,
        partition: int | None = None,
    ) -> Iterator[HttpRecord]:
        """Records as they come. When the connection is lost it goes on after the last one."""
        last_id: str | None = None
        while True:
            path = values.path("topics", topic, "stream", from_=from_offset, since=since, partition=partition)
            resumed = () if last_id is None else (("last-event-id", last_id),)
            request = Request("GET", path, wait_s=QUIET_S, accept=SSE, more_headers=resumed)
            try:
                with self._links.open(request) as response:
                    for event_id, data in _events(response):
                        yield values.record(topic, msgspec.json.decode(data))
                        last_id = event_id
            except (OSError, http.client.HTTPException) as error:
                self._links.check_open()
                if last_id is None and from_offset is None and since is None:
                    raise ConnectionFailed(f"the stream ended before its first record: {error}") from error

    # Topics and nodes

    def create_topic(
        self, name: str, *, rf: int = 3, partitions: int | None = None, owner_id: int | None = None
    ) -> dict[str, Json]:
        path = values.path("admin", "topics", name=name, rf=rf, partitions=partitions, owner_id=owner_id)
        return dict(self._links.ask(Request("POST", path)))

    def delete_topic(self, name: str) -> None:
        self._links.ask(Request("DELETE", values.path("admin", "topics", name)))

    def topics(self) -> dict[str, Json]:
        return dict(self._get("admin", "topics")["topics"])

    def topic(self, name: str) -> dict[str, Json]:
        return dict(self._get("admin", "topics", name))

    def replicas(self, topic: str) -> dict[str, Json]:
        return dict(self._get("replicas", topic))

    def add_replica(self, topic: str, broker_id: int) -> dict[str, Json]:
        path = values.path("admin", "topics", topic, "replicas", broker_id_to_add=broker_id)
        return dict(self._links.ask(Request("POST", path)))

    def remove_replica(self, topic: str, broker_id: int) -> dict[str, Json]:
        path = values.path("admin", "topics", topic, "replicas", str(broker_id))
        return dict(self._links.ask(Request("DELETE", path)))

    def leader(self) -> dict[str, Json]:
        return dict(self._get("admin", "leader"))

    def isr(self) -> dict[str, Json]:
        return dict(self._get("admin", "isr"))

    def metadata(self) -> dict[str, Json]:
        return dict(self._get("metadata"))

    def stats(self) -> dict[str, Json]:
        return dict(self._get("stats"))

    def metrics(self) -> dict[str, Json]:
        return dict(self._get("metrics"))

    def _get(self, *parts: str) -> Json:
        return self._links.ask(Request("GET", values.path(*parts)))


def _events(response: http.client.HTTPResponse) -> Iterator[tuple[str, bytes]]:
    """Id and data of each record of a stream."""
    fields: dict[bytes, bytes] = {}
    for line in response:
        name, colon, value = line.rstrip(b"\r\n").partition(b":")
        if colon and name:
            fields[name] = value.removeprefix(b" ")
        elif not name and not colon:
            if b"data" in fields and b"event" not in fields:
                yield fields.get(b"id", b"").decode(), fields[b"data"]
            fields = {}
    raise ConnectionResetError("the stream ended")
