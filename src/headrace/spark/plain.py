"""Errors of ours reach the user as their sentence alone. Spark runs a source in processes of its own and sends what is
raised there through Java, with the stacks of both: the sentence would be the last of sixty lines.

Errors that are not ours keep their stacks, which whoever mends them needs.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from headrace.errors import HeadraceError

HIDE: Final = "SPARK_HIDE_TRACEBACK"  # Spark's own: it looks when it sends an error, and then its process ends

T = TypeVar("T", bound=type)


def plain(kind: T) -> T:
    """For a class whose methods Spark calls."""
    for name, method in list(vars(kind).items()):
        if inspect.isfunction(method) and not name.startswith("_"):
            setattr(kind, name, _plainly(method))
    return kind


def _plainly(call: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(call)
    def called(*given: Any, **named: Any) -> Any:
        try:
            found = call(*given, **named)
        except HeadraceError:
            os.environ[HIDE] = "1"
            raise
        return _iterated(found) if inspect.isgenerator(found) else found

    return called


def _iterated(found: Iterator[Any]) -> Iterator[Any]:
    try:
        yield from found
    except HeadraceError:
        os.environ[HIDE] = "1"
        raise
