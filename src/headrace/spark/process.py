"""What Spark's Python processes are spared. Both cost more than all else that a small task does, and neither is of use:

- Spark lets a process look for garbage after each piece of work, a task or a question of the driver. With PySpark,
  pandas and pyarrow imported that takes 35 ms of CPU, so what has been imported is taken out of the search.
- The C library gives memory back as soon as it is free, and the kernel fills every page of it with zeros when it is
  asked for again: for tables of megabytes, again and again, that is half of what encoding them costs.

Only processes that Spark itself started, and uses for one task after another, are touched.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from typing import Final

REUSED: Final = "SPARK_REUSE_WORKER"  # what is set in such a process
KEPT_BYTES: Final = 128 << 20  # free memory that stays: a few times what one task reads ahead
LARGE_BYTES: Final = 32 << 20  # what the C library takes from the kernel for itself alone; its own upper limit
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3  # of malloc.h

_modules = 0
_is_memory_kept = False


def spare_imports() -> None:
    """Costs one search when something was imported since the last time, else nothing."""
    global _modules
    if len(sys.modules) > _modules and REUSED in os.environ:
        gc.collect()  # what is garbage now would stay for ever
        gc.freeze()
        _modules = len(sys.modules)


def keep_memory() -> None:
    """Where the C library is glibc; another one goes on as it likes."""
    global _is_memory_kept
    if _is_memory_kept or REUSED not in os.environ:
        return
    _is_memory_kept = True
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
