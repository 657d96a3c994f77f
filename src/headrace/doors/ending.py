"""How a door ends, once it takes nothing new: what is under way may end, then all are closed, and who has not gone is
cut off."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import Protocol, TypeVar

LOOK_S = 0.01  # between two looks whether what is under way has ended


class Ends(Protocol):
    def abort(self, cause: str) -> None: ...


C = TypeVar("C", bound=Ends)


async def end_all(
    connections: Collection[C],
    tasks: Collection[asyncio.Task[None]],
    *,
    is_drained: Callable[[], bool],
    within_s: float,
    close: Callable[[C], None],
) -> None:
    """`close`: after what was sent already."""
    for _ in range(round(within_s / LOOK_S)):
        if is_drained():
            break
        await asyncio.sleep(LOOK_S)
    for connection in list(connections):
        close(connection)
    await asyncio.sleep(0)
    for connection in list(connections):
        connection.abort("stopping")
    for task in list(tasks):
        task.cancel()
    await asyncio.sleep(0)
