"""Errors of ours as HTTP has them: a status, and `{"detail": …}`.

The texts that a client may look at are those of the protocol (`Topic not found`); where it has none the error's own
words go out, which say the cause and the next step.
"""

from __future__ import annotations

from typing import Any

from starlette.exceptions import HTTPException

from headrace import errors
from headrace.errors import HeadraceError

Detail = str | dict[str, Any]

BAD, MISSING, CONFLICT, TOO_LARGE, UNAVAILABLE = 400, 404, 409, 413, 503
RETRY = {"retry-after": "1"}

NOT_FOUND = "Topic not found"
NO_CONSUMER = "group_id requires consumer_id"
HELD = "Group already has an active consumer"
BAD_OFFSET = "invalid offset"
NOT_REPLICATED = "ISR replication failed"

_STATUS: dict[type[HeadraceError], int] = {
    errors.UnknownTopic: MISSING,
    errors.UnknownTopicId: MISSING,
    errors.GroupNotFound: MISSING,
    errors.TopicExists: CONFLICT,
    errors.GroupNotEmpty: CONFLICT,
    errors.QueueModeConflict: CONFLICT,
    errors.InvalidAcks: BAD,
    errors.InvalidTopicName: BAD,
    errors.InvalidPartitions: BAD,
    errors.InvalidReplication: BAD,
    errors.InvalidConfig: BAD,
    errors.InvalidRecord: BAD,
    errors.InvalidTimestamp: BAD,
    errors.InvalidGroupId: BAD,
    errors.CorruptBatch: BAD,
    errors.OffsetOutOfRange: BAD,
    errors.MessageTooLarge: TOO_LARGE,
}
_TEXT: dict[type[HeadraceError], str] = {errors.NotEnoughReplicas: NOT_REPLICATED}


class Refused(HTTPException):
    def __init__(self, status: int, detail: Detail) -> None:
        # What goes by itself in a moment is worth asking again.
        super().__init__(status, detail, RETRY if status == UNAVAILABLE else None)  # type: ignore[arg-type]  # JSON


def status_of(error: HeadraceError) -> int:
    """503 for what has no status of its own: it is the node's trouble, not the request's."""
    return next((_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS), UNAVAILABLE)


def words_of(error: HeadraceError) -> str:
    return next((_TEXT[kind] for kind in type(error).__mro__ if kind in _TEXT), str(error))


def refused(error: HeadraceError) -> Refused:
    return Refused(status_of(error), words_of(error))
