"""One run of a pipeline at a time: two would share a checkpoint. The lock dies with its process."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from headrace.errors import HeadraceError

LOCK: Final = "lock"  # in the pipeline's folder


class PipelineRuns(HeadraceError):
    """Another process runs it."""


@contextlib.contextmanager
def exclusive(home: Path, name: str) -> Iterator[None]:
    with (home / LOCK).open("wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineRuns(f"{name} runs already; `headrace pipeline stop FILE` ends it") from None
        yield


def is_locked(home: Path) -> bool:
    try:
        with (home / LOCK).open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False
