"""`headrace context`: servers by name, and which of them is asked when nothing else is said."""

from __future__ import annotations

import os
from typing import Annotated

import msgspec
import typer

from headrace.cli.commands import Noun
from headrace.cli.connecting import check_address
from headrace.cli.contexts import NAME, Context, Contexts, complete
from headrace.cli.exits import usage
from headrace.cli.options import current
from headrace.cli.output import Column, done, show, show_one

app = Noun("Named servers, so that -s need not be typed.")


class ContextRow(msgspec.Struct, frozen=True):
    name: str
    server: str
    current: bool
    note: str = ""


class Effective(msgspec.Struct, frozen=True):
    """What a command would ask now, and why."""

    server: str
    source: str
    file: str


class Changed(msgspec.Struct, frozen=True):
    name: str
    server: str
    action: str


Name = Annotated[str, typer.Argument(help="the context's name", autocompletion=complete)]


@app.command("list")
def list_() -> None:
    """List the contexts; a star marks the one in use.

    Examples:
      headrace context list
      headrace context list -o json
    """
    known = Contexts.read(os.environ)
    rows = [
        ContextRow(name, context.server, name == known.current, context.note)
        for name, context in sorted(known.contexts.items())
    ]
    columns = [
        Column("current", " ", show=lambda is_current: "*" if is_current else ""),
        Column("name"),
        Column("server"),
        Column("note"),
    ]
    show(rows, columns, empty="No contexts yet; `headrace context set NAME HOST:PORT` makes one.")


@app.command("set")
def set_(
    name: Annotated[str, typer.Argument(help="letters, digits and . _ -")],
    address: Annotated[str, typer.Argument(metavar="HOST:PORT,…", help="one address or several")],
    remark: Annotated[str, typer.Option("--note", metavar="TEXT", help="a word to remember it by")] = "",
    use: Annotated[bool, typer.Option("--use", help="use it from now on")] = False,
) -> None:
    """Make or change a context. The first one is used at once.

    Examples:
      headrace context set here 127.0.0.1:9092
      headrace context set staging 10.0.0.5:9092,10.0.0.6:9092 --note 'may break' --use
    """
    if not NAME.fullmatch(name):
        raise usage(f"{name!r} cannot name a context", "up to 64 letters, digits and . _ -")
    check_address(address, "that is no server")
    known = Contexts.read(os.environ)
    action = "changed" if name in known.contexts else "created"
    in_use = name if use or not known.contexts else known.current
    contexts = known.contexts | {name: Context(address, remark)}
    msgspec.structs.replace(known, contexts=contexts, current=in_use).save()
    done(
        f"{action.capitalize()} context {name}{'; it is in use now' if in_use == name else ''}.",
        Changed(name, address, action),
    )


@app.command()
def use(name: Name) -> None:
    """Ask this server from now on, unless a command says otherwise.

    Examples:
      headrace context use staging
    """
    known = Contexts.read(os.environ)
    server = known.named(name).server
    msgspec.structs.replace(known, current=name).save()
    done(f"Using {name} ({server}).", Changed(name, server, "used"))


@app.command("show")
def show_() -> None:
    """Show which server a command would ask now, and who says so.

    Examples:
      headrace context show
      headrace context show --context staging
    """
    asked = current()
    found = Effective(asked.server, asked.server_from, Contexts.read(os.environ).path)
    show_one(found, [Column("server"), Column("source", "said by"), Column("file")], asked)


@app.command()
def delete(name: Name) -> None:
    """Forget a context; the server is not touched.

    Examples:
      headrace context delete staging
    """
    known = Contexts.read(os.environ)
    server = known.named(name).server
    rest = {other: context for other, context in known.contexts.items() if other != name}
    still = known.current if known.current in rest else None
    msgspec.structs.replace(known, contexts=rest, current=still).save()
    done(f"Deleted context {name}.", Changed(name, server, "deleted"))
