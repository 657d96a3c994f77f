"""CRC32C (Castagnoli), from the crc32c package.

The package's own `__init__` imports importlib.metadata and argparse to learn its version, which costs 20 to
45 ms at every start. So its extension module is loaded by itself, the whole package only where that fails.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.machinery import PathFinder

from headrace.ports import Buffer


def _load() -> Callable[[Buffer, int], int]:
    package = PathFinder.find_spec("crc32c")
    if package is not None and package.submodule_search_locations is not None:
        name = "crc32c._crc32c"
        spec = PathFinder.find_spec(name, package.submodule_search_locations)
        if spec is not None and spec.loader is not None:
            module = spec.loader.create_module(spec)
            if module is not None and hasattr(module, "crc32c"):
                spec.loader.exec_module(module)
                return module.crc32c  # type: ignore[no-any-return]
    import crc32c

    return crc32c.crc32c


_crc32c = _load()


def crc32c(buffer: Buffer, crc: int = 0) -> int:
    """The checksum of `buffer`, going on from `crc`, the checksum of what came before it."""
    return _crc32c(buffer, crc)
