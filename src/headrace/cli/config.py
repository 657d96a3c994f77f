"""`headrace config`: what a node that is started here would be told, where each value comes from, and what it means.

It looks at what `serve` would look at: the same flags' variables and files, by the same code. A running node's own
settings are another question (`headrace cluster describe`): this one needs no server.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated, Literal

import msgspec
import typer

from headrace.cli import exits
from headrace.cli import flags as flags_of_serve
from headrace.cli.commands import Noun
from headrace.cli.flags import default_text
from headrace.cli.options import current
from headrace.cli.output import Column, done, show, show_one
from headrace.node.settings import PLACES, SETTINGS, Problem, Setting, Tree, load
from headrace.node.settings.kinds import Plain
from headrace.node.settings.sample import sample
from headrace.node.settings.sources import CONFIG_FLAG, CONFIG_VARIABLE, Given, nearest
from headrace.node.settings.table import BY_KEY
from headrace.node.settings.tree import file_path, known

app = Noun("A node's settings: what they are, where they come from, what they mean.")

Source = Literal["flag", "environment", "file", "default"]


class SettingRow(msgspec.Struct, frozen=True):
    """One setting, as `show` lists it."""

    key: str
    value: Plain
    shown: str
    source: Source
    where: str
    default: str
    meaning: str


class Overruled(msgspec.Struct, frozen=True):
    where: str
    value: str


class Explained(msgspec.Struct, frozen=True):
    """All there is to know about one setting."""

    key: str
    value: Plain
    shown: str
    source: Source
    where: str
    overruled: list[Overruled]
    default: str
    type: str
    takes: str
    least: int | None
    most: int | None
    flag: str
    variable: str
    kafka_name: str | None
    meaning: str


class ProblemRow(msgspec.Struct, frozen=True):
    where: str
    problem: str


class Checked(msgspec.Struct, frozen=True):
    file: str | None
    valid: bool
    problems: list[ProblemRow]
    warnings: list[ProblemRow]


class Written(msgspec.Struct, frozen=True):
    file: str
    settings: int


def keys(incomplete: str) -> list[tuple[str, str]]:
    return [(setting.key, setting.meaning) for setting in SETTINGS if setting.key.startswith(incomplete)]


ConfigFile = Annotated[
    str | None,
    typer.Option("--config", metavar="FILE", help=f"file to look at, as serve would; else {CONFIG_VARIABLE}"),
]
Flags = Annotated[
    list[str] | None, typer.Argument(metavar="[-- FLAGS]", help="flags of serve, to see what they would change")
]


@app.command("show")
def show_(
    section: Annotated[
        str, typer.Argument(metavar="SECTION", help="only what begins so, as in kafka", autocompletion=keys)
    ] = "",
    flags: Flags = None,
    changed: Annotated[bool, typer.Option("--changed", help="only what is not at its default")] = False,
    config: ConfigFile = None,
) -> None:
    """List every setting with its value and where that comes from.

    Examples:
      headrace config show
      headrace config show --changed
      headrace config show topic.defaults -o json
      headrace config show --changed -- --kafka 0.0.0.0:9092
    """
    given = flags or []
    if section.startswith("--"):
        section, given = "", [section, *given]
    tree = _tree(config, given)
    rows = [_row(tree, setting) for setting in SETTINGS if _is_in(setting.key, section.replace("_", "-"))]
    if section and not rows:
        raise exits.not_found(f"no setting begins with {section!r}", "`headrace config show` lists them all")
    columns = [
        Column("key"),
        Column("shown", "value"),
        Column("source"),
        Column("where", wide=True),
        Column("default", wide=True),
        Column("meaning", wide=True),
    ]
    chosen = [row for row in rows if row.source != "default"] if changed else rows
    show(chosen, columns, empty="Everything is at its default.")


@app.command(context_settings={"ignore_unknown_options": True})  # `explain --kafka` asks about a flag of serve
def explain(
    name: Annotated[
        str, typer.Argument(metavar="KEY", help="a key, flag or variable, or Kafka's name", autocompletion=keys)
    ],
    flags: Flags = None,
    config: ConfigFile = None,
) -> None:
    """Say what one setting is, where its value comes from, and what it does.

    Examples:
      headrace config explain kafka.listen
      headrace config explain log.retention.ms
      headrace config explain --config headrace.toml HEADRACE_IDLE_MS
      headrace config explain kafka.listen -- --kafka 0.0.0.0:9092
    """
    setting = known(name)
    if setting is None:
        near = nearest(name, list(BY_KEY))
        step = f"`headrace config explain {near}`" if near else "`headrace config show` lists them all"
        raise exits.not_found(f"there is no setting {name!r}", step)
    tree = _tree(config, flags or [])
    held, row = tree.held(setting), _row(tree, setting)
    explained = Explained(
        key=row.key,
        value=row.value,
        shown=row.shown,
        source=row.source,
        where=row.where,
        overruled=[Overruled(given.origin.where, _said(given)) for given in held.overruled],
        default=row.default,
        type=setting.kind.name,
        takes=setting.kind.takes,
        least=setting.kind.least,
        most=setting.kind.most,
        flag=f"--{setting.flag}",
        variable=setting.variable,
        kafka_name=setting.kafka_name or None,
        meaning=row.meaning,
    )
    columns = [
        Column("key"),
        Column("meaning"),
        Column("shown", "value"),
        Column("where", "comes from"),
        Column("overruled", show=lambda others: ", ".join(f"{one.where} ({one.value})" for one in others)),
        Column("default"),
        Column("takes"),
        Column("flag"),
        Column("variable"),
        Column("kafka_name", "kafka's name"),
    ]
    show_one(explained, [c for c in columns if c.name not in ("overruled", "kafka_name") or getattr(explained, c.name)])


@app.command()
def validate(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="file to check; else what serve would read")
    ] = None,
) -> int:
    """Check a configuration without starting anything: every problem, with its place.

    A FILE is checked by itself; without one, the file that serve would read and the environment are.

    Examples:
      headrace config validate
      headrace config validate headrace.toml && systemctl restart headrace
    """
    environment = {} if file is not None else os.environ
    path = file_path({CONFIG_FLAG: file}, environment)
    tree = load({CONFIG_FLAG: file}, environment)
    rows = [ProblemRow(problem.where, problem.text) for problem in tree.problems]
    warnings = [ProblemRow(warning.where, warning.text) for warning in tree.warnings]
    if current().output_or() in ("table", "wide"):
        for problem in (*tree.problems, *tree.warnings):
            print(f"headrace: {problem}", file=sys.stderr)
    what = path or "no file; the environment and the defaults"
    words = f"{what}: {_count(rows)}." if rows else f"{what}: valid."
    done(words, Checked(path, not rows, rows, warnings))
    return exits.CHECK_FAILED if rows else exits.OK


@app.command()
def init(
    file: Annotated[str, typer.Argument(metavar="[FILE]", help="where to write it; -: to standard output")] = PLACES[0],
    force: Annotated[bool, typer.Option("--force", help="write over a file that is there")] = False,
) -> None:
    """Write a configuration file with every setting, its default and what it does, all commented out.

    Examples:
      headrace config init
      headrace config init /etc/headrace/headrace.toml
      headrace config init - | less
    """
    text = sample()
    if file == "-":
        print(text, end="")
        return
    if file.endswith(".json"):
        raise exits.usage(f"{file}: JSON has no comments, so the file is TOML", "headrace config init headrace.toml")
    try:
        with open(file, "w" if force else "x", encoding="utf-8") as out:
            out.write(text)
    except FileExistsError:
        raise exits.Refusal(f"{file} is there already", "--force writes over it; another name leaves it") from None
    except OSError as error:
        raise exits.Refusal(f"cannot write {file}: {error.strerror}", code=exits.STORAGE) from None
    done(f"Wrote {file}; `headrace config validate {file}` checks it.", Written(file, len(SETTINGS)))


def _tree(config: str | None, given: list[str]) -> Tree:
    """What `serve` would see. With problems there is no telling what a value would be, so they are said first."""
    named, problems = flags_of_serve.parse(given)
    tree = load(named | ({CONFIG_FLAG: config} if config else {}), os.environ)
    problems += tree.problems
    for problem in (*tree.warnings, *problems):
        print(f"headrace: {problem}", file=sys.stderr)
    if problems:
        raise exits.Refusal(f"the settings have {_count(problems)}", "`headrace config validate` lists them")
    return tree


def _row(tree: Tree, setting: Setting[object]) -> SettingRow:
    held = tree.held(setting)
    kind = setting.kind
    return SettingRow(
        key=setting.key,
        value=kind.plain(held.value),
        shown=kind.show(held.value),
        source=held.origin.source,
        where=held.origin.where,
        default=default_text(setting),
        meaning=setting.meaning,
    )


def _is_in(key: str, section: str) -> bool:
    return not section or key == section or key.startswith(section.rstrip(".") + ".")


def _said(given: Given) -> str:
    return given.raw if isinstance(given.raw, str) else msgspec.json.encode(given.raw).decode()


def _count(problems: list[Problem] | list[ProblemRow]) -> str:
    return "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
