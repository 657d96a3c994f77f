"""What the logs of one store count together."""

from __future__ import annotations

from headrace.metrics import Histogram


class LogMetrics:
    __slots__ = (
        "compacted_after_bytes",
        "compacted_before_bytes",
        "compacted_records",
        "compactions",
        "deleted_bytes",
        "deleted_segments",
        "disk_reads",
        "file_reads",
        "memory_reads",
        "recoveries",
        "round_logs",
        "rounds",
        "unseen_reads",
        "writes",
    )

    def __init__(self) -> None:
        self.writes = Histogram()  # seconds, of a sample: one system call for all that a turn brought to a log
        self.rounds = Histogram()  # seconds: group syncs, each of one or several logs
        self.round_logs = Histogram(unit=1)
        self.recoveries = Histogram()  # seconds
        self.memory_reads = self.file_reads = self.disk_reads = 0  # from the tail; from the page cache; had to wait
        self.unseen_reads = 0  # left in the page cache, to be sent from there
        self.compactions = Histogram()  # seconds, of a pass
        self.compacted_before_bytes = self.compacted_after_bytes = 0  # of segments that passes went over
        self.compacted_records = 0  # that went
        self.deleted_segments = self.deleted_bytes = 0  # by retention, and by who asked for it
