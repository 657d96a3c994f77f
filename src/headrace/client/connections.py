"""Connections by node, made when they are first needed and made again when they end.

Producers, consumers and administration each have their own: a broker answers one connection in order, so a Fetch that
waits for records would hold up whatever is asked behind it.

- A node that cannot be reached is not tried again before its backoff is over; all who want it share one attempt.
- The first contact goes to the addresses that the user gave. They are tried one after the other, each a little
  before the one in front has failed, so that a dead one costs a moment and not its whole timeout.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable, Mapping
from typing import Final

from headrace.client import backoff
from headrace.client.addresses import Address
from headrace.client.connection import Connection
from headrace.client.values import Node
from headrace.errors import ClientClosed, ConnectionFailed

CONNECT_LIMIT_S: Final = 10.0  # for one attempt, whatever time the caller has
HEAD_START_S: Final = 0.3  # of one address before the next is tried beside it


class Connections:
    def __init__(self, bootstrap: tuple[Address, ...], client_id: str | None, timeout: float) -> None:
        self._bootstrap, self._client_id = bootstrap, client_id
        self._timeout = min(timeout, CONNECT_LIMIT_S)
        self._loop = asyncio.get_running_loop()
        self._by_address: dict[Address, Connection] = {}
        self._attempts: dict[Address, asyncio.Task[Connection]] = {}
        self._failures: dict[Address, tuple[int, float]] = {}  # how many in a row, and when the next try may be
        self._is_closed = False

    async def to(self, node: Node) -> Connection:
        address = Address(node.host, node.port)
        try:
            return await self.at(address)
        except ConnectionFailed as error:
            if address in self._bootstrap:
                raise
            raise ConnectionFailed(f"{error} (this is the address that node {node.id} advertises)") from error

    async def at(self, address: Address) -> Connection:
        """The connection to an address; waits out its backoff. One attempt serves all who ask meanwhile."""
        connection = self._by_address.get(address)
        if connection is not None and connection.is_open:
            return connection
        self._check()
        attempt = self._attempts.get(address)
        if attempt is None:
            attempt = self._attempts[address] = self._loop.create_task(self._open(address))
            attempt.add_done_callback(_seen)
        await asyncio.wait([attempt])  # so that one who gives up does not take the attempt from the others
        if attempt.cancelled():
            raise ClientClosed("the client is closed")
        return attempt.result()

    async def any(self, nodes: Mapping[int, Node] | None = None) -> Connection:
        """Some connection: an open one, else to any node that we know of, else to an address that the user gave."""
        self._check()
        for connection in self._by_address.values():
            if connection.is_open:
                return connection
        known = [Address(node.host, node.port) for node in (nodes or {}).values()]
        random.shuffle(known)
        return await self._first_of(dict.fromkeys([*known, *self._bootstrap]))

    def _check(self) -> None:
        if self._is_closed:
            raise ClientClosed("the client is closed")
        if asyncio.get_running_loop() is not self._loop:
            raise ClientClosed("this client belongs to another event loop; connect where you use it")

    def close(self) -> None:
        self._is_closed = True
        for attempt in self._attempts.values():
            attempt.cancel()
        for connection in self._by_address.values():
            connection.close()
        self._by_address.clear()

    async def _open(self, address: Address) -> Connection:
        try:
            failures, not_before = self._failures.get(address, (0, 0.0))
            await asyncio.sleep(max(0.0, not_before - self._loop.time()))
            try:
                connection = await Connection.open(address, self._client_id, self._timeout)
            except ConnectionFailed:
                failures += 1
                self._failures[address] = failures, self._loop.time() + backoff.wait_s(failures)
                raise
            self._failures.pop(address, None)
            self._by_address[address] = connection
            return connection
        finally:
            self._attempts.pop(address, None)

    async def _first_of(self, addresses: Iterable[Address]) -> Connection:
        left, tries = list(addresses), dict[asyncio.Task[Connection], Address]()
        failures: list[str] = []
        try:
            while left or tries:
                if left:
                    address = left.pop(0)
                    attempt = self._loop.create_task(self.at(address))
                    attempt.add_done_callback(_seen)
                    tries[attempt] = address
                done, _ = await asyncio.wait(
                    tries, timeout=HEAD_START_S if left else None, return_when=asyncio.FIRST_COMPLETED
                )
                for attempt in done:
                    del tries[attempt]
                    error = attempt.exception()
                    if error is None:
                        return attempt.result()
                    if not isinstance(error, ConnectionFailed):
                        raise error
                    failures.append(str(error))
        finally:
            for attempt in tries:
                attempt.cancel()
        if len(failures) == 1:
            raise ConnectionFailed(failures[0])
        raise ConnectionFailed("none of the servers could be reached: " + "; ".join(failures))


def _seen(attempt: asyncio.Task[Connection]) -> None:
    """An attempt that everybody gave up on fails without a word."""
    if not attempt.cancelled():
        attempt.exception()
