"""The shapes of our commands over typer: a noun with verbs, a command, and how their help reads.

What an author writes is a typed function and its docstring:

    app = Noun("Topics: make them, look at them, change them, delete them.")

    @app.command()
    def create(topic: Annotated[str, typer.Argument(help="its name")]) -> None:
        '''Make a topic.

        Examples:
          headrace topic create orders --partitions 3
        '''

The rest is the same everywhere: `-h`, the options of `options.py` on every level, help in plain text whose sections
stand in one order (what it does, arguments, options, examples, global options), usage errors that name the nearest
command or option. Help is our own layout, not typer's boxes, because it is pasted into the documents.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Annotated, Any, TypeVar, cast

import typer

from headrace.cli import contexts, options
from headrace.cli.inside import (
    Context,
    HelpFormatter,
    NoSuchOption,
    Parameter,
    Shape,
    TyperArgument,
    TyperCommand,
    TyperGroup,
    TyperOption,
    UsageError,
    get_command,
)

WIDTH = 100  # the widest that help gets; wider lines are hard to read, and the documents hold this many
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": WIDTH}
EXAMPLES = "\nExamples:\n"
ELSEWHERE = {  # what hands know from other tools, for commands that have the option beside it: what to say here
    "--from-beginning": ("--start", "it is --start start, which is the default"),
    "--offset": ("--start", "it is --start N"),
    "--group": (
        "--committed",
        "it reads outside of groups: `headrace subscribe TOPIC --group NAME` is a member of one",
    ),
}

F = TypeVar("F", bound=Callable[..., Any])


def _take(
    server: Annotated[str | None, typer.Option("-s", "--server", metavar="HOST:PORT,…", help="server to ask")] = None,
    context: Annotated[
        str | None,
        typer.Option("--context", metavar="NAME", help="named server to ask", autocompletion=contexts.complete),
    ] = None,
    output: Annotated[
        str | None,
        typer.Option(
            "-o", "--output", metavar="FORM", help="|".join(options.OUTPUTS), autocompletion=lambda: [*options.OUTPUTS]
        ),
    ] = None,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="for each answer of the server, as in 30s")
    ] = None,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, help="say more; -vv: also tracebacks")] = 0,
    quiet: Annotated[int, typer.Option("-q", "--quiet", count=True, help="say only the result")] = 0,
    no_color: Annotated[bool, typer.Option("--no-color", help="no colours, also on a terminal")] = False,
) -> None:
    """Only its parameters matter: they are what every level takes."""


class Ours(Shape):
    """What a noun and a command share."""

    def __init__(self, *args: Any, **attributes: Any) -> None:
        attributes["context_settings"] = SETTINGS | (attributes.get("context_settings") or {})
        super().__init__(*args, **attributes)
        taken = {name for parameter in self.params for name in parameter.opts}
        self.shared: list[TyperOption] = [parameter for parameter in shared() if not taken.intersection(parameter.opts)]

    def get_params(self, ctx: Context) -> list[Parameter]:
        own = super().get_params(ctx)
        return [*own, *(parameter for parameter in self.shared if parameter not in own)]

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            known = [name for parameter in self.get_params(ctx) for name in parameter.opts]
            near = get_close_matches(error.option_name, [name for name in known if name.startswith("-")])
            words = f"; did you mean {' or '.join(near)}?" if near else ""
            beside, said = ELSEWHERE.get(error.option_name, ("", ""))
            if beside in known:
                words = f"; {said}"
            raise UsageError(f"{ctx.command_path} has no option {error.option_name}{words}", ctx) from None

    def get_short_help_str(self, limit: int = WIDTH) -> str:
        return first_sentence(self.short_help or self.help or "")

    def format_help(self, ctx: Context, formatter: HelpFormatter) -> None:
        about, _, examples = ("\n" + inspect.cleandoc(self.help or "")).partition(EXAMPLES)
        formatter.write_usage(ctx.command_path, usage_of(self))
        if about.strip():
            formatter.write_paragraph()
            formatter.write_text(about.strip())
        everywhere = [*self.shared, self.get_help_option(ctx)]
        own = [parameter for parameter in self.get_params(ctx) if parameter not in everywhere]
        _section(formatter, "Arguments", (_argument(p) for p in own if isinstance(p, TyperArgument)))
        _section(formatter, "Options", (_option(p) for p in own if isinstance(p, TyperOption) and not p.hidden))
        _section(formatter, "Commands", self.verbs(ctx))
        if examples.strip():
            with formatter.section("Examples"):
                for line in inspect.cleandoc(examples).splitlines():
                    formatter.write(f"  {line}\n" if line else "\n")
        _section(formatter, "Global options", (_option(p) for p in everywhere if p is not None))

    def verbs(self, ctx: Context) -> Iterable[tuple[str, str]]:
        return ()

    def get_help(self, ctx: Context) -> str:
        text = super().get_help(ctx)
        return _bright(text) if options.wants_color() else text


class Command(Ours, TyperCommand):
    """A verb, or a noun that does one thing."""


class Group(Ours, TyperGroup):
    """A noun with verbs; alone it prints its help."""

    def verbs(self, ctx: Context) -> Iterable[tuple[str, str]]:
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None and not command.hidden:
                yield name, command.get_short_help_str(WIDTH)

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Shape | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is not None or ctx.resilient_parsing:
            return (name if command else None), command, args[1:]
        near = get_close_matches(name, self.list_commands(ctx), 3, 0.5)
        words = f"; did you mean {' or '.join(near)}?" if near else ""
        raise UsageError(f"{ctx.command_path} has no command {name!r}{words}", ctx)


class Noun(typer.Typer):
    """`Noun("help")`; `@app.command()` on each verb."""

    def __init__(self, about: str) -> None:
        super().__init__(
            cls=Group, help=about, no_args_is_help=True, add_completion=False, rich_markup_mode=None,
            pretty_exceptions_enable=False,
        )  # fmt: skip
        self.callback()(_nothing)  # a noun with one verb is a noun still

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        settings.setdefault("cls", Command)
        return super().command(name, **settings)


def built(made: object, name: str) -> Shape:
    """The command behind what a module exports: a Noun, or a function."""
    if not isinstance(made, typer.Typer):
        function = made
        made = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        made.command(name, cls=Command)(cast("Callable[..., Any]", function))
    command = get_command(made)
    command.name = name
    return command


_shared: list[TyperOption] = []


def shared() -> list[TyperOption]:
    """The global options, made once; each notes what it is given."""
    if not _shared:
        template = typer.Typer(add_completion=False)
        template.command()(_take)
        for parameter in get_command(template).params:
            assert isinstance(parameter, TyperOption)
            parameter.expose_value = False
            parameter.callback = _note
            _shared.append(parameter)
    return _shared


def _note(ctx: Context, parameter: Parameter, value: object) -> object:
    options.give(str(parameter.name), value)
    return value


def _nothing() -> None:
    """A noun by itself does nothing."""


def first_sentence(text: str) -> str:
    return inspect.cleandoc(text).partition("\n")[0].partition(". ")[0].rstrip(".")


def usage_of(command: Shape) -> str:
    pieces = ["[OPTIONS]"]
    if isinstance(command, TyperGroup):
        return "[OPTIONS] COMMAND …"
    for parameter in command.params:
        if isinstance(parameter, TyperArgument) and not parameter.hidden:
            name = _metavar(parameter)
            pieces.append(name if parameter.required else f"[{name}]")
    return " ".join(pieces)


def _metavar(parameter: TyperArgument) -> str:
    name = parameter.metavar or str(parameter.name).upper()
    return name if parameter.nargs == 1 else f"{name}…"


def _argument(parameter: TyperArgument) -> tuple[str, str]:
    return _metavar(parameter), parameter.help or ""


def _option(parameter: TyperOption) -> tuple[str, str]:
    if parameter.name == "help":
        return "-h, --help", "show this"
    names = ", ".join(sorted(parameter.opts, key=len))
    if parameter.secondary_opts:
        names += f" / {', '.join(parameter.secondary_opts)}"
    takes_value = not parameter.is_flag and not parameter.count
    about = parameter.help or ""
    shown = parameter.default not in (None, "", [], ()) and takes_value and parameter.show_default
    if shown or isinstance(parameter.show_default, str):
        text = parameter.show_default if isinstance(parameter.show_default, str) else _default(parameter.default)
        about += f" (default: {text})"
    if parameter.required:
        about += " (required)"
    if parameter.multiple:
        about += " (may be given several times)"
    return (f"{names} {parameter.metavar or str(parameter.name).upper()}" if takes_value else names), about


def _default(value: object) -> str:
    return "(chosen when it runs)" if callable(value) else str(getattr(value, "value", value))


def _section(formatter: HelpFormatter, title: str, rows: Iterable[tuple[str, str]]) -> None:
    listed = list(rows)
    if listed:
        with formatter.section(title):
            formatter.write_dl(listed)


def _bright(text: str) -> str:
    """Headings bold: enough for the eye to find its section."""
    return "\n".join(
        f"\x1b[1m{line}\x1b[0m" if line.endswith(":") and not line.startswith(" ") else line
        for line in text.splitlines()
    )
