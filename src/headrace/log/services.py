"""What the logs of one store share.

It belongs to the loop's thread but for what opening a log needs, which may happen in another: `logs`, `made` and
`noting` only change by single steps (one name in, one name out), and who walks over them walks over a copy. By `copy`,
which is one step too: a list made of `items` allocates on its way, and that may let another thread in.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace.log.budget import FileBudget
from headrace.log.compactor import Compactor
from headrace.log.config import StoreLimits
from headrace.log.dirt import find_dirt
from headrace.log.journal import Journal
from headrace.log.metrics import LogMetrics
from headrace.log.overdue import Overdue
from headrace.log.patient import Patience
from headrace.log.segment import Segment
from headrace.log.sync import GroupSync
from headrace.log.tail import RingBudget, TailBudget
from headrace.ports import Background, Clock, Files

if TYPE_CHECKING:
    from headrace.log.log import Log


LOADED_SHARE = 1024  # of a segment's size: what its index will take, if a read in the background loads it


class IndexCache:
    """The indexes of sealed segments that are in memory; those used longest ago are dropped for others."""

    __slots__ = ("_segments", "limit_bytes", "size_bytes")

    def __init__(self, limit_bytes: int) -> None:
        self.limit_bytes, self.size_bytes = limit_bytes, 0
        self._segments: OrderedDict[Segment, int] = OrderedDict()

    def touch(self, segment: Segment) -> None:
        segments = self._segments
        if segment in segments:
            segments.move_to_end(segment)
            return
        size_bytes = segment.index.size_bytes if segment.index is not None else segment.size // LOADED_SHARE
        segments[segment] = size_bytes
        self.size_bytes += size_bytes
        while self.size_bytes > self.limit_bytes and len(segments) > 1:
            oldest, size_bytes = segments.popitem(last=False)
            self.size_bytes -= size_bytes
            oldest.index = None

    def forget(self, segment: Segment) -> None:
        self.size_bytes -= self._segments.pop(segment, 0)
        segment.index = None


class Services:
    __slots__ = (
        "background",
        "budget",
        "clock",
        "compactor",
        "files",
        "indexes",
        "journal",
        "logs",
        "made",
        "metrics",
        "noting",
        "overdue",
        "patience",
        "rings",
        "root",
        "sync",
        "tails",
    )

    def __init__(
        self,
        root: str,
        files: Files,
        clock: Clock,
        background: Background,
        limits: StoreLimits,
        journal: Journal,
        sync_background: Background,
    ) -> None:
        self.root, self.files, self.clock, self.background, self.journal = (
            root,
            files,
            clock,
            background,
            journal,
        )
        self.budget = FileBudget(files, limits.open_files)
        self.tails = TailBudget(limits.tail_bytes)
        self.rings = RingBudget(limits.memory_topics_bytes)
        self.indexes = IndexCache(limits.index_bytes)
        self.metrics = LogMetrics()
        self.compactor = Compactor(clock, self.metrics, limits.compaction_bytes)
        self.sync = GroupSync(files, sync_background, journal, clock, self.metrics)
        self.patience = Patience(clock)
        self.overdue = Overdue(limits.snapshot_bytes)
        self.logs: dict[str, Log] = {}  # by folder, until their files are closed
        self.noting: list[str] = []  # folders, one for each read that writes a hole down
        self.made: set[str] = set()  # directories whose own names are known to be synced

    def parents(self, folder: str) -> list[str]:
        """The directories that hold the folder's name and those of its parents, up to the root."""
        found = []
        while folder != self.root and len(folder) > len(self.root):
            folder = folder.rpartition("/")[0]
            found.append(folder)
        return found

    def unsynced_parents(self, folder: str) -> list[str]:
        """Those of them that have to be synced for the folder to be found again."""
        found = []
        while folder not in self.made and len(folder) > len(self.root):
            self_made = folder
            folder = self_made.rpartition("/")[0]
            found.append(folder)
        return found

    def note_made(self, folder: str) -> None:
        """From any thread: a name is added, and nothing is looked at twice."""
        while folder not in self.made and len(folder) > len(self.root):
            self.made.add(folder)
            folder = folder.rpartition("/")[0]

    def forget_made(self, folder: str) -> None:
        """The folder and all below it go."""
        for path in self.made.copy():
            if is_within(path, folder):
                self.made.discard(path)

    def dirtiest(self) -> float:
        """The largest share of a log that waits for compaction."""
        now_ms = self.clock.now_ms()
        logs = [log for log in self.logs.copy().values() if log.config.is_compacted]
        return max((find_dirt(log, now_ms).ratio for log in logs), default=0.0)

    def logs_within(self, folder: str) -> list[Log]:
        return [log for path, log in self.logs.copy().items() if is_within(path, folder)]


def is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
