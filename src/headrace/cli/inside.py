"""What we take from inside of typer, in one place: its parser, contexts, errors and completion have no public names.

When typer moves them, this file is where it shows (the lock holds the version that it was written for).
"""

from __future__ import annotations

from typer._click.core import Command as Shape
from typer._click.core import Context, Parameter
from typer._click.exceptions import ClickException, NoArgsIsHelpError, NoSuchOption, UsageError
from typer._click.formatting import HelpFormatter
from typer._click.shell_completion import CompletionItem
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

__all__ = [
    "ClickException",
    "CompletionItem",
    "Context",
    "HelpFormatter",
    "NoArgsIsHelpError",
    "NoSuchOption",
    "Parameter",
    "Shape",
    "TyperArgument",
    "TyperCommand",
    "TyperGroup",
    "TyperOption",
    "UsageError",
    "completion_script",
    "get_command",
    "prepare_completion",
]


def prepare_completion() -> None:
    """Before a shell's question is answered: tells typer how each shell asks."""
    from typer._completion_classes import completion_init

    completion_init()


def completion_script(program: str, variable: str, shell: str) -> str:
    from typer._completion_shared import get_completion_script

    return get_completion_script(prog_name=program, complete_var=variable, shell=shell)
