"""Which node coordinates a group or a transactional id, and asking it: again while it loads or has just moved.

An answer that says "not me" or "not yet" did nothing, so asking again is right for changes too. A lost connection is
another thing: what reads is asked again, what changes something is not, since nobody knows whether it was done.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeVar

from headrace.client import backoff
from headrace.client.apis import FIND_COORDINATOR, Api
from headrace.client.asking import Asking
from headrace.client.connection import Connection
from headrace.client.refusals import MOVING as MOVING  # also for who asks a coordinator
from headrace.client.refusals import error_of
from headrace.errors import ConnectionFailed, HeadraceError, RequestTimedOut
from headrace.wire.kafka import messages

GROUP: Final = 0
TRANSACTION: Final = 1

Q = TypeVar("Q")
A = TypeVar("A")
R = TypeVar("R")


class Coordinators:
    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._loop = asyncio.get_running_loop()

    async def find(self, kind: int, key: str) -> int:
        """The node's id."""
        what = "group" if kind == GROUP else "transactional id"

        def fill(schema: Any) -> Any:
            return messages.build(schema.FindCoordinatorRequest, key=key, key_type=kind)

        async def ask() -> tuple[Any, frozenset[int]]:
            answer = await self._asking.any(FIND_COORDINATOR, fill)
            return answer, frozenset({answer.error_code.value})

        answer = await self.until_settled(f"the coordinator of {what} {key!r}", ask)
        if answer.error_code.value:
            raise error_of(answer.error_code.value, f"{what} {key!r}", answer.error_message)
        return int(answer.node_id)

    async def ask(
        self,
        kind: int,
        key: str,
        api: Api[Q, A],
        request: Q,
        codes: Callable[[A], list[int]],
        *,
        changes: bool = False,
        passing: frozenset[int] = MOVING,
    ) -> tuple[int, A]:
        """The node that answered, and its answer, with none of the `passing` codes in it."""

        async def ask() -> tuple[tuple[int, A], frozenset[int]]:
            node_id = await self.find(kind, key)
            connection = await self._asking.to(node_id)
            try:
                answer = await connection.ask(api, request, self._asking.timeout)
            except ConnectionFailed as error:
                if changes:
                    raise Unknown(f"{error}; whether {api.name} was done is not known") from error
                raise
            return (node_id, answer), frozenset(codes(answer)) & passing

        return await self.until_settled(f"{api.name} for {key!r}", ask, passing)

    async def ask_node(self, node_id: int, api: Api[Q, A], request: Q, code: Callable[[A], int]) -> A:
        """What one node coordinates of all; again while it still loads some of it."""

        async def ask() -> tuple[A, frozenset[int]]:
            answer = await self._asking.node(node_id, api, request)
            return answer, frozenset({code(answer)})

        return await self.until_settled(f"{api.name} of node {node_id}", ask)

    async def until_settled(
        self, what: str, ask: Callable[[], Awaitable[tuple[R, frozenset[int]]]], passing: frozenset[int] = MOVING
    ) -> R:
        deadline, failures = self._loop.time() + self._asking.timeout, 0
        while True:
            problem: HeadraceError
            try:
                answer, codes = await ask()
                if not codes & passing:
                    return answer
                problem = error_of(min(codes & passing), what, "the coordinator is not ready, or busy")
            except Unknown:
                raise
            except (ConnectionFailed, RequestTimedOut) as error:
                problem = error
            failures += 1
            wait_s = backoff.wait_s(failures)
            if self._loop.time() + wait_s > deadline:
                raise problem
            await asyncio.sleep(wait_s)


class Coordinator:
    """The coordinator of one group or transactional id, remembered until it is not there, or not it, any more."""

    def __init__(self, asking: Asking, kind: int, key: str) -> None:
        self.asking = asking
        self._coordinators, self._kind, self._key = Coordinators(asking), kind, key
        self._node_id: int | None = None

    @property
    def is_known(self) -> bool:
        return self._node_id is not None

    async def connection(self) -> Connection:
        if self._node_id is None:
            self._node_id = await self._coordinators.find(self._kind, self._key)
        try:
            return await self.asking.to(self._node_id)
        except ConnectionFailed:
            self._node_id = None
            raise

    async def once(
        self,
        api: Api[Q, A],
        request: Q,
        codes: Callable[[A], list[int]],
        limit_s: float | None = None,
        newest: int | None = None,
    ) -> A:
        connection = await self.connection()
        try:
            answer = await connection.ask(api, request, self.asking.timeout if limit_s is None else limit_s, newest)
        except (ConnectionFailed, RequestTimedOut):
            self._node_id = None
            raise
        if MOVING.intersection(codes(answer)):
            self._node_id = None
        return answer

    async def ask(
        self,
        api: Api[Q, A],
        request: Q,
        codes: Callable[[A], list[int]],
        passing: frozenset[int] = MOVING,
        newest: int | None = None,
    ) -> A:
        """For what may be asked twice: again until the answer has none of the `passing` codes, or the time is over."""

        async def ask() -> tuple[A, frozenset[int]]:
            answer = await self.once(api, request, codes, newest=newest)
            return answer, frozenset(codes(answer)) & passing

        return await self._coordinators.until_settled(f"{api.name} for {self._key!r}", ask, passing)


class Coordinated:
    """What asks coordinators: the parts of Admin about groups and about transactions."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self._coordinators = Coordinators(asking)


class Unknown(ConnectionFailed):
    """A change that was sent, and no answer came."""
