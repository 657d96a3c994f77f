"""What a handler of the Kafka door knows about the request it handles, besides its body."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

from headrace.errors import HeadraceError
from headrace.log.config import Done

if TYPE_CHECKING:
    from headrace.broker.broker import Broker


T = TypeVar("T")


class InBackground(Protocol):
    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]: ...


class Context(NamedTuple):
    broker: Broker
    api_key: int
    version: int
    correlation_id: int
    client_id: str | None
    peer_host: str
    listener: tuple[str, int]
    """What we advertise as this node's address: where the client reached us, unless a setting says otherwise."""

    in_background: InBackground
    """For what would hold up the loop."""

    async def when(self, start: Callable[[Done], None]) -> None:
        """Waits for what `start` begins, and which tells by a call how it ended; raises what it was told."""
        promise = self.broker.new_promise()

        def done(error: HeadraceError | None) -> None:
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        start(done)
        await promise
