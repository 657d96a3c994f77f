"""The node as it looks from outside: is it alive, can clients be sent to it, what has it counted.

Ready means: the doors listen, metadata can be changed, no log has failed, the disk has room, and the data directory is
where it was. Who asks finds out at once; the node itself looks every few seconds and says in its log when the answer
changes.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from headrace import __version__
from headrace.doors.http.watch import Check, Health, Readiness
from headrace.node import host
from headrace.node.host import DiskSpace
from headrace.node.sizes import ClosedSizes

if TYPE_CHECKING:
    from headrace.node.metrics.sheet import Sheet
    from headrace.node.node import Node

T = TypeVar("T")
Seen = tuple[DiskSpace | None, bool]  # of the disk: its space, and whether the data directory is still there

LEAST_FREE_BYTES = 16 << 20  # less is full: what a second of a quick producer takes
NAMED = 5  # partitions that a check names; there may be thousands


class NodeWatch:
    def __init__(self, node: Node) -> None:
        self._node = node
        self.was_ready = True
        self.sizes = ClosedSizes()

    # Who asks

    def health(self) -> Health:
        node = self._node
        return Health(
            "ok", node.settings.node_id, node.broker.cluster_id, __version__, node.clock.now_ms(), node.uptime_s
        )

    async def readiness(self) -> Readiness:
        return self._judged(*await self._off_loop(self._seen))

    async def exposition(self, *, openmetrics: bool) -> bytes:
        from headrace.node.metrics import reading  # with the first scrape: a start is quick

        sheet = reading.read(self._node)
        named = reading.with_series(self._node.broker)
        partitions = [partition for topic in named for partition in topic.partitions]
        if (work := self.sizes.look(partitions, self._node.store.services.files)) is not None:
            with contextlib.suppress(OSError):  # what the disk does not tell is left out
                self.sizes.learn(await self._off_loop(work))
        reading.read_sizes(self._node, sheet)
        return await self._off_loop(lambda: self._rendered(sheet, openmetrics))

    # The node's own look

    def look(self) -> None:
        self._node.background.run(self._seen, self._looked)

    def _looked(self, seen: Seen | None, error: BaseException | None) -> None:
        if not self._node.is_stopping:
            self._judged(*(seen or (None, True)))

    def _seen(self) -> Seen:
        """Off the loop."""
        try:
            is_in_place = self._node.store.is_in_place()
        except OSError:  # what else is wrong with the disk, the logs tell
            is_in_place = True
        return self._node.disk_space(), is_in_place

    def _judged(self, space: DiskSpace | None, is_in_place: bool) -> Readiness:
        checks = [self._listeners(), self._metadata(), self._logs(), self._disk(space), self._data(is_in_place)]
        is_ready = all(check.ok for check in checks)
        if is_ready != self.was_ready:
            self.was_ready = is_ready
            if is_ready:
                self._node.events.event("node.ready", {})
            else:
                self._node.events.event("node.not-ready", {check.name: check.why for check in checks if not check.ok})
        return Readiness(is_ready, checks)

    def _listeners(self) -> Check:
        node = self._node
        if node.is_stopping:
            return Check("listeners", False, "the node is stopping")
        deaf = [name for name in node.addresses if not node.doors[name].is_listening]
        return Check("listeners", not deaf, f"not listening: {', '.join(deaf)}" if deaf else "")

    def _metadata(self) -> Check:
        is_usable = self._node.quorum.is_usable
        return Check("metadata", is_usable, "" if is_usable else "the metadata log has failed; it is opened anew")

    def _logs(self) -> Check:
        failed = [
            f"{topic.name}/{partition.index}"
            for topic in self._node.broker.topics()
            for partition in topic.partitions
            if partition.log is not None and partition.log.failed is not None
        ]
        refusing = [f"{partition.topic.name}/{partition.index}" for partition in self._node.broker.refusing]
        troubled = list(dict.fromkeys(failed + refusing))
        names = ", ".join(troubled[:NAMED]) + (f" and {len(troubled) - NAMED} more" if len(troubled) > NAMED else "")
        return Check("logs", not troubled, f"these take no batches: {names}" if troubled else "")

    def _disk(self, space: DiskSpace | None) -> Check:
        is_full = space is not None and space.free_bytes < LEAST_FREE_BYTES
        why = f"{space.free_bytes} bytes are left, fewer than {LEAST_FREE_BYTES}" if space and is_full else ""
        return Check("disk", not is_full, why)

    def _data(self, is_in_place: bool) -> Check:
        path = self._node.store.path
        why = f"{path} was taken away, in whole or in part, or another is there: bring back what this node opened"
        return Check("data", is_in_place, "" if is_in_place else why)

    # Off the loop

    def _rendered(self, sheet: Sheet, openmetrics: bool) -> bytes:
        from headrace.node.metrics import text

        process, space = host.process_state(), self._node.disk_space()
        sheet.put("process_cpu_seconds_total", process.cpu_s)
        sheet.put("process_resident_memory_bytes", process.memory_bytes)
        sheet.put("process_open_fds", process.open_files)
        sheet.put("process_max_fds", process.open_files_limit)
        sheet.put("process_threads", process.threads)
        sheet.put("process_start_time_seconds", process.started_s)
        if space is not None:
            sheet.put("headrace_disk_free_bytes", space.free_bytes)
            sheet.put("headrace_disk_total_bytes", space.total_bytes)
        return text.render(sheet, openmetrics=openmetrics)

    async def _off_loop(self, work: Callable[[], T]) -> T:
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def done(result: T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            else:
                future.set_result(cast(T, result))

        self._node.background.run(work, done)
        return await future
