"""The msgpack door. It answers nothing, so what was sent is all that can be said; what comes is `TOPIC - VALUE`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from headrace.cli.output import json_text
from headrace.cli.speaking.json import json_of
from headrace.cli.speaking.saying import plain
from headrace.cli.speaking.wishes import Create, Done, Heard, Past, Publish, Say, Subscribe, impossible
from headrace.compat.pubsub import Message, PubSubClient
from headrace.errors import ConnectionFailed

DOOR = "msgpack"


class MsgpackSpeaker:
    def __init__(self, places: Sequence[tuple[str, int]], timeout_s: float) -> None:
        host, port = places[0]
        self._address, self._timeout_s = f"[{host}]:{port}" if ":" in host else f"{host}:{port}", timeout_s

    def client(self) -> PubSubClient:
        return PubSubClient(self._address, timeout=self._timeout_s)

    def publish(self, wish: Publish, messages: Iterable[str], say: Say) -> None:
        with self.client() as client:
            for text in messages:
                client.publish(wish.topic, json_of(text) if wish.is_json else text)
                say(f"sent to {wish.topic}", Done(DOOR, wish.topic, "sent"))

    def subscribe(self, wish: Subscribe, say: Say) -> None:
        with self.client() as client:
            client.subscribe(wish.topic)
            self.listen(client, wish.count, say)

    def listen(self, client: PubSubClient, count: int | None, say: Say) -> None:
        left = count
        while left is None or left > 0:
            message = client.recv()
            if message is None:
                raise ConnectionFailed(f"the connection to {self._address} has ended")
            say(words_of(message), Heard(DOOR, message.topic, plain(message.value)))
            left = None if left is None else left - 1

    def create_topic(self, wish: Create, say: Say) -> None:
        raise impossible(DOOR, "make a topic: the first message makes it", ("binary", "http", "json", "kafka"))

    def history(self, wish: Past, say: Say) -> None:
        raise impossible(DOOR, "ask for past messages", ("lines", "http", "json", "binary", "kafka"))


def words_of(message: Message) -> str:
    value = plain(message.value)
    return f"{message.topic} - {value if isinstance(value, str) else json_text(value)}"
