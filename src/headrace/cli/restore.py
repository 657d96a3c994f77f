"""`headrace restore`: a backup brought back, into a data folder or into a server that runs.

Nothing is overwritten: a data folder has to be new or empty, a topic has to be new unless `--append` is given.
"""

from __future__ import annotations

import os
import shlex
import time
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.backup.manifest import Manifest, TopicEntry, load
from headrace.backup.pace import Pace
from headrace.backup.producing import Producing, Restored, Wish
from headrace.backup.restore import check_empty, check_restorable, restore_directory
from headrace.cli import exits, options
from headrace.cli.asking import DryRun, Yes, confirm
from headrace.cli.backup_values import (
    RESTORED,
    Rate,
    RestoredDirectory,
    RestoredTopics,
    Where,
    partition_count,
    since_ms,
)
from headrace.cli.connecting import with_client
from headrace.cli.output import done, show
from headrace.cli.parsing import counted, show_size, size
from headrace.cli.progress import progress
from headrace.log.files import ReadOnlyFiles

if TYPE_CHECKING:
    from headrace.aio import Client


def command(
    backup: Where,
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="into this data folder, which is new or empty")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="only this topic, into a server")
    ] = None,
    as_: Annotated[str | None, typer.Option("--as", metavar="NAME", help="the name that the topic gets")] = None,
    append: Annotated[bool, typer.Option("--append", help="also into topics that exist, behind their records")] = False,
    rate: Rate = None,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> int:
    """Bring a backup back: into a data folder, or into a server that runs.

    With --data the folder is afterwards what it was, to the byte, and a node can serve from it. With --server the
    topics are made and their records sent: the server gives the offsets, and the answer says what became of them.
    Every byte is checked on the way.

    Examples:
      headrace restore /backups/monday --data /var/lib/headrace
      headrace restore /backups/monday --topic orders -s localhost:9092
      headrace restore ./orders --topic orders --as orders-again -s localhost:9092
    """
    manifest = load(ReadOnlyFiles(), os.path.abspath(backup))
    if data is not None:
        if topic or as_ or append:
            raise exits.usage("--data brings back a whole data folder", "--topic, --as and --append go with --server")
        return _restore_directory(backup, manifest, data, rate, dry_run)
    if not (options.is_given("server") or options.is_given("context")):
        raise exits.usage("restore to where?", "--data DIR for a data folder, or --server HOST:PORT for a server")
    return _restore_topics(backup, manifest, _chosen(manifest, topic or [], as_), append, rate, yes, dry_run)


def _restore_directory(backup: str, manifest: Manifest, data: str, rate: str | None, dry_run: bool) -> int:
    check_restorable(manifest, backup)
    check_empty(os.path.abspath(data))
    if dry_run:
        confirm(f"restore {show_size(manifest.bytes)} to {os.path.abspath(data)}", yes=False, dry_run=True)
        return exits.OK
    began = time.monotonic()
    with progress("restoring", manifest.bytes, "bytes") as advance:
        restore_directory(backup, manifest, data, Pace(size(rate) if rate else 0, advance))
    result = RestoredDirectory(
        os.path.abspath(backup), os.path.abspath(data), len(manifest.topics), partition_count(manifest),
        manifest.bytes, since_ms(began),
    )  # fmt: skip
    done(
        f"Restored {counted(result.topics, 'topic')}, {show_size(result.bytes)}, to {result.data}:"
        f" `headrace serve --data {shlex.quote(result.data)}`.",
        result,
    )
    return exits.OK


def _restore_topics(
    backup: str,
    manifest: Manifest,
    chosen: list[tuple[TopicEntry, str]],
    append: bool,
    rate: str | None,
    yes: bool,
    dry_run: bool,
) -> int:
    asked = options.current()
    names = ", ".join(name for _, name in chosen)
    if (append or dry_run) and not confirm(f"send to {names} at {asked.server}", yes=yes, dry_run=dry_run):
        return exits.OK
    total = sum(topic.bytes for topic, _ in chosen)
    began = time.monotonic()
    with progress("restoring", total, "bytes") as advance:
        pace = Pace(size(rate) if rate else 0, advance)

        async def work(client: Client) -> list[Restored]:
            producing = Producing(client, os.path.abspath(backup), manifest, pace)
            return await producing.run([Wish(topic, name) for topic, name in chosen], append=append)

        partitions = with_client(work)
    result = RestoredTopics(os.path.abspath(backup), asked.server, partitions, pace.bytes, since_ms(began))
    if asked.output_or() in ("table", "wide"):
        show(partitions, RESTORED)
    else:
        done("", result)
    return exits.OK


def _chosen(manifest: Manifest, names: list[str], as_: str | None) -> list[tuple[TopicEntry, str]]:
    known = {topic.name: topic for topic in manifest.topics}
    if missing := [name for name in names if name not in known]:
        listed = ", ".join(known) or "none"
        raise exits.not_found(f"the backup has no topic {missing[0]!r}", f"it has {listed}")
    chosen = [known[name] for name in names] or [topic for topic in manifest.topics if not topic.name.startswith("__")]
    if as_ is not None and len(chosen) != 1:
        raise exits.usage("--as names one topic", "--topic NAME chooses it")
    return [(topic, as_ or topic.name) for topic in chosen]
