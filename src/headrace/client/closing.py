"""What everything of the sync face is: a context manager with `close`."""

from __future__ import annotations

from types import TracebackType
from typing import Self


class Closing:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        raise NotImplementedError
