"""The json door: what it answers is what is printed. It has no way to wait for a message, so a subscription asks again
and again for the next ones."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any

from headrace.cli.exits import Refusal, usage
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe
from headrace.compat.json_values import JsonRecord, JsonRefused, NoMessage
from headrace.compat.sync_json_client import SyncConsumer, SyncProducer

DOOR = "json"
ASK_AGAIN_S = 0.1
AT_ONCE = 100  # messages of a page


class JsonSpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        host, port = places[0]
        self._producer = SyncProducer(host, port, timeout=timeout_s)
        self._consumer = SyncConsumer(host, port, timeout=timeout_s)

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        partition = wish.partition or 0
        for text in messages:
            payload = json_of(text) if wish.is_json else text
            try:
                answer = self._producer.publish(wish.topic, partition, payload)
            except JsonRefused as error:
                raise Refusal(str(error)) from error
            _answered(answer, Done(DOOR, wish.topic, answer, partition), say)

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        partition, offset, left = wish.partition or 0, wish.offset or 0, wish.count
        while left is None or left > 0:
            try:
                found = self._next(wish.topic, partition, offset, min(left or AT_ONCE, AT_ONCE))
            except NoMessage:
                time.sleep(ASK_AGAIN_S)
                continue
            except JsonRefused as error:
                raise Refusal(str(error)) from error
            for at, heard in found:
                _say(heard, say)
                offset, left = at + 1, None if left is None else left - 1

    def _next(self, topic: str, partition: int, offset: int, most: int) -> list[tuple[int, Heard]]:
        """The message at the offset, and with a page what came behind it: only pages tell of ids and times. A server
        without pages tells that message and no more."""
        value, at = self._consumer.consume_with_offset(topic, partition, offset)
        try:
            found = self._consumer.page(topic, partition=partition, from_=at, limit=most).records
        except (JsonRefused, ValueError):
            found = []
        if not found or found[0].offset != at:  # retention went past it meanwhile: it was heard all the same
            return [(at, Heard(DOOR, topic, value, partition, at))]
        return [(one.offset, _heard(one)) for one in found]

    def create_topic(self, wish: Create, say: Say) -> None:
        try:
            answer = self._producer.create_topic(wish.topic, wish.partitions)
        except JsonRefused as error:
            raise Refusal(str(error)) from error
        _answered(answer, Done(DOOR, wish.topic, answer), say)

    def history(self, wish: Past, say: Say) -> None:
        """Nothing, and no error, of a topic that is not there."""
        try:
            for one in self._past(wish):
                _say(_heard(one), say)
        except NoMessage:
            return
        except JsonRefused as error:
            raise Refusal(str(error)) from error

    def _past(self, wish: Past) -> Iterable[JsonRecord]:
        if not wish.is_range and wish.last < 1:
            return []
        if not wish.is_range:
            return self._consumer.history(wish.topic, wish.last, wish.partition)
        return self._consumer.records(
            wish.topic,
            limit=wish.count,
            partition=wish.partition,
            from_=wish.from_offset,
            to=wish.to_offset,
            since=wish.since_ms,
            until=wish.until_ms,
        )


def json_of(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise usage(f"{text!r} is not JSON: {error}", "without --json it is sent as text") from None


def _answered(words: str, done: Done, say: Say) -> None:
    say(json.dumps({"status": "success", "message": words}), done)


def _heard(one: JsonRecord) -> Heard:
    return Heard(DOOR, one.topic, one.payload, one.partition, one.offset, one.ts_ms, one.id)


def _say(heard: Heard, say: Say) -> None:
    say(json.dumps({"status": "success", "message": heard.value}), heard)
