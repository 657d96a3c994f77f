"""`headrace completion`: what a shell needs to know our commands, options, and the server's topics."""

from __future__ import annotations

from typing import Annotated

import typer

from headrace.cli.exits import usage
from headrace.cli.inside import completion_script
from headrace.cli.main import COMPLETION_VARIABLE

SHELLS = ("bash", "zsh", "fish")


def shells(incomplete: str) -> list[str]:
    return [shell for shell in SHELLS if shell.startswith(incomplete)]


def command(shell: Annotated[str, typer.Argument(help="|".join(SHELLS), autocompletion=shells)]) -> None:
    """Print the completion script of a shell.

    It completes commands and options, and the names of topics as the server has them.

    Examples:
      headrace completion bash > ~/.local/share/bash-completion/completions/headrace
      headrace completion zsh > ~/.zfunc/_headrace
      headrace completion fish > ~/.config/fish/completions/headrace.fish
      eval "$(headrace completion bash)"
    """
    if shell not in SHELLS:
        raise usage(f"there is no completion for {shell!r}", f"one of {', '.join(SHELLS)}")
    print(completion_script("headrace", COMPLETION_VARIABLE, shell))
