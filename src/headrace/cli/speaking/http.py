"""The http door. A publisher hears the offset, a maker of topics the answer as Python writes it, as that protocol's own
tools had it; a record is the JSON that the door shows. A subscription polls and commits, and goes on to the next
address when one fails."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

from headrace.cli.exits import NOT_FOUND, REFUSED, Refusal
from headrace.cli.output import json_text
from headrace.cli.speaking.json import json_of
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe, unknown
from headrace.compat.http_client import HttpClient
from headrace.compat.http_values import HttpRecord, HttpRefused

DOOR = "http"
MISSING, NO_TOPIC = 404, "Topic not found"
MAX_RECORDS, MOST_AT_ONCE = 10, 1000  # of one poll: as its own tool asks for them, and what the door gives at most
MOST_WAIT_S = 60.0  # for one poll, as the door takes it


class HttpSpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        self._places = [f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in places]
        self._timeout_s = timeout_s

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        with self._client(wish.topic) as client:
            for text in messages:
                value = json_of(text) if wish.is_json else text
                at = client.publish(
                    wish.topic,
                    value,
                    wish.key,
                    dict(wish.headers),
                    partition=wish.partition,
                    message_id=wish.message_id,
                )
                answer = "duplicate" if at.duplicate else "published"
                say(f"-> published offset {at.offset}", Done(DOOR, wish.topic, answer, at.partition, at.offset))

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        with self._client(wish.topic) as client:
            at, left = wish.offset, wish.count
            while left is None or left > 0:
                most = min(wish.max_records or MAX_RECORDS, left or MOST_AT_ONCE)
                polled = client.poll(
                    wish.topic,
                    group_id=wish.group_id,
                    consumer_id=wish.consumer_id,
                    from_offset=at,
                    max_records=most,
                    timeout_ms=int(min(wish.wait_s, MOST_WAIT_S) * 1000),
                    prefer_replica=wish.prefer_replica,
                    partition=wish.partition,
                )
                for record in polled.records:
                    _say(record, say)
                left = None if left is None else left - len(polled.records)
                if not polled.records and wish.show_idle:
                    say("(idle)", None)
                if polled.records and not wish.no_commit:
                    self._commit(client, wish, polled.records[-1])
                if wish.no_commit or wish.offset is not None:
                    at = polled.next_offset

    def create_topic(self, wish: Create, say: Say) -> None:
        given = {} if wish.rf is None else {"rf": wish.rf}
        with self._client(wish.topic) as client:
            answer = client.create_topic(wish.topic, partitions=wish.partitions, owner_id=wish.owner_id, **given)
        say(str(answer), Done(DOOR, wish.topic, answer))

    def history(self, wish: Past, say: Say) -> None:
        bounds = {"from_": wish.from_offset, "to": wish.to_offset, "since": wish.since_ms, "until": wish.until_ms}
        asked = {**bounds, "limit": wish.count} if wish.is_range else {"last": wish.last}
        with self._client(wish.topic) as client:
            found = client.records(wish.topic, partition=wish.partition, **asked)
            for record in islice(found, wish.count if wish.is_range else None):
                _say(record, say)

    @contextmanager
    def _client(self, topic: str) -> Iterator[HttpClient]:
        with HttpClient(self._places, timeout=self._timeout_s) as client:
            try:
                yield client
            except HttpRefused as error:
                if error.detail == NO_TOPIC:
                    raise unknown(topic) from error
                raise Refusal(str(error), code=NOT_FOUND if error.status == MISSING else REFUSED) from error

    def _commit(self, client: HttpClient, wish: Subscribe, last: HttpRecord) -> None:
        partition = last.partition if wish.partition is not None or last.partition else None
        client.commit(
            wish.topic, last.offset, group_id=wish.group_id, consumer_id=wish.consumer_id, partition=partition
        )


def _say(record: HttpRecord, say: Say) -> None:
    shown = {
        "offset": record.offset,
        "ts_ms": record.ts_ms,
        "key": record.key,
        "value": record.value,
        "headers": record.headers,
    }
    heard = Heard(
        DOOR,
        record.topic,
        record.value,
        record.partition,
        record.offset,
        record.ts_ms,
        record.id,
        record.key,
        record.headers,
    )
    say(json_text(shown), heard)
