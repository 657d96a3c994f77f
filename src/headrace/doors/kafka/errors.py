"""Our errors as Kafka's codes, for the handlers of requests: as wire/kafka/errors.py has them, and counted by API.

Whose request it is that is being handled, a handler need not say: the door notes it around the call, and tasks that a
handler starts inherit it. Produce and Fetch, which serve many requests in one turn, count for themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

from headrace.wire.kafka import errors as wire

Count = Callable[[int], None]

_COUNT: ContextVar[Count | None] = ContextVar("headrace_kafka_errors", default=None)


class counted:  # noqa: N801  # a context manager, and once per request: as a generator it would take three times as long
    """Codes that are asked for inside are counted by this."""

    __slots__ = ("_count", "_token")

    def __init__(self, count: Count | None) -> None:
        self._count = count

    def __enter__(self) -> None:
        self._token = _COUNT.set(self._count)

    def __exit__(self, *_: object) -> None:
        _COUNT.reset(self._token)


def current_count() -> Count | None:
    """For who answers later."""
    return _COUNT.get()


def code_for(error: BaseException) -> tuple[wire.Code, str]:
    """The code of the nearest class that has one, and the text."""
    code, text = wire.code_for(error)
    count = _COUNT.get()
    if count is not None:
        count(code)
    return code, text
