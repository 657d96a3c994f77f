"""kio, brought in at one place. Whoever imports this pays for it, so it is imported inside of functions.

Where hypothesis is installed kio describes its types to it, which takes over a second and leaves a folder `.hypothesis`
wherever a command is run. So while kio is imported hypothesis is hidden, from this thread alone; a process that has it
in use already keeps it.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar

HIDDEN = "hypothesis"
_is_hidden: ContextVar[bool] = ContextVar("_is_hidden", default=False)  # other threads have another context


class _Hiding:
    """The first of the finders while it is entered: what is hidden is not installed."""

    def __enter__(self) -> None:
        self._before = _is_hidden.set(True)
        sys.meta_path.insert(0, self)

    def __exit__(self, *_: object) -> None:
        sys.meta_path.remove(self)
        _is_hidden.reset(self._before)

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name == HIDDEN and _is_hidden.get():
            raise ModuleNotFoundError(f"{name} is hidden from kio", name=name)


with _Hiding():
    from kio.index import load_request_schema, load_response_schema
    from kio.schema.errors import ErrorCode
    from kio.serial import entity_writer

__all__ = ["ErrorCode", "entity_writer", "load_request_schema", "load_response_schema"]
