"""Writes requirements/: every dependency with its exact version and hashes, for every platform and Python we
support.

Everything is chosen anew; with `--keep`, only what is new or no longer fits.

No index address is written: where packages come from is the business of whoever installs.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = ["--universal", "--python-version", "3.11", "--generate-hashes", "--no-header"]
QUIET = ["--quiet", "--no-emit-index-url", "--no-emit-find-links"]
EXTRAS = ("avro", "columns", "dev", "protobuf", "spark")
OUTPUTS = {"runtime.txt": [], "dev.txt": [word for extra in EXTRAS for word in ("--extra", extra)]}


def main() -> None:
    options = OPTIONS if "--keep" in sys.argv[1:] else [*OPTIONS, "--upgrade"]
    subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "uv"], check=True)
    for name, extras in OUTPUTS.items():
        compile_ = [sys.executable, "-m", "uv", "pip", "compile", "pyproject.toml", *extras]
        subprocess.run([*compile_, *options, *QUIET, "-o", f"requirements/{name}"], cwd=ROOT, check=True)


if __name__ == "__main__":
    main()
