"""Producer ids, never given twice in a cluster: a node takes them from the metadata log a block at a time."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cluster import controller
from headrace.cluster.quorum import Quorum
from headrace.errors import HeadraceError
from headrace.ports import Promise

NONE = -1


class ProducerIds:
    def __init__(self, quorum: Quorum, node_id: int) -> None:
        self._quorum, self._node_id = quorum, node_id
        self._left = range(0)

    def reserved(self, next_id: int) -> None:
        """A block is ours: it ends there. What is left of the last one is not used."""
        self._left = range(next_id - controller.PRODUCER_ID_BLOCK, next_id)

    async def new(self, promise: Promise[None]) -> int:
        """As `next`, for who can wait."""
        given = NONE

        def done(producer_id: int, error: HeadraceError | None) -> None:
            nonlocal given
            given = producer_id
            if not promise.done():
                promise.set_result(None) if error is None else promise.set_exception(error)

        self.next(done)
        await promise
        return given

    def next(self, done: Callable[[int, HeadraceError | None], None]) -> None:
        """The id, or NONE and why not."""

        def proposed(error: HeadraceError | None) -> None:
            if error is not None:
                done(NONE, error)
            else:
                self.next(done)

        if self._left:
            first, self._left = self._left[0], self._left[1:]
            done(first, None)
        else:
            self._quorum.propose(lambda image: controller.reserve_producer_ids(image, self._node_id), proposed)
