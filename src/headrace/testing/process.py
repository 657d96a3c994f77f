"""A simulated process: everything it scheduled dies with it, at once and without a word.

A real `kill -9` runs no `finally` block. So a killed process is not cancelled: its callbacks are simply
never called again, and its tasks are kept (not freed, which would close their coroutines) until the loop is
closed. What belongs to a process is known from a context variable, which callbacks, tasks and futures
inherit without being asked.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")

CURRENT: contextvars.ContextVar[Process | None] = contextvars.ContextVar("headrace_simulated_process", default=None)


class Process:
    """`host` is the name under which the network knows the machine that it runs on."""

    def __init__(self, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.alive = True
        # an ordered set: a set of tasks would be ordered by address
        self.tasks: dict[asyncio.Task[Any], None] = {}
        self._on_kill: list[Callable[[], None]] = []

    def context(self) -> contextvars.Context:
        """A fresh one each time: a process starts with nobody's variables, and one context cannot be entered
        twice."""
        context = contextvars.Context()
        context.run(CURRENT.set, self)
        return context

    def run(self, function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        return self.context().run(function, *args, **kwargs)

    def on_kill(self, callback: Callable[[], None]) -> None:
        """What the operating system does for a dead process: its sockets are closed, its locks released."""
        self._on_kill.append(callback)

    def kill(self) -> None:
        if not self.alive:
            return
        self.alive = False
        callbacks, self._on_kill = self._on_kill, []
        for callback in callbacks:
            callback()

    def keep(self, task: asyncio.Task[Any]) -> None:
        self.tasks[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[Any]) -> None:
        if self.alive:
            self.tasks.pop(task, None)


def current() -> Process | None:
    return CURRENT.get()


def of(context: contextvars.Context | None) -> Process | None:
    return CURRENT.get() if context is None else context.get(CURRENT)
