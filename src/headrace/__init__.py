"""Headrace: one log, many doors. What a program needs of the client is here by name:

    import headrace

    with headrace.connect("127.0.0.1:9092") as client:
        with client.producer() as producer:
            producer.send("greetings", "hello")

Names are imported when they are first used, so that a node never pays for a client. `headrace.aio` has the async ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace import aio
    from headrace.client.blocking import Client, connect
    from headrace.client.blocking_consumer import Consumer, GroupConsumer
    from headrace.client.blocking_producer import Producer, TransactionalProducer
    from headrace.client.values import Delivery, Record, Time, TopicPartition

__version__ = "0.1.0"  # the only place where it is written

__all__ = [
    "Client",
    "Consumer",
    "Delivery",
    "GroupConsumer",
    "Producer",
    "Record",
    "Time",
    "TopicPartition",
    "TransactionalProducer",
    "__version__",
    "aio",
    "connect",
]

_HOMES = {
    **dict.fromkeys(("Client", "connect"), "headrace.client.blocking"),
    **dict.fromkeys(("Consumer", "GroupConsumer"), "headrace.client.blocking_consumer"),
    **dict.fromkeys(("Producer", "TransactionalProducer"), "headrace.client.blocking_producer"),
    **dict.fromkeys(("Delivery", "Record", "Time", "TopicPartition"), "headrace.client.values"),
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name == "aio":
        return import_module("headrace.aio")
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'headrace' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
