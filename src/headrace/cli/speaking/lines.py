"""The lines door: what it answers is what is printed, line for line, as its own tools did."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cli.exits import Refusal
from headrace.cli.speakers import SILENCE_S, refuse_kafka
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe, impossible
from headrace.compat.line_client import LineClient
from headrace.compat.line_values import LineRefused
from headrace.errors import RequestTimedOut
from headrace.wire.lines.messages import Message

DOOR = "lines"


class LinesSpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        (self._host, self._port), self._timeout_s = places[0], timeout_s

    def _client(self) -> LineClient:
        """A lines door greets at once. Who is silent is asked whether it is another door, and then waited for."""
        try:
            client = LineClient(self._host, self._port, timeout=min(self._timeout_s, SILENCE_S))
        except RequestTimedOut:
            refuse_kafka(DOOR, [(self._host, self._port)])
            return LineClient(self._host, self._port, timeout=self._timeout_s)
        client.timeout = self._timeout_s
        return client

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        with self._client() as client:
            for text in messages:
                try:
                    is_stored = client.publish(wish.topic, text, wish.message_id)
                except LineRefused as error:
                    raise Refusal(str(error)) from error
                answer = "published" if is_stored else "duplicate"
                say(f"OK {answer}", Done(DOOR, wish.topic, answer))

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        left = wish.count
        with self._client() as client:
            say("OK connected", None)
            say(f"Subscribing to topic '{wish.topic}'{f' in group {wish.group!r}' if wish.group else ''}", None)
            if wish.history is not None:
                _say_all("HISTORY", client.history(wish.topic, wish.history), say)
                say("OK history end", None)
            say(f"OK {client.subscribe(wish.topic, wish.group, acknowledge=wish.ack)}", None)
            while left is None or left > 0:
                message = client.receive()
                assert message is not None
                _say_all("MSG", [message], say)
                if wish.ack:  # what was sent ahead and not shown stays the group's
                    client.acknowledge(message)
                left = None if left is None else left - 1

    def create_topic(self, wish: Create, say: Say) -> None:
        raise impossible(DOOR, "make a topic: the first message makes it", ("binary", "http", "json", "kafka"))

    def history(self, wish: Past, say: Say) -> None:
        with self._client() as client:
            _say_all("HISTORY", client.history(wish.topic, wish.last), say)
            say("OK history end", None)


def _say_all(verb: str, messages: Iterable[Message], say: Say) -> None:
    for one in messages:
        heard = Heard(DOOR, one.topic, one.text, offset=one.offset, timestamp_ms=round(one.time * 1000), id=one.id)
        say(f"{verb} {one.topic} {one.id} {one.offset} {one.time!r} {one.text}", heard)
