"""Which Kafka APIs there are: one `Api` value in each file of `api/`, and the table made of them.

- The answer to ApiVersions is derived from this table; nothing is advertised that has no handler.
- A range is a promise for every version in it: Kafka 4.3's own, from its oldest to its newest.
- A handler gets bytes that are its own only until it returns: it reads the request at once, and what has to
  wait it does in the coroutine that it returns.
- Unknown APIs and versions close the connection, as Kafka does; only ApiVersions answers a version that it
  does not know, because that is how a newer client finds out.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import NamedTuple

from headrace.doors.kafka.context import Context
from headrace.ports import Buffer
from headrace.wire.kafka.errors import MalformedRequest
from headrace.wire.kafka.header import API_VERSIONS, RequestHeader

# (buffer, where the body begins, where it ends, context) -> the whole answer, now or later
Handler = Callable[[Buffer, int, int, Context], bytes | Awaitable[bytes]]


class Api(NamedTuple):
    key: int
    name: str
    versions: range  # those that are handled
    handler: Handler | None = None  # None: the connection does it (Produce, Fetch)
    advertised_min: int | None = None  # where it is not the oldest version handled

    def handles(self, version: int) -> bool:
        return version in self.versions

    @property
    def advertised(self) -> tuple[int, int]:
        """The oldest and the newest version that ApiVersions names."""
        oldest = self.versions[0] if self.advertised_min is None else self.advertised_min
        return oldest, self.versions[-1]


@cache
def apis() -> Mapping[int, Api]:
    """All of them, by key. Made on first use: each file of `api/` imports this one for `Api`."""
    from headrace.doors.kafka.api import (
        api_versions,
        create_topics,
        delete_topics,
        fetch,
        find_coordinator,
        init_producer_id,
        list_offsets,
        metadata,
        offset_for_leader_epoch,
        produce,
    )

    modules = (
        produce,
        fetch,
        list_offsets,
        metadata,
        find_coordinator,
        api_versions,
        create_topics,
        delete_topics,
        init_producer_id,
        offset_for_leader_epoch,
    )
    return {module.API.key: module.API for module in modules}


def lookup(key: int, version: int) -> Api | None:
    """The API that handles this version of this key."""
    api = apis().get(key)
    if api is not None and (version in api.versions or key == API_VERSIONS):
        return api
    return None


def handle(buffer: Buffer, end: int, header: RequestHeader, context: Context) -> bytes | Awaitable[bytes]:
    """The answer to a request whose header is read. Raises MalformedRequest: close the connection."""
    api = lookup(header.api_key, header.version)
    if api is None or api.handler is None:
        raise MalformedRequest(f"api {header.api_key} version {header.version} is not served here")
    return api.handler(buffer, header.end, end, context)
