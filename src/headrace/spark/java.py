"""The Java that Spark needs: found, or said plainly how to get it, before Spark says it in its own words."""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from headrace.spark.errors import JavaMissing

OLDEST: Final = 17
ASK_LIMIT_S: Final = 20.0


def check_java() -> int:
    """The version of the Java that Spark will use."""
    home = os.environ.get("JAVA_HOME")
    program = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    if program is None or not os.access(program, os.X_OK):
        where = f"JAVA_HOME is {home!r}, and there is no bin/java in it" if home else "there is no `java` on the PATH"
        raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and {where}; {_advice()}")
    return _version(program)


@functools.cache  # every way into Spark checks it, and each question starts a Java
def _version(program: str) -> int:
    try:
        said = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=ASK_LIMIT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and {program} does not run: {error}") from error
    found = re.search(r'version "(\d+)', said.stderr + said.stdout)
    version = int(found[1]) if found else 0
    if version < OLDEST:
        shown = f"version {version}" if version else "of a version that it does not tell"
        raise JavaMissing(f"Spark needs Java {OLDEST} or newer, and {program} is {shown}; {_advice()}")
    return version


def _advice() -> str:
    command = (
        f"brew install openjdk@{OLDEST}" if sys.platform == "darwin" else f"apt install openjdk-{OLDEST}-jre-headless"
    )
    return f"install it ({command}) or set JAVA_HOME"
