"""The Kafka door, with the same four verbs. `headrace produce`, `consume` and `topic` can do more."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import msgspec

from headrace.cli.connecting import with_client
from headrace.cli.last_records import last_records
from headrace.cli.options import current
from headrace.cli.record_values import text_of
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe
from headrace.client.addresses import Address

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import Record

DOOR = "kafka"
ISOLATION = "read_uncommitted"  # of who follows, too
HOUR_MS = 3_600_000


class KafkaSpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        addresses = ",".join(str(Address(*place)) for place in places)
        self._options = msgspec.structs.replace(current(), server=addresses, server_from="--server")

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        own = (("id", wish.message_id),) if wish.message_id is not None else ()
        headers = (*wish.headers.items(), *own)

        async def work(client: Client) -> None:
            async with client.producer() as producer:
                for text in messages:
                    at = await producer.send(wish.topic, text, wish.key, headers, wish.partition)
                    done = Done(DOOR, wish.topic, "acknowledged", at.partition, at.offset)
                    say(f"Published to {wish.topic}:{at.partition} at offset {at.offset}", done)

        with_client(work, self._options)

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        start = "end" if wish.offset is None else wish.offset
        partitions = None if wish.partition is None else [wish.partition]

        async def work(client: Client) -> None:
            left = wish.count
            async with client.consumer(wish.topic, start=start, partitions=partitions) as consumer:
                while left is None or left > 0:
                    for record in await consumer.take(left or 500, None):
                        _say(record, say)
                        left = None if left is None else left - 1

        with_client(work, self._options)

    def create_topic(self, wish: Create, say: Say) -> None:
        settings = {} if wish.retention_hours is None else {"retention.ms": str(wish.retention_hours * HOUR_MS)}

        async def work(client: Client) -> None:
            await client.admin.create_topic(wish.topic, wish.partitions, wish.rf or -1, settings)

        with_client(work, self._options)
        say(f"Created topic '{wish.topic}' with {wish.partitions} partitions", Done(DOOR, wish.topic, "created"))

    def history(self, wish: Past, say: Say) -> None:
        """Of each partition the last; of all of these the latest."""
        partitions = None if wish.partition is None else [wish.partition]

        async def work(client: Client) -> None:
            start = await last_records(client, [wish.topic], partitions, wish.last, ISOLATION) if wish.last > 0 else 0
            async with client.consumer(wish.topic, start=start, partitions=partitions, follow=False) as consumer:
                found = [record async for record in consumer]
            found.sort(key=lambda record: record.timestamp_ms)
            for record in found[-wish.last :]:
                _say(record, say)

        with_client(work, self._options)


def _say(record: Record, say: Say) -> None:
    headers = {name: text_of(value) for name, value in record.headers}
    heard = Heard(
        DOOR,
        record.topic,
        text_of(record.value),
        record.partition,
        record.offset,
        record.timestamp_ms,
        record.id,
        text_of(record.key),
        headers,
    )
    value = (record.value or b"").decode(errors="replace")
    say(f"[{record.topic}:{record.partition}@{record.offset}] {value}", heard)
