"""`headrace replay`: copies a window of one topic to another, so that it can be processed again.

It reads by itself, in no group: whoever reads the source is not disturbed, and no position moves. Keys, values, headers
and timestamps are kept; so are partitions where both topics have as many, else keys choose them. Order holds within
each partition. What aborted transactions wrote is left out.

Each partition has a window of offsets, fixed when the copy begins: records that come later are not in it. A copy that
ends early says what is left, as `--resume` takes it. What was under way when it ended may come twice then, never less.
"""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.asking import DryRun
from headrace.cli.connecting import with_client
from headrace.cli.exits import usage
from headrace.cli.options import current, note
from headrace.cli.output import Column, done, show
from headrace.cli.parsing import counted, one_of, position, whole_numbers
from headrace.cli.produce import CODECS, Compression, Rate
from headrace.cli.progress import progress
from headrace.cli.replaying import PLAN_COLUMNS, CopiedPartition, Copying, Plan, Window, copy, plan_of
from headrace.cli.topics import complete

if TYPE_CHECKING:
    from headrace.aio import Client


Source = Annotated[str, typer.Argument(metavar="TOPIC", help="what is read", autocompletion=complete)]
Target = Annotated[str, typer.Argument(metavar="TARGET", help="where it goes", autocompletion=complete)]
From = Annotated[str, typer.Option("--from", metavar="POSITION", help="from here: @time, start, an offset, -N")]
To = Annotated[str, typer.Option("--to", metavar="POSITION", help="up to here, exclusive: @time, end, an offset, -N")]
Partitions = Annotated[
    str | None, typer.Option("-P", "--partition", metavar="N,…", help="only these of TOPIC", show_default="all")
]
Resume = Annotated[
    str | None, typer.Option("--resume", metavar="N=FROM:TO,…", help="what an earlier copy left, in its own words")
]
Count = Annotated[int | None, typer.Option("-n", "--count", metavar="N", min=1, help="so many at most")]
Create = Annotated[bool, typer.Option("--create", help="make TARGET like TOPIC, if it is missing")]
ByKey = Annotated[bool, typer.Option("--by-key", help="keys choose partitions, also where counts match")]


def command(
    source: Source,
    target: Target,
    start: From = "start",
    end: To = "end",
    partition: Partitions = None,
    resume: Resume = None,
    count: Count = None,
    rate: Rate = None,
    create: Create = False,
    by_key: ByKey = False,
    compression: Compression = "none",
    dry_run: DryRun = False,
) -> None:
    """Copy a window of a topic to another topic, without disturbing any group.

    Keys, values, headers and times stay as they are; partitions too where both topics have as many. A time means the
    first record of that time or later in each partition.

    Examples:
      headrace replay orders orders-again --from @-1h
      headrace replay orders orders-again --from @2026-01-31T12:00 --to @2026-01-31T13:00 --create
      headrace replay orders orders-again --from @-1d --to @-1h --rate 500 --dry-run
      headrace replay orders orders-again --resume 0=1200:1500,1=1187:1490
    """
    if source == target:
        raise usage("a topic is not copied to itself", "name another topic; --create makes it")
    if rate is not None and rate <= 0:
        raise usage("--rate takes more than nothing", "--rate 100")
    one_of("--compression", compression, CODECS)
    now_ms = time.time_ns() // 1_000_000
    indexes = whole_numbers(partition) if partition is not None else None
    fixed = _fixed(resume) if resume is not None else None
    window = Window(position(start, now_ms), position(end, now_ms), indexes, fixed)
    plan = with_client(lambda client: plan_of(client, source, target, window, by_key=by_key, create=create))
    _tell(plan)
    if dry_run:
        note("Nothing was copied (--dry-run).")
        show(plan.rows, PLAN_COLUMNS)
    else:
        _copy(Copying(plan), count, rate, compression, by_key)


def _copy(copying: Copying, count: int | None, rate: float | None, compression: str, by_key: bool) -> None:
    options, plan = current(), copying.plan
    how: dict[str, object] = {"compression": compression, "delivery_timeout": options.timeout_s}

    async def work(client: Client) -> None:
        with progress("Copying", min(plan.records, count or plan.records)) as advance:
            await copy(client, copying, count, rate, how, advance)

    try:
        with_client(work)
    except BaseException:
        copying.count()  # closing the producer waited for those that were under way
        if copying.is_begun:
            note(f"{counted(copying.records, 'record')} copied. To go on: {_going_on(copying, by_key)}")
        raise
    if not copying.is_whole:
        note(f"There is more. To go on: {_going_on(copying, by_key)}")
    result = copying.result()
    if options.output_or() == "csv":
        show(result.partitions, [Column(name) for name in CopiedPartition.__struct_fields__], options)
    else:
        done(f"Copied {counted(result.records, 'record')} of {plan.source} to {plan.target}.", result, options)


def _tell(plan: Plan) -> None:
    if plan.creates is not None:
        note(f"Topic {plan.target} does not exist yet: it is made like {plan.source}.")
    if not plan.keeps_partitions:
        note("Keys choose the partitions.")


def _going_on(copying: Copying, by_key: bool) -> str:
    plan = copying.plan
    return f"headrace replay {plan.source} {plan.target} --resume {copying.left}" + (" --by-key" if by_key else "")


def _fixed(text: str) -> dict[int, tuple[int, int]]:
    found: dict[int, tuple[int, int]] = {}
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,9})=(\d{1,18}):(\d{1,18})", part.strip())
        if match is None:
            raise usage(f"--resume does not take {text!r}", "partition=from:to for each: --resume 0=1200:1500")
        found[int(match[1])] = int(match[2]), int(match[3])
    return found
