"""Clients of the other five protocols: one file for each, with the names that their users know.

They stand on wire/ alone. A class is imported when it is asked for, so that one costs nothing of the others.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.compat.aio_broker_client import AsyncBrokerClient as AsyncBrokerClient
    from headrace.compat.aio_http_client import AsyncHttpClient as AsyncHttpClient
    from headrace.compat.aio_line_client import AsyncLineClient as AsyncLineClient
    from headrace.compat.binary_values import NotHandled as NotHandled
    from headrace.compat.binary_values import Refused as Refused
    from headrace.compat.broker_client import BrokerClient as BrokerClient
    from headrace.compat.http_client import HttpClient as HttpClient
    from headrace.compat.http_values import PublishUncertain as PublishUncertain
    from headrace.compat.json_client import Consumer as Consumer
    from headrace.compat.json_client import Producer as Producer
    from headrace.compat.line_client import LineClient as LineClient
    from headrace.compat.pubsub import AsyncPubSubClient as AsyncPubSubClient
    from headrace.compat.pubsub import PubSubClient as PubSubClient
    from headrace.compat.sync_json_client import SyncConsumer as SyncConsumer
    from headrace.compat.sync_json_client import SyncProducer as SyncProducer

_PLACES = {
    "AsyncHttpClient": "aio_http_client",
    "HttpClient": "http_client",
    "AsyncLineClient": "aio_line_client",
    "Consumer": "json_client",
    "LineClient": "line_client",
    "Producer": "json_client",
    "SyncConsumer": "sync_json_client",
    "SyncProducer": "sync_json_client",
    "AsyncBrokerClient": "aio_broker_client",
    "BrokerClient": "broker_client",
    "AsyncPubSubClient": "pubsub",
    "PubSubClient": "pubsub",
    "PublishUncertain": "http_values",
    "Refused": "binary_values",
    "NotHandled": "binary_values",
}


def __getattr__(name: str) -> object:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_PLACES[name]}"), name)
