"""Makes `.venv`: the locked dependencies, the project itself (editable) and, where cargo is, the native
wheel.

Rules of this file:
- it runs before anything is installed, so it imports the standard library only;
- one at a time (a lock beside `.venv`), and each step is skipped when what it depends on has the same content
  as last time, so a touched file costs nothing and two `make` at once do not tear each other's environment
  apart;
- `--run` installs what a node and its commands need and no more (no clients of others, no test tools), because somebody
  waits for the first message; a full environment has that already;
- no cargo, or a cargo that cannot build the crate, is not an error: every native kernel has a Python twin. It
  is said once, here; the broker says at its start which one runs.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = VENV / "setup.json"
WHEELS = ROOT / "build" / "wheels"
DEV, RUNTIME = ROOT / "requirements" / "dev.txt", ROOT / "requirements" / "runtime.txt"
BUILD_TOOLS = ["hatchling", "editables", "maturin"]
OLDEST_PYTHON = (3, 11)
NATIVE_PARTS = ("Cargo.toml", "pyproject.toml", "build.rs", "rust-toolchain.toml", "src", "python", ".cargo")


def main() -> int:
    if sys.version_info < OLDEST_PYTHON:
        print(f"Python {'.'.join(map(str, OLDEST_PYTHON))} or newer is needed, this is {sys.version.split()[0]}")
        return 1
    with open(ROOT / ".setup.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        state = read_state()
        make_environment(state)
        everything = digest([DEV])
        if "--run" not in sys.argv[1:]:
            step(state, "dependencies", everything, install_dependencies)
        elif state.get("dependencies") != everything:
            step(state, "runtime", digest([DEV, RUNTIME]), install_runtime)
        step(state, "project", digest([ROOT / "pyproject.toml"]) + str(ROOT), install_project)
        set_up_native(state)
    return 0


def read_state() -> dict[str, str]:
    """What earlier runs have done; nothing, when the environment is missing, moved, or its Python is gone."""
    try:
        state: dict[str, str] = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return {}
    alive = subprocess.run([PYTHON, "-c", "import pip"], capture_output=True).returncode == 0
    return state if alive and state.get("root") == str(ROOT) else {}


def write_state(state: dict[str, str]) -> None:
    fresh = STATE.with_suffix(".tmp")
    fresh.write_text(json.dumps(state, indent=1))
    os.replace(fresh, STATE)


def step(state: dict[str, str], name: str, now: str, work: Callable[[], None]) -> None:
    if state.get(name) == now:
        return
    work()
    state[name] = now
    write_state(state)


def make_environment(state: dict[str, str]) -> None:
    if state:
        return
    say(f"making .venv with Python {sys.version.split()[0]}")
    shutil.rmtree(VENV, ignore_errors=True)
    run(
        [sys.executable, "-m", "venv", str(VENV)],
        "the venv module does not work; on Debian: apt install python3-venv",
    )
    state["root"] = str(ROOT)
    write_state(state)


def install_dependencies() -> None:
    say("installing the locked dependencies, with test tools and clients (a minute or two, once)")
    pip("install", "--require-hashes", "-r", str(DEV))


def install_runtime() -> None:
    say("installing the locked dependencies (half a minute, once)")
    tools = VENV / "build-tools.txt"
    chosen = [sys.executable, str(ROOT / "tools" / "locked.py"), *BUILD_TOOLS]
    tools.write_text(subprocess.run(chosen, check=True, capture_output=True, text=True).stdout)
    pip("install", "--require-hashes", "-r", str(RUNTIME), "-r", str(tools))


def install_project() -> None:
    say("installing headrace (editable)")
    pip("install", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))


def set_up_native(state: dict[str, str]) -> None:
    sources = native_sources()
    if not sources:
        return
    wanted = digest(sources)
    cargo = shutil.which("cargo")
    if state.get("native") == wanted or state.get("native refused") == f"{wanted} {cargo}":
        return
    problem = build_native() if cargo else "cargo is not installed"
    if problem is None:
        state["native"] = wanted
    else:
        if state.pop("native", None):  # of older sources: better none than one that differs
            pip("uninstall", "--yes", "headrace-native")
        state["native refused"] = f"{wanted} {cargo}"
        again = "; `make clean setup` tries again" if cargo else ""
        say(f"{problem}: no native kernels, their Python twins run (the same answers, more slowly){again}")
    write_state(state)


def build_native() -> str | None:
    """Builds and installs the wheel; what was in the way, if it could not be built."""
    say("building the native kernels (a minute, once)")
    shutil.rmtree(WHEELS, ignore_errors=True)
    command = [str(VENV / "bin" / "maturin"), "build", "--release", "--interpreter", str(PYTHON)]
    made = subprocess.run(
        [*command, "--out", str(WHEELS)],
        cwd=ROOT / "native",
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if made.returncode:
        print(made.stdout[-4000:], file=sys.stderr)
        return "the native crate does not build here (see above)"
    (wheel,) = WHEELS.glob("*.whl")
    pip("install", "--no-deps", "--no-index", "--force-reinstall", str(wheel))
    return None


def native_sources() -> list[Path]:
    native = ROOT / "native"
    if not (native / "Cargo.toml").exists():
        return []
    files: list[Path] = []
    for part in NATIVE_PARTS:
        path = native / part
        files += [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
    return [path for path in files if "__pycache__" not in path.parts]


def digest(paths: Iterable[Path]) -> str:
    total = hashlib.sha256()
    for path in paths:
        total.update(f"{path.relative_to(ROOT)}\0".encode())
        total.update(path.read_bytes())
    return total.hexdigest()


def pip(*arguments: str) -> None:
    quiet = ["--quiet", "--disable-pip-version-check", "--no-input"]
    run(
        [str(PYTHON), "-m", "pip", *arguments, *quiet],
        "pip could not finish (its own words are above); is the network there?",
    )


def run(command: list[str], advice: str) -> None:
    if subprocess.run(command, cwd=ROOT).returncode:
        sys.exit(f"setup: {advice}")


def say(text: str) -> None:
    print(f"setup: {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
