"""ApiVersions, 0 to 4: what this door speaks, derived from the registry."""

from __future__ import annotations

import re
from functools import cache

from headrace.doors.kafka.context import Context
from headrace.doors.kafka.registry import Api, apis
from headrace.ports import Buffer
from headrace.wire.kafka import api_versions as wire
from headrace.wire.kafka.errors import Code
from headrace.wire.kafka.header import API_VERSIONS

# Transactions of version 2: each end raises the producer's epoch, and Produce adds partitions (KIP-890).
FEATURES = (wire.Feature("transaction.version", 0, 2, 2),)

# What Kafka takes for the name and the version of a client's software.
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9.-]*[a-zA-Z0-9])?")


def handle(buffer: Buffer, at: int, end: int, context: Context) -> bytes:
    version, correlation_id = context.version, context.correlation_id
    if version not in API.versions:
        # In the oldest format, and with the range that we do speak of this very API: the client asks again
        # with it.
        return wire.encode_response(0, correlation_id, Code.UNSUPPORTED_VERSION, [_range(API)])
    request = wire.decode_request(buffer, at, end, version)
    if version >= 3 and not (
        _SOFTWARE.fullmatch(request.software_name) and _SOFTWARE.fullmatch(request.software_version)
    ):
        return wire.encode_response(version, correlation_id, Code.INVALID_REQUEST, [])
    return wire.encode_response(version, correlation_id, Code.NONE, _ranges(), features=FEATURES)


@cache
def _ranges() -> list[wire.ApiRange]:
    return [_range(api) for _, api in sorted(apis().items())]


def _range(api: Api) -> wire.ApiRange:
    return wire.ApiRange(api.key, *api.advertised)


API = Api(API_VERSIONS, "ApiVersions", range(wire.OLDEST, wire.NEWEST + 1), handle)
