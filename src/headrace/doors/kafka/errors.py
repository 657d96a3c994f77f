"""Our errors as Kafka's codes, for the handlers of requests: as wire/kafka/errors.py has them, and counted by API.

Whose request it is that is being handled, a handler need not say: the door notes it around the call, and tasks that a
handler starts inherit it. Produce and Fetch, which serve many requests in one turn, count for themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from headrace.wire.kafka import errors as wire

_COUNT: ContextVar[Callable[[int], None] | None] = ContextVar("headrace_kafka_errors", default=None)


@contextmanager
def counted(count: Callable[[int], None]) -> Iterator[None]:
    """Codes that are asked for inside are counted by this."""
    token = _COUNT.set(count)
    try:
        yield
    finally:
        _COUNT.reset(token)


def code_for(error: BaseException) -> tuple[wire.Code, str]:
    """The code of the nearest class that has one, and the text."""
    code, text = wire.code_for(error)
    count = _COUNT.get()
    if count is not None:
        count(code)
    return code, text
