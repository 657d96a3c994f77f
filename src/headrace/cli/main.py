"""`headrace`: the bare command serves. Nothing is imported that the command does not need."""

from __future__ import annotations

import argparse
import os
import sys

import headrace
from headrace.errors import DirectoryLocked, DirectoryUnusable, HeadraceError
from headrace.node import settings

EXIT_USAGE = 2
EXIT_FAILED = 1


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        flags = {flag.name: getattr(options, flag.name.replace("-", "_"), None) for flag in settings.FLAGS}
        wanted = settings.read(flags, os.environ)
        for name in settings.unknown_variables(os.environ):
            print(f"headrace: {name} is not a setting and has no effect; --help lists them", file=sys.stderr)
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return EXIT_USAGE
    from headrace.cli.serve import serve

    try:
        return serve(wanted)
    except (DirectoryLocked, DirectoryUnusable) as error:
        print(f"headrace: {error} (--data DIR)", file=sys.stderr)
        return EXIT_FAILED
    except HeadraceError as error:
        print(f"headrace: {error}", file=sys.stderr)
        return EXIT_FAILED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="headrace", description="A message broker: one log, many wire protocols.")
    parser.add_argument("--version", action="version", version=f"headrace {headrace.__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    serve = commands.add_parser("serve", help="run a node (what the bare command does)")
    for where in (parser, serve):
        for flag in settings.FLAGS:
            where.add_argument(
                f"--{flag.name}",
                metavar=flag.metavar,
                default=argparse.SUPPRESS,
                help=f"{flag.help} (or {flag.variable}; default: {flag.default or 'none'})",
            )
    return parser


if __name__ == "__main__":
    sys.exit(main())
