"""Builds what is published: wheels and source archives of headrace and headrace-native, and their checksums.

    python tools/dist.py [FOLDER]        (dist/ unless said otherwise; needs hatchling and maturin)

The same sources give the same bytes, on every machine with the same tools: files have a fixed time, and the native
library holds no path of the machine that built it. Left alone it would: Rust writes the place of every panic into the
library, and under cargo's folder that place names the registry that the crate came from.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NATIVE = ROOT / "native"
TARGET = (
    ROOT / "build" / "dist-target"
)  # of its own: other flags than `make setup` uses would build that anew each time
EPOCH = "1580601600"  # the time of every file in an archive, unless SOURCE_DATE_EPOCH says otherwise
OURS = ("headrace-*.tar.gz", "headrace-*.whl", "headrace_native-*.tar.gz", "headrace_native-*.whl")
SUMS = "SHA256SUMS"


def main(arguments: list[str]) -> int:
    out = Path(arguments[0] if arguments else ROOT / "dist").resolve()
    out.mkdir(parents=True, exist_ok=True)
    for old in [path for pattern in OURS for path in out.glob(pattern)]:
        old.unlink()
    run(ROOT, sys.executable, "-m", "hatchling", "build", "-d", str(out), "-t", "wheel", "-t", "sdist")
    if shutil.which("cargo") is None:
        print("dist: cargo is not installed, so headrace-native is not built; headrace runs without it, more slowly")
    else:
        build_native(out)
    made = sorted(path for pattern in OURS for path in out.glob(pattern))
    sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in made}
    (out / SUMS).write_text("".join(f"{digest}  {name}\n" for name, digest in sums.items()))
    for path in made:
        print(f"dist: {path.name} ({path.stat().st_size:,} bytes)")
    return 0


def build_native(out: Path) -> None:
    run(NATIVE, "cargo", "fetch", "--quiet")  # so that the folders whose names must go are there
    maturin = (sys.executable, "-m", "maturin")
    run(NATIVE, *maturin, "sdist", "--out", str(out))
    flags = "\x1f".join(f"--remap-path-prefix={path}={name}" for path, name in hidden_paths())
    wheel = (*maturin, "build", "--release", "--interpreter", sys.executable, "--out", str(out))
    target = os.environ.get("CARGO_TARGET_DIR", str(TARGET))
    run(NATIVE, *wheel, CARGO_ENCODED_RUSTFLAGS=flags, CARGO_TARGET_DIR=target)


def hidden_paths() -> list[tuple[Path, str]]:
    """Whichever comes last and fits is taken, so the narrowest stand at the end."""
    cargo = Path(os.environ.get("CARGO_HOME", Path.home() / ".cargo"))
    registries = sorted(path for path in (cargo / "registry" / "src").glob("*") if path.is_dir())
    return [(cargo, "/cargo"), (ROOT, "/headrace"), *((path, "/crates") for path in registries)]


def run(folder: Path, *command: str, **environment: str) -> None:
    settled = {"SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": "0"} | os.environ | environment
    done = subprocess.run(command, cwd=folder, env=settled, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        print(done.stdout[-4000:], file=sys.stderr)
        sys.exit(f"dist: {' '.join(command[:4])} failed (see above)")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
