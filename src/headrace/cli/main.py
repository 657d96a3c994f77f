"""`headrace`: the bare command serves. Nothing is imported that the command does not need.

`serve`, its flags and `--version` take the short way, without typer, because a node should be up at once; everything
else goes to `app`, which has the table of commands.
"""

from __future__ import annotations

import gc
import os
import sys

INTERRUPTED = 130  # as `exits` has it, which is not imported for that
COMPLETION_VARIABLE = "_HEADRACE_COMPLETE"  # set by a shell that asks what could come next; the words come beside it
GLOBAL_OPTIONS = ("-s", "-o", "-v", "-q", "-h")
LONG_GLOBAL_OPTIONS = {
    "--server", "--context", "--output", "--timeout", "--verbose", "--quiet", "--no-color", "--help",
}  # fmt: skip
OTHER_CLIENTS = ("--host", "--port", "--broker", "--peers", "--client-id")  # how other clients say where to connect


def main(arguments: list[str] | None = None) -> int:
    try:
        return _run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # amid an import, where nobody else looks for it
        return INTERRUPTED


def _run(given: list[str]) -> int:
    if given[:1] == ["help"]:  # `headrace help topic create`
        given = [*given[1:], "--help"]
    if given in (["--version"], ["version"]):
        import headrace

        print(f"headrace {headrace.__version__}")
        return 0
    if given[:1] != ["serve"] and any(word.startswith(OTHER_CLIENTS) for word in given):
        from headrace.cli.other_clients import translated

        given = translated(given)
    if COMPLETION_VARIABLE not in os.environ and is_serving(given):
        gc.disable()  # what is imported stays; looking through it meanwhile is a tenth of the start
        try:
            from headrace.cli.serve import command

            return command(given[1:] if given[:1] == ["serve"] else given)
        finally:
            gc.enable()  # a start that came to nothing, in a process that goes on
    from headrace.cli.app import run

    return run(given)


def is_serving(given: list[str]) -> bool:
    """Nothing, `serve`, or flags of `serve`; an option of every command (`-o json topic list`) is none of them."""
    if not given or given[0] == "serve":
        return True
    first = given[0].partition("=")[0]
    if first.startswith("--"):
        return first not in LONG_GLOBAL_OPTIONS
    return first.startswith("-") and not first.startswith(GLOBAL_OPTIONS)


if __name__ == "__main__":
    sys.exit(main())
