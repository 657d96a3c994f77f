"""What is published: built, looked into, installed into an environment of its own, and used as a stranger would.

The environment's dependencies are those of the tests' own environment, found by a path file: nothing is downloaded,
and the packages under test come from the wheels alone.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import time
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import headrace
from tests.project.test_tidiness import MACHINE_PATH, REGISTRY
from tests.support import ANYWHERE
from tools import dist

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 60.0
BUILD_LIMIT_S = 600  # the first build of the native crate, on a machine that does other things too
HAS_CARGO = shutil.which("cargo") is not None
PRINTABLE = re.compile(rb"[\x20-\x7e]{6,}")

pytestmark = pytest.mark.timeout(BUILD_LIMIT_S)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The archives, as `make dist` builds them."""
    out = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "tools/dist.py", str(out)], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return out


@pytest.fixture(scope="module")
def installed(made: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a new environment that holds nothing but the wheels."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=True, symlinks=True)
    wheels = sorted(map(str, made.glob("*.whl")))
    install = [home / "bin" / "pip", "install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check"]
    subprocess.run([*install, *wheels], check=True)
    (packages,) = home.glob("lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return home / "bin"


def contents(archive: Path) -> Iterator[tuple[str, bytes]]:
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            yield from ((name, wheel.read(name)) for name in wheel.namelist())
        return
    with tarfile.open(archive) as source:
        for member in source.getmembers():
            if (file := source.extractfile(member)) is not None:
                yield member.name, file.read()


def test_both_packages_have_one_version_and_their_archives_checksums(made: Path) -> None:
    crate = tomllib.loads((ROOT / "native" / "Cargo.toml").read_text())["package"]["version"]
    assert crate == headrace.__version__
    names = [line.split()[1] for line in (made / dist.SUMS).read_text().splitlines()]
    assert sorted(names) == sorted(path.name for path in made.iterdir() if path.name != dist.SUMS)
    assert len(names) == (4 if HAS_CARGO else 2)
    assert all(headrace.__version__ in name for name in names)


def test_no_archive_names_a_registry_or_a_path_of_the_machine_that_built_it(made: Path) -> None:
    for archive in made.iterdir():
        for name, raw in contents(archive) if archive.name != dist.SUMS else ():
            text = b"\n".join(PRINTABLE.findall(raw)).decode()
            for pattern in (REGISTRY, MACHINE_PATH):
                assert not (found := pattern.search(text)), f"{archive.name}: {name}: {found}"


def test_an_archive_holds_sources_and_nothing_that_tools_left_there(made: Path) -> None:
    listed = [name for path in made.glob("headrace-*") for name, _ in contents(path)]
    assert not [name for name in listed if "cache" in name or ".hypothesis" in name or name.endswith((".pyc", ".so"))]
    (wheel,) = made.glob("headrace-*.whl")
    packaged = {name for name, _ in contents(wheel) if name.startswith("headrace/")}
    tracked = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "headrace").rglob("*")
        if path.suffix in (".py", ".properties") or path.name == "py.typed"
    }
    assert packaged == tracked


def test_the_source_archive_builds_the_same_wheel(made: Path, tmp_path: Path) -> None:
    (source,) = made.glob("headrace-*.tar.gz")
    (wheel,) = made.glob("headrace-*.whl")
    with tarfile.open(source) as archive:
        archive.extractall(tmp_path, filter="data")
    (folder,) = tmp_path.iterdir()
    build = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path / "out"), "-t", "wheel"]
    subprocess.run(
        build, cwd=folder, check=True, capture_output=True, env=os.environ | {"SOURCE_DATE_EPOCH": dist.EPOCH}
    )
    assert (tmp_path / "out" / wheel.name).read_bytes() == wheel.read_bytes()


def test_what_was_installed_is_what_runs(installed: Path) -> None:
    look = "import headrace, json; from headrace.records import kernel; import sys; "
    look += (
        "print(json.dumps([headrace.__file__, kernel.NATIVE, sys.modules.get('headrace_native', headrace).__file__]))"
    )
    told = subprocess.run([installed / "python", "-P", "-c", look], capture_output=True, text=True, check=True, cwd="/")
    package, native, kernels = json.loads(told.stdout)
    assert package.startswith(str(installed.parent)) and kernels.startswith(str(installed.parent))
    assert native == HAS_CARGO
    version = subprocess.run([installed / "headrace", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout == f"headrace {headrace.__version__}\n"


def test_a_stranger_serves_produces_and_consumes_with_it(installed: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    command = [installed / "headrace", "serve", "--data", tmp_path / "data", *ANYWHERE, "--ready-file", ready]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "PYTHON"))}
    environment["HOME"] = str(tmp_path)
    with open(tmp_path / "log", "w") as log:
        node = subprocess.Popen(command, stderr=log, cwd=tmp_path, env=environment)
    try:
        deadline = time.monotonic() + LIMIT_S
        while not ready.exists() and node.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        address = json.loads(ready.read_text())["addresses"]["kafka"]

        def ours(*arguments: str) -> str:
            asked = [installed / "headrace", "-s", address, *arguments]
            done = subprocess.run(asked, capture_output=True, text=True, timeout=LIMIT_S, cwd=tmp_path, env=environment)
            assert done.returncode == 0, done.stderr
            return done.stdout

        ours("produce", "greetings", "hello", "world")
        assert ours("consume", "greetings", "-f", "%s\\n") == "hello\nworld\n"
    finally:
        node.terminate()
        assert node.wait(LIMIT_S) == 0
    assert "native.missing" not in (tmp_path / "log").read_text() or not HAS_CARGO
