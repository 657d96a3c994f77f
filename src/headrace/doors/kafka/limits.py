"""The limits of the Kafka door, each with its reason. All of them bound memory or time that a stranger could take."""

from __future__ import annotations

import msgspec

from headrace.wire.kafka.frame import MAX_REQUEST_BYTES

KIB, MIB = 1 << 10, 1 << 20


class KafkaLimits(msgspec.Struct, frozen=True):
    max_connections: int = 8192
    """Each costs a file descriptor, some 5 KiB, and at the worst SCRATCH_BYTES of requests behind one that waits."""

    idle_ms: int = 600_000
    """Kafka's connections.max.idle.ms: a connection on which nothing moved for this long is closed."""

    max_request_bytes: int = MAX_REQUEST_BYTES
    """The largest frame that is taken."""

    request_memory_bytes: int = 256 * MIB
    """Of frames that are on their way in, all connections together. Past it, connections take turns."""

    max_in_flight: int = 1000
    """Produce requests of one connection that wait for their sync; past it, the connection is not read."""

    fetch_max_bytes: int = 16 * MIB
    """Of one Fetch answer, whatever the client asks for: more comes with its next request."""

    unsent_bytes: int = 256 * MIB
    """Of answers that slow clients have not taken yet, all together. Past it, Fetch answers hold little, and who
    takes nothing is closed."""

    max_sessions: int = 1000
    """Fetch sessions, as many as Kafka keeps (max.incremental.fetch.session.cache.slots)."""

    stall_ms: int = 30_000
    """A frame that was begun and does not go on for this long gives its memory back: the connection is closed. So do
    answers that a client does not take after we have closed."""


SCRATCH_BYTES = 64 * KIB  # one for all connections: what one read can bring, and all of a large frame that is copied
PEEK_BYTES = 4 * KIB  # read of a connection that sends large frames, to see the next one's size: the rest is not copied
OWN_FRAME_BYTES = 16 * KIB  # an unfinished frame above this gets a buffer of its own
EAGER_FRAME_BYTES = 2 * MIB  # up to this, it is made whole at once: a producer's usual megabyte is never copied
FIRST_STEP_BYTES = 64 * KIB  # beyond it, or when memory is short, it grows as the bytes come
WRITE_HIGH_WATER_BYTES = MIB  # unsent answers of one connection at which its requests wait
JOINED_BYTES = 32 * KIB  # answers up to this together are copied into one piece: cheaper than a vector of many
