"""Topics that a publish finds missing, or too small: they are made, or grown, as the request needs them.

The original replied success and dropped the message. Here a topic that is not there is made with partitions enough for
the one that is named, and one that has too few gets more, up to a bound: a slip of the pen in a request must not make
ten thousand logs. Who turned off that topics make themselves is not overruled.
"""

from __future__ import annotations

from headrace.broker.broker import Broker
from headrace.broker.publishing import check_name
from headrace.broker.wishes import MorePartitions, NewTopic
from headrace.errors import HeadraceError, InvalidPartitions, TopicExists, UnknownTopic
from headrace.wire.json.requests import CreateTopic, Publish

MADE_PARTITIONS = 16  # of a topic that a publish makes or grows; create_topic makes more


def is_missing(broker: Broker, request: Publish) -> bool:
    """With one partition, publishing makes it."""
    topic = broker.topic(request.topic)
    return request.partition > 0 and (topic is None or request.partition >= len(topic.partitions))


async def make(broker: Broker, request: Publish) -> None:
    check_name(request.topic)  # before anything is made: what cannot be published to does not grow
    wanted, topic = request.partition + 1, broker.topic(request.topic)
    if not broker.configuration.auto_create_topics:
        raise UnknownTopic(f"there is no partition {request.partition} of topic {request.topic!r}")
    if wanted > MADE_PARTITIONS:
        raise InvalidPartitions(
            f"there is no partition {request.partition} of topic {request.topic!r}, and publishing makes only "
            f"{MADE_PARTITIONS} partitions: use create_topic"
        )
    if topic is None:
        (made,) = await broker.create_topics([NewTopic(request.topic, wanted)])
        if isinstance(made, HeadraceError) and not isinstance(made, TopicExists):  # somebody else was quicker
            raise made
        topic = broker.topic(request.topic)
    if topic is not None and len(topic.partitions) < wanted:
        (error,) = await broker.add_partitions([MorePartitions(request.topic, wanted)])
        grown = broker.topic(request.topic)
        if error is not None and (grown is None or len(grown.partitions) < wanted):
            raise error


async def create(broker: Broker, request: CreateTopic) -> None:
    (made,) = await broker.create_topics([NewTopic(request.topic, request.partitions)])
    if isinstance(made, HeadraceError):
        raise made
