"""A view in words: some lines about the node, then the topics that have most to do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from headrace.cli.output import Column, plain_lines, printable
from headrace.cli.parsing import show_duration, show_seconds, show_size, show_time
from headrace.cli.top.view import Group, Node, Topic, View

GAP = "   "
MOST_GROUPS = 5
V = TypeVar("V")


def _rate(value: float) -> str:
    return f"{value:,.0f}"


def _size(value: float) -> str:
    return show_size(int(value))


TOPIC_COLUMNS = (
    Column("topic"),
    Column("partitions", "parts", align="right"),
    Column("size_bytes", "size", align="right", show=_size),
    Column("in_records_per_second", "in rec/s", align="right", show=_rate),
    Column("in_bytes_per_second", "in B/s", align="right", show=_size),
    Column("out_records_per_second", "out rec/s", align="right", show=_rate),
    Column("out_bytes_per_second", "out B/s", align="right", show=_size),
)
GROUP_COLUMNS = (
    Column("group"),
    Column("lag", align="right", show=_rate),
    Column("lag_seconds", "behind", align="right", show=show_seconds),
)


def lines(view: View, most_topics: int) -> list[str]:
    head = f"{view.server}{GAP}{show_time(view.time_ms)}{GAP}over {view.interval_seconds:.1f} s"
    told = [head, *_node_lines(view.node), ""]
    shown = [column for column in TOPIC_COLUMNS if _is_told(column, view.topics)]
    if not view.topics:
        return [*told, "No topics yet; `headrace topic create NAME` makes one."]
    cells = [[_cell(column, topic) for column in shown] for topic in view.topics[:most_topics]]
    left = len(view.topics) - most_topics
    return told + plain_lines(cells, shown) + ([f"and {left} more"] if left > 0 else []) + _group_lines(view.groups)


def _group_lines(groups: list[Group]) -> list[str]:
    """Those that are furthest behind."""
    shown = [column for column in GROUP_COLUMNS if _is_told(column, groups)]
    if not groups:
        return []
    cells = [[_cell(column, group) for column in shown] for group in groups[:MOST_GROUPS]]
    left = len(groups) - MOST_GROUPS
    return ["", *plain_lines(cells, shown), *([f"and {left} more"] if left > 0 else [])]


def _node_lines(node: Node) -> list[str]:
    """Only what is told: a server without metrics has fewer lines."""
    state = [
        _word("headrace", node.version),
        _word("", None if node.ready is None else ("ready" if node.ready else "NOT READY")),
        _word("up", node.uptime_seconds, lambda seconds: show_duration(int(seconds) * 1000)),
        _word("cpu", node.cpu_percent, lambda percent: f"{percent:.0f} %"),
        _word("memory", node.memory_bytes, _size),
        _word("connections", node.connections),
        _word("disk", node.disk_free_bytes, lambda free: f"{_size(free)} of {_size(node.disk_total_bytes or 0)} free"),
    ]
    rates = [
        _word("in", node.in_records_per_second, lambda rate: f"{_rate(rate)} rec/s"),
        _word("", node.in_bytes_per_second, lambda rate: f"{_size(rate)}/s"),
        _word("out", node.out_records_per_second, lambda rate: f"{_rate(rate)} rec/s"),
        _word("", node.out_bytes_per_second, lambda rate: f"{_size(rate)}/s"),
        _word("requests", node.requests_per_second, lambda rate: f"{_rate(rate)}/s"),
    ]
    times = [
        _word("produce p99 <=", node.produce_p99_ms, lambda ms: f"{ms:g} ms"),
        _word("fetch p99 <=", node.fetch_p99_ms, lambda ms: f"{ms:g} ms"),
        _word("sync p99 <=", node.sync_p99_ms, lambda ms: f"{ms:g} ms"),
        _word("partitions that refuse:", node.refusing_partitions or None),
        _word("partitions that failed:", node.failed_partitions or None),
    ]
    return [GAP.join(filter(None, line)) for line in (state, rates, times) if any(line)]


def _word(name: str, value: V | None, show: Callable[[V], str] = str) -> str:
    """`name value`, or nothing where there is no value."""
    return "" if value is None else f"{name} {show(value)}".strip()


def _is_told(column: Column, rows: Sequence[Topic | Group]) -> bool:
    return any(getattr(row, column.name) is not None for row in rows)


def _cell(column: Column, row: Topic | Group) -> str:
    value = getattr(row, column.name)
    if value is None:
        return ""
    return printable(column.show(value) if column.show else str(value))
