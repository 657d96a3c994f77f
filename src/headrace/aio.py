"""The async client under its short name: `import headrace.aio`, then `async with headrace.aio.connect("host:9092")`."""

from headrace.client.admin import Admin
from headrace.client.client import Client, connect
from headrace.client.consumer import Consumer
from headrace.client.group_consumer import GroupConsumer
from headrace.client.producer import Producer
from headrace.client.transactional_producer import TransactionalProducer
from headrace.client.values import Delivery, Record, Time, TopicPartition

__all__ = [
    "Admin",
    "Client",
    "Consumer",
    "Delivery",
    "GroupConsumer",
    "Producer",
    "Record",
    "Time",
    "TopicPartition",
    "TransactionalProducer",
    "connect",
]
