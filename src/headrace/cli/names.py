"""Names of groups and transactional ids as commands take them: completed, matched, missed with a suggestion."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable
from difflib import get_close_matches
from typing import TYPE_CHECKING

import msgspec

from headrace.cli.connecting import with_client
from headrace.cli.exits import Refusal, not_found, usage
from headrace.cli.options import current
from headrace.cli.topics import COMPLETION_LIMIT_S
from headrace.errors import HeadraceError

if TYPE_CHECKING:
    from headrace.aio import Client


def completed(incomplete: str, ask: Callable[[Client], Awaitable[list[str]]]) -> list[str]:
    """For a shell; nothing where no server answers."""
    try:
        asked = msgspec.structs.replace(current(), timeout_s=COMPLETION_LIMIT_S, verbosity=-1)
        names = with_client(ask, asked)
    except (HeadraceError, OSError):
        return []
    return [name for name in names if name.startswith(incomplete)]


def pattern(text: str | None, example: str) -> re.Pattern[str]:
    """A regular expression for whole names; None matches all."""
    try:
        return re.compile(text if text is not None else ".*", re.DOTALL)
    except re.error as error:
        raise usage(f"{text!r} is not a regular expression: {error}", example) from None


def missing(what: str, name: str, known: Iterable[str], where: str) -> Refusal:
    near = get_close_matches(name, list(known), 1)
    words = f"; did you mean {near[0]}?" if near else ""
    return not_found(f"there is no {what} {name!r}{words}", f"`{where}` shows what there is")
