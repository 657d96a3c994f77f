"""`headrace` but for `serve`: the table of commands, and what becomes of everything that can go wrong in one.

A command's module is imported when it runs or its help is asked, never for another's: `headrace topic list` does not
pay for what draws plots. So what the first page of help says of each stands here.
"""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence

import msgspec
import typer

from headrace.cli import exits, options
from headrace.cli.commands import Command, Group, Noun, built
from headrace.cli.inside import (
    ClickException,
    CompletionItem,
    Context,
    NoArgsIsHelpError,
    Shape,
    UsageError,
    get_command,
    prepare_completion,
)
from headrace.cli.main import COMPLETION_VARIABLE

PROGRAM = "headrace"
ABOUT = """A message broker: one log, many wire protocols.

Without a command it serves, as `headrace serve` does.

Examples:
  headrace serve --data ./data
  headrace produce orders 'one' 'two'
  headrace consume orders
  headrace topic list -o json
"""


_BELOW = re.compile(r"(?<=: )Input should be greater than or equal to (-?[0-9]+)")  # a library's words, not ours


class Entry(msgspec.Struct, frozen=True):
    where: str  # module:attribute
    about: str


COMMANDS = {
    "serve": Entry("headrace.cli.serve:command", "Run a node"),
    "topic": Entry("headrace.cli.topic:app", "Topics: create, list, describe, alter, trim, delete"),
    "produce": Entry("headrace.cli.produce:command", "Send records: arguments, lines, files, JSONL"),
    "consume": Entry("headrace.cli.consume:consume", "Read records, from any position to any other"),
    "tail": Entry("headrace.cli.consume:tail", "Show the last records, and those that come"),
    "publish": Entry("headrace.cli.publish:command", "Publish messages through any door"),
    "subscribe": Entry("headrace.cli.subscribe:command", "Print messages as they come through any door"),
    "history": Entry("headrace.cli.create_topic:history", "Print a topic's last messages through any door"),
    "create-topic": Entry("headrace.cli.create_topic:create_topic", "Make a topic through any door"),
    "log-metrics": Entry("headrace.cli.log_metrics:command", "What the msgpack door tells of itself, as it comes"),
    "group": Entry("headrace.cli.group:app", "Groups: list, describe with their lag, seek, delete"),
    "queue": Entry("headrace.cli.queue:app", "Queues: list, describe, their dead letters, deliver again"),
    "txn": Entry("headrace.cli.txn:app", "Transactions: list, describe, abort"),
    "replay": Entry("headrace.cli.replay:command", "Copy a time window of a topic to another topic"),
    "pipeline": Entry("headrace.cli.pipeline:app", "Pipelines on Spark: archive, rollup, dedup, order, replay, …"),
    "cluster": Entry("headrace.cli.cluster:app", "Nodes, quorum and versions of the server"),
    "context": Entry("headrace.cli.context:app", "Named servers, so that -s need not be typed"),
    "config": Entry("headrace.cli.config:app", "A node's settings: show, explain, validate"),
    "doctor": Entry("headrace.cli.doctor:command", "Look for what is wrong, here and on the server"),
    "top": Entry("headrace.cli.top:command", "Rates, connections and disk, live"),
    "bench": Entry("headrace.cli.bench:app", "Measure a server: produce, consume, latency, fanout"),
    "export": Entry("headrace.cli.export:export_command", "Topic to JSONL, CSV or Parquet"),
    "import": Entry("headrace.cli.export:import_command", "JSONL, CSV or Parquet to topic; other brokers' data"),
    "backup": Entry("headrace.cli.backup:app", "Copy a data folder or a topic while it is served"),
    "restore": Entry("headrace.cli.restore:command", "Bring a backup back"),
    "completion": Entry("headrace.cli.completion:command", "Print the completion script of a shell"),
}


class Root(Group):
    """The first level, over the table."""

    def list_commands(self, ctx: Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Context, cmd_name: str) -> Shape | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.where.partition(":")
        made = getattr(importlib.import_module(module), attribute)
        return _serving(made) if cmd_name == "serve" else built(made, cmd_name)

    def verbs(self, ctx: Context) -> Iterable[tuple[str, str]]:
        return ((name, entry.about) for name, entry in COMMANDS.items())

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [CompletionItem(n, help=e.about) for n, e in COMMANDS.items() if n.startswith(incomplete)]


def root() -> Shape:
    app = Noun(ABOUT)
    app.info.cls = Root
    return built(app, PROGRAM)


def _serving(serve: Callable[[list[str]], int]) -> Shape:
    """`serve` reads its flags itself (see main): here they only pass through."""

    def passed_on(ctx: typer.Context) -> int:
        return serve(ctx.args)

    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    settings = {"ignore_unknown_options": True, "allow_extra_args": True}
    app.command("serve", cls=Command, context_settings=settings, add_help_option=False)(passed_on)
    command = get_command(app)
    assert isinstance(command, Command)
    command.shared = []
    return command


def run(arguments: Sequence[str]) -> int:
    """One command line; its exit code. Nothing is raised, and no traceback is shown unless -vv asks for it."""
    options.forget()
    _open_streams()
    if "--no-color" in arguments:  # wherever it stands: help is printed before the options behind it are read
        options.give("no_color", True)
    try:
        code = _invoke(list(arguments))
        sys.stdout.flush()
    except BrokenPipeError:
        return exits.end_quietly()
    except (KeyboardInterrupt, typer.Abort):
        print(file=sys.stderr)
        return exits.INTERRUPTED
    except typer.Exit as ended:
        return ended.exit_code
    except SystemExit as ended:  # how typer ends when a shell asked for completions
        return ended.code if isinstance(ended.code, int) else exits.OK
    except NoArgsIsHelpError as error:
        print(error.ctx.get_help() if error.ctx else "")
        return exits.USAGE
    except ClickException as error:
        return exits.fail(_usage(error), trace=options.verbosity() >= 2)
    except Exception as error:  # noqa: BLE001  nothing is hidden: it is said, and -vv shows all of it
        return exits.fail(error, trace=options.verbosity() >= 2)
    return code if isinstance(code, int) else exits.OK


def _open_streams() -> None:
    """Whoever closed one of ours (`>&-`) wants nothing of it: then it is the null device, not a fault."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull)  # noqa: SIM115  it stays open as long as we run
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115


def _invoke(arguments: list[str]) -> object:
    """typer's own `main` has its own ideas of errors and broken pipes; ours are in `run`."""
    command = root()
    if COMPLETION_VARIABLE in os.environ:
        prepare_completion()
        command._main_shell_completion({}, PROGRAM, COMPLETION_VARIABLE)
    with command.make_context(PROGRAM, arguments) as ctx:
        return command.invoke(ctx)


def _usage(error: ClickException) -> exits.Refusal:
    ctx = error.ctx if isinstance(error, UsageError) else None
    words = _BELOW.sub(r"takes at least \1", error.format_message())
    return exits.usage(words[:1].lower() + words[1:].rstrip("."), f"{ctx.command_path if ctx else PROGRAM} --help")
