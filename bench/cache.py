"""What is fetched or built once and kept in the user's cache: servers to compare with, their programs.

One process fills a folder while the others that want it wait: tests run side by side, and Maven's own store does not
bear two writers. A folder has its name only when it is whole.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path


def kept(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name, filled by `fill` where there is none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "headrace-bench"
    folder = cache / name
    if folder.exists():
        return folder
    cache.mkdir(parents=True, exist_ok=True)
    with open(cache / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            fresh = cache / f"{name}.fresh"
            shutil.rmtree(fresh, ignore_errors=True)  # of one that was killed
            fresh.mkdir()
            try:
                fill(fresh)
            except BaseException:
                shutil.rmtree(fresh)
                raise
            fresh.rename(folder)
    return folder
