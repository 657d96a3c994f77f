"""A query's progress, published as the positions of a group, so that its lag shows where every group's does.

The positions are for people to look at: a query goes on from its checkpoint, never from them. So a broker that cannot
be reached just now costs a warning and nothing else.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import logging
from typing import Final

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

import headrace
from headrace.client.blocking import Client
from headrace.errors import HeadraceError
from headrace.spark.offsets import Place, place_of

logger = logging.getLogger("headrace.spark")

TIMEOUT_S: Final = 10.0
LISTENING: Final = "_headrace_progress"  # what a session that is listened to is marked with


def publish(client: Client, place: Place) -> None:
    if place.group is None or not place.offsets:
        return
    try:
        client.admin.alter_group_offsets(place.group, {(*where,): offset for where, offset in place.offsets.items()})
    except HeadraceError as error:
        logger.warning("the progress of group %r was not published: %s", place.group, error)


class Progress(StreamingQueryListener):
    """Hears of every micro-batch that is done, the last one of a query too."""

    def __init__(self) -> None:
        self._clients: dict[str, Client] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        pass

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        for source in event.progress.sources:
            place = _place(source.endOffset)
            if place is not None and place.group is not None and place.servers is not None:
                client = self._client(place.servers)
                if client is not None:
                    publish(client, place)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        for servers in list(self._clients):
            self._clients.pop(servers).close()

    def _client(self, servers: str) -> Client | None:
        if servers not in self._clients:
            try:
                self._clients[servers] = headrace.connect(servers, "headrace-spark-progress", TIMEOUT_S)
            except HeadraceError as error:
                logger.warning("the progress of a query was not published: %s", error)
        return self._clients.get(servers)


def _place(offsets: str | None) -> Place | None:
    """None for another source's offsets."""
    try:
        return place_of(json.loads(offsets or ""))
    except (ValueError, TypeError, AttributeError, KeyError):
        return None


def listen(spark: SparkSession) -> None:
    """Once for each session, until the program ends: what Java would still tell then, it would tell to nobody, and
    complain of it."""
    if not getattr(spark, LISTENING, False):
        listener = Progress()
        spark.streams.addListener(listener)
        setattr(spark, LISTENING, True)
        atexit.register(_hear_out, spark, listener)


def _hear_out(spark: SparkSession, listener: Progress) -> None:
    context = spark.sparkContext._jsc
    if context is None:  # it was stopped
        return
    with contextlib.suppress(Py4JError, OSError):
        context.sc().listenerBus().waitUntilEmpty()
        spark.streams.removeListener(listener)
