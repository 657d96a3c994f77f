"""`headrace topic alter` and `headrace topic trim`: changes to a topic that holds records already.

Both can make records go: a shorter retention does it a little later, trim at once. So both ask first, and alter tells
which of the new settings is shorter than what holds now.
"""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.connecting import with_client
from headrace.cli.exits import not_found, usage
from headrace.cli.options import current, note
from headrace.cli.output import Column, done, show
from headrace.cli.parsing import Position, counted, pair, position, show_duration, show_size, whole_numbers
from headrace.cli.topic_values import config_value, known_settings
from headrace.cli.topics import TopicName, one
from headrace.client.values import Time

if TYPE_CHECKING:
    from headrace.aio import Client
    from headrace.client.values import Setting

FOR_EVER = -1


class Altered(msgspec.Struct, frozen=True):
    name: str
    set: dict[str, str]
    deleted: tuple[str, ...]
    partitions: int | None  # how many there are now, where that was changed
    applied: bool  # false: a dry run


class Trimmed(msgspec.Struct, frozen=True):
    topic: str
    partition: int
    start_before: int
    start: int
    records: int  # offsets that went: at most so many records
    applied: bool


TRIM_COLUMNS = [
    Column("partition", align="right"),
    Column("start_before", "start was", align="right"),
    Column("start", "start is", align="right"),
    Column("records", "records gone", align="right"),
]


def alter(
    topic: TopicName,
    config: Annotated[
        list[str] | None, typer.Option("-c", "--config", metavar="NAME=VALUE", help="set this, as in retention.ms=7d")
    ] = None,
    unset: Annotated[
        list[str] | None, typer.Option("-u", "--unset", metavar="NAME", help="back to the server's default")
    ] = None,
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", metavar="N", min=1, help="as many in all; never fewer")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Change a topic's settings, or give it more partitions. It takes effect at once.

    A change that lets records go earlier than now asks first.

    Examples:
      headrace topic alter orders -c retention.ms=30d -c max.message.bytes=4MiB
      headrace topic alter orders --unset retention.ms
      headrace topic alter orders --partitions 12
    """
    settings = dict(config_value(*pair(text, "a setting", "retention.ms=7d")) for text in config or ())
    removed = tuple(unset or ())
    if not settings and not removed and partitions is None:
        raise usage("nothing to change was named", "-c NAME=VALUE, --unset NAME or --partitions N")
    if both := settings.keys() & set(removed):
        raise usage(f"{', '.join(sorted(both))} is both set and unset")

    async def check(client: Client) -> tuple[dict[str, Setting], int]:
        found = await one(client, topic)
        if settings or removed:
            await client.admin.alter_config("topic", topic, set=settings, delete=removed, validate_only=True)
        if partitions is not None:
            await client.admin.add_partitions(topic, partitions, validate_only=True)
        known = {setting.name: setting for setting in await client.admin.config("topic", topic)}
        if strange := [name for name in removed if name not in known]:
            raise not_found(f"there is no topic setting {strange[0]!r}", _nearest(strange[0], known))
        return known, len(found.partitions)

    async def change(client: Client) -> None:
        if settings or removed:
            await client.admin.alter_config("topic", topic, set=settings, delete=removed)
        if partitions is not None:
            await client.admin.add_partitions(topic, partitions)

    with known_settings(settings):
        before, count = with_client(check)
    if partitions is not None:
        note(f"Keys move: with {partitions} partitions instead of {count} a key's next records may go to another one.")
    applied = not dry_run
    after = settings | {name: _without(before[name]) for name in removed}
    if shorter := _shorter({name: setting.value for name, setting in before.items()}, after):
        applied = confirm(f"let records of {topic} go earlier: {', '.join(shorter)}", yes=yes, dry_run=dry_run)
    if applied:
        with_client(change)
    words = f"Changed topic {topic}." if applied else f"Topic {topic} would take that. Nothing was done (--dry-run)."
    done(words, Altered(topic, settings, removed, partitions, applied))


def trim(
    topic: TopicName,
    before: Annotated[
        str,
        typer.Option("--before", metavar="POSITION", help="an offset, -N (all but the last N), @time, or end (all)"),
    ],
    partition: Annotated[
        str | None, typer.Option("-P", "--partition", metavar="N,…", help="only these", show_default="all")
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Delete a topic's oldest records: everything before a position.

    Examples:
      headrace topic trim orders --before @-7d
      headrace topic trim orders --before end --yes
      headrace topic trim orders --before 1500 --partition 0 --dry-run
    """
    where = position(before, time.time_ns() // 1_000_000)
    wanted = whole_numbers(partition) if partition is not None else None

    async def find(client: Client) -> dict[int, tuple[int, int]]:
        known = [p.index for p in (await one(client, topic)).partitions]
        if wanted is not None and (strange := set(wanted) - set(known)):
            raise not_found(f"{topic} has no partition {min(strange)}", f"it has 0 to {max(known)}")
        return await _trims(client, topic, where, wanted if wanted is not None else known)

    async def cut(client: Client) -> dict[int, int]:
        return await client.admin.delete_records(topic, {index: to for index, (_, to) in trims.items()})

    trims = {index: (start, to) for index, (start, to) in with_client(find).items() if to > start}
    total = sum(to - start for start, to in trims.values())
    if not trims:
        note(f"Nothing to trim: {topic} has no records before that.")
    applied = bool(trims) and confirm(
        f"delete up to {counted(total, 'record')} of {topic} for good", yes=yes, dry_run=dry_run
    )
    starts = with_client(cut) if applied else {index: to for index, (_, to) in trims.items()}
    rows = [Trimmed(topic, i, start, starts[i], starts[i] - start, applied) for i, (start, _) in sorted(trims.items())]
    options = current()
    show(rows, TRIM_COLUMNS if options.output_or() in ("table", "wide") else _all(Trimmed), options)


async def _trims(client: Client, topic: str, where: Position, partitions: list[int]) -> dict[int, tuple[int, int]]:
    """By partition: where it starts, and where it would start."""
    starts, ends = await client.admin.offsets(topic, "start"), await client.admin.offsets(topic, "end")
    times = await client.admin.offsets(topic, where.ms) if isinstance(where, Time) else {}
    found = {}
    for index in partitions:
        start, end = starts[index].offset, ends[index].offset
        if isinstance(where, Time):
            to = times[index].offset if times[index].offset >= 0 else end  # nothing is as young: all of it is older
        elif where == "start":
            to = start
        elif where == "end":
            to = end
        else:
            to = where if where >= 0 else end + where
        found[index] = (start, min(max(to, start), end))
    return found


def _without(setting: Setting) -> str:
    """Its value once the topic says nothing of it; nothing where the server does not tell."""
    return next((other.value or "" for other in setting.synonyms if other.source != "topic"), "")


def _nearest(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, known, 1)
    return f"did you mean {close[0]}?" if close else "`headrace topic describe TOPIC -o wide` lists them"


def _shorter(before: Mapping[str, str | None], settings: Mapping[str, str]) -> list[str]:
    """In words: which new values let records go earlier than those that hold now."""
    words = []
    for name, show_value in (("retention.ms", show_duration), ("retention.bytes", show_size)):
        new, old = _number(settings.get(name)), _number(before.get(name))
        if new is None or new == FOR_EVER or (old is not None and old != FOR_EVER and new >= old):
            continue
        was = "for ever" if old in (None, FOR_EVER) else show_value(old or 0)
        words.append(f"{name} {was} → {show_value(new)}")
    if "compact" in settings.get("cleanup.policy", "") and "compact" not in (before.get("cleanup.policy") or ""):
        words.append("cleanup.policy keeps only the last record of each key")
    return words


def _number(text: str | None) -> int | None:
    try:
        return int(text) if text is not None else None
    except ValueError:
        return None


def _all(kind: type[msgspec.Struct]) -> list[Column]:
    return [Column(name) for name in kind.__struct_fields__]
