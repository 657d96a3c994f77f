"""`headrace backup`: copies of a data folder or of topics, made while they are served; `restore.py` brings them back.

A data folder is read where it lies, so this runs on the machine that serves from it (or that once did). Topics are read
through a server, which may be anywhere and need not be ours.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.backup.directory import DirectoryBackup, data_bytes
from headrace.backup.listing import backups_in
from headrace.backup.manifest import DATA, Manifest, load
from headrace.backup.pace import Pace
from headrace.backup.place import Place, check_target
from headrace.backup.verify import verify as verify_backup
from headrace.cli import exits, options
from headrace.cli.asking import DryRun, confirm
from headrace.cli.backup_values import (
    BACKUPS,
    PARTITIONS,
    Made,
    Rate,
    Verified,
    Where,
    Wrong,
    partition_count,
    row_of,
    rows_of,
    since_ms,
)
from headrace.cli.commands import Noun
from headrace.cli.connecting import with_client
from headrace.cli.options import note
from headrace.cli.output import done, show
from headrace.cli.parsing import counted, show_size, size
from headrace.cli.progress import progress
from headrace.log.files import ReadOnlyFiles
from headrace.node.real import RealClock

if TYPE_CHECKING:
    from headrace.aio import Client

DEFAULT_DATA = "headrace-data"

app = Noun("Backups of a data folder or of topics: create, list, describe, verify.")


@app.command()
def create(
    target: Annotated[str, typer.Argument(metavar="FOLDER", help="where the backup goes: a new or an empty folder")],
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help=f"the data folder (HEADRACE_DATA, else {DEFAULT_DATA})")
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option("--topic", metavar="NAME", help="this topic, through the server")
    ] = None,
    all_topics: Annotated[bool, typer.Option("--all-topics", help="all topics, through the server")] = False,
    incremental: Annotated[
        str | None, typer.Option("--incremental", metavar="BACKUP", help="share with this one what has not changed")
    ] = None,
    rate: Rate = None,
    dry_run: DryRun = False,
) -> int:
    """Make a backup, while it is served.

    Without --topic it copies the data folder on this machine: everything in it, equal to the byte, each partition up to
    an offset that is written down. With --topic it reads topics through the server.

    A backup that was cut short is no backup: run the same command again, and it goes on.

    Examples:
      headrace backup create /backups/monday --data /var/lib/headrace
      headrace backup create /backups/tuesday --data /var/lib/headrace --incremental /backups/monday
      headrace backup create ./orders --topic orders -s broker:9092 --rate 20MiB
    """
    if data is not None and (topic or all_topics):
        raise exits.usage("--data and --topic do not go together", "a data folder, or topics through the server")
    through_server = bool(topic or all_topics)
    data = data or os.environ.get("HEADRACE_DATA") or DEFAULT_DATA
    if not through_server and os.path.realpath(target).startswith(f"{os.path.realpath(data)}/"):
        raise exits.usage(f"{target} is inside of the data folder", "choose a folder elsewhere, best on another disk")
    check_target(os.path.abspath(target))
    earlier = load(ReadOnlyFiles(), os.path.abspath(incremental)) if incremental is not None else None
    if dry_run:
        source = f"topics of {options.current().server}" if through_server else os.path.abspath(data)
        confirm(f"back up {source} to {os.path.abspath(target)}", yes=False, dry_run=True)
        return exits.OK
    began = time.monotonic()
    total = None if through_server else data_bytes(data)
    with _place(target) as place, progress("copying", total, "bytes") as advance:
        pace = Pace(size(rate) if rate else 0, advance)
        if through_server:
            manifest = _create_topics(place, topic or [], pace, incremental, earlier)
        else:
            if earlier is not None and incremental is not None:
                place.share(incremental, earlier)
            manifest = DirectoryBackup(data, place, RealClock(), pace).run()
        made = _made(place, manifest, began)
    done(_words(made), made)
    for words in made.damage:
        note(f"headrace: damage in the original: {words}")
    return exits.CHECK_FAILED if made.damage else exits.OK


def _create_topics(
    place: Place, names: list[str], pace: Pace, incremental: str | None, earlier: Manifest | None
) -> Manifest:
    from headrace.backup.topics import TopicsBackup

    async def work(client: Client) -> Manifest:
        backup = TopicsBackup(client, place, RealClock(), pace)
        if earlier is not None and incremental is not None:
            backup.share(incremental, earlier)
        wanted = names or [topic.name for topic in await client.admin.topics()]
        return await backup.run(list(dict.fromkeys(wanted)), options.current().server)

    return with_client(work)


@app.command()
def verify(backup: Where, rate: Rate = None) -> int:
    """Read a whole backup and hold every byte against what was written.

    Examples:
      headrace backup verify /backups/monday
    """
    manifest = load(ReadOnlyFiles(), os.path.abspath(backup))
    with progress("verifying", manifest.bytes, "bytes") as advance:
        found = verify_backup(backup, manifest, Pace(size(rate) if rate else 0, advance))
    problems = [Wrong(problem.path, problem.why) for problem in found]
    result = Verified(os.path.abspath(backup), not problems, len(manifest.all_files()), manifest.bytes, problems)
    if problems:
        listed = "\n".join(f"  {problem.path}: {problem.why}" for problem in problems)
        done(f"{result.backup} is damaged:\n{listed}", result)
        return exits.CHECK_FAILED
    done(f"{result.backup} is whole: {result.files} files, {show_size(result.bytes)}.", result)
    return exits.OK


@app.command("list")
def list_(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="where backups stand beside each other")] = ".",
) -> None:
    """List the backups in a folder.

    Examples:
      headrace backup list /backups
    """
    if not os.path.isdir(folder):
        raise exits.not_found(f"there is no folder {folder}", "headrace backup list FOLDER")
    root = os.path.abspath(folder)
    rows = [row_of(found, os.path.relpath(found.path, root)) for found in backups_in(folder)]
    show(rows, BACKUPS, empty=f"No backups in {root}; `headrace backup create {folder}/NAME` makes one.")


@app.command()
def describe(backup: Where) -> None:
    """Show what a backup holds: every partition, from which offset to which.

    Examples:
      headrace backup describe /backups/monday
    """
    rows = rows_of(load(ReadOnlyFiles(), os.path.abspath(backup)))
    show(rows, PARTITIONS, empty="The backup holds no topics.")


@contextlib.contextmanager
def _place(target: str) -> Iterator[Place]:
    place = Place.open(target)
    try:
        yield place
    except KeyboardInterrupt:
        note(f"\n{place.root} is not finished; the same command goes on with it")
        raise
    finally:
        place.close()


def _made(place: Place, manifest: Manifest, began: float) -> Made:
    return Made(
        place.root, manifest.kind, manifest.source, manifest.cluster_id, len(manifest.topics),
        partition_count(manifest), manifest.bytes, manifest.reused_bytes, since_ms(began), place.is_resumed,
        manifest.based_on, manifest.damage,
    )  # fmt: skip


def _words(made: Made) -> str:
    what = "data folder" if made.kind == DATA else "topics"
    shared = f", {show_size(made.reused_bytes)} of it not copied again" if made.reused_bytes else ""
    many = f"{counted(made.topics, 'topic')}, {counted(made.partitions, 'partition')}, {show_size(made.bytes)}{shared}"
    return f"Backed up the {what} of {made.source} to {made.backup}: {many}."
