"""Names of columns as Spark's expressions take them: in backticks, since a dot in a plain one means a field of it."""

from __future__ import annotations

import re
from typing import Final

_NOT_PLAIN: Final = re.compile(r"\W|^\d")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def spelt_out(name: str) -> str:
    """Of letters, digits and _ alone, where Spark takes no others and no quotes: `of whom` is of_20_whom there."""
    return _NOT_PLAIN.sub(lambda found: f"_{ord(found[0]):x}_", name)
