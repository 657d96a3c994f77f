"""Messages on their way in: those of one read that follow each other, for one topic, are one run.

Where the topic cannot refuse one of them alone, a run is published in one go and answered in one go. Where it can (too
large, known by its id, several partitions, or no topic yet), each has its own way, and the replies are put together
when all are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final

from headrace.broker.broker import Broker
from headrace.broker.publishing.published import Published
from headrace.broker.topic import Topic
from headrace.errors import HeadraceError
from headrace.records.record import Record
from headrace.wire.lines import messages
from headrace.wire.lines.commands import MAX_ID_BYTES, Command, Publish, parse

# Replies, and how many of them refuse.
Done = Callable[[bytes, int], None]

ROOM_BYTES: Final = MAX_ID_BYTES + len(messages.ID) + sum(map(len, messages.RAW))  # of a record, beside its text


class PublishRun:
    __slots__ = ("ids", "longest", "texts", "topic")

    def __init__(self, topic: str) -> None:
        self.topic = topic
        self.texts: list[str] = []
        self.ids: list[str | None] = []
        self.longest = 0  # characters

    def add(self, message: Publish) -> None:
        self.texts.append(message.text)
        self.ids.append(message.id)
        self.longest = max(self.longest, len(message.text))

    def records(self, new_id: Callable[[], str]) -> list[Record]:
        return [
            Record(None, text.encode(), messages.headers_of(text, own or new_id()))
            for text, own in zip(self.texts, self.ids, strict=True)
        ]


def gathered(lines: Sequence[str]) -> Iterator[Command | PublishRun | None]:
    """Commands, with what is to be published in runs."""
    run: PublishRun | None = None
    for line in lines:
        command = parse(line)
        if isinstance(command, Publish):
            if run is None or run.topic != command.topic:
                if run is not None:
                    yield run
                run = PublishRun(command.topic)
            run.add(command)
        elif command is not None:
            if run is not None:
                yield run
                run = None
            yield command
    if run is not None:
        yield run


def publish(broker: Broker, run: PublishRun, done: Done) -> None:
    records = run.records(broker.new_message_id)
    topic = broker.topic(run.topic)
    if len(records) > 1 and topic is not None and _takes_all(topic, run):
        broker.publishing.publish_run(run.topic, records, partial(_published, len(records), done), partition=0)
        return
    replies = _Replies(len(records), done)
    for place, record in enumerate(records):
        broker.publishing.publish(run.topic, record, partial(replies.came, place))


def _takes_all(topic: Topic, run: PublishRun) -> bool:
    if len(topic.partitions) > 1 or topic.window_ms or topic.is_compacted:
        return False
    return 4 * run.longest + ROOM_BYTES <= topic.config.max_message_bytes  # a character has four bytes at most


def _published(count: int, done: Done, published: Sequence[Published] | HeadraceError) -> None:
    if isinstance(published, HeadraceError):
        done(messages.failed(published) * count, count)
    else:
        done(messages.PUBLISHED * count, 0)


class _Replies:
    """To each of a run's messages."""

    __slots__ = ("_done", "_errors", "_left", "_replies")

    def __init__(self, count: int, done: Done) -> None:
        self._replies, self._left, self._done, self._errors = [b""] * count, count, done, 0

    def came(self, place: int, published: Published | HeadraceError) -> None:
        if isinstance(published, HeadraceError):
            self._errors += 1
            self._replies[place] = messages.failed(published)
        else:
            self._replies[place] = messages.DUPLICATE if published.duplicate else messages.PUBLISHED
        self._left -= 1
        if not self._left:
            self._done(b"".join(self._replies), self._errors)
