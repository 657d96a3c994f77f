"""What README, Makefile and packaging promise, checked against each other."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import headrace

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TARGET = re.compile(r"^([a-z-]+):.*## ", re.MULTILINE)
ASKED_TARGETS = {"run", "test", "demo", "check", "bench", "long", "setup"}
PINNED = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)", re.MULTILINE)
LINK = re.compile(r"\]\((?!https?://|#)([^)#]+)[^)]*\)")
COMMAND = re.compile(r"(?:^|[\s`]|bin/)headrace (?:serve|--)")  # not the folder /var/lib/headrace, and a flag after it
MODULES = {"pyyaml": "yaml"}  # of distributions that are called otherwise
FLAG = re.compile(r"(?<![\w-])--([a-z][a-z-]+)")


def targets() -> set[str]:
    return set(TARGET.findall((ROOT / "Makefile").read_text()))


def pins(name: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for package, pinned in PINNED.findall((ROOT / "requirements" / name).read_text()):
        found.setdefault(package.lower(), set()).add(pinned)
    return found


def test_bare_make_lists_every_target_with_a_sentence() -> None:
    listed = subprocess.run(["make"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert set(re.findall(r"^make ([a-z-]+) +\S", listed, re.MULTILINE)) == targets() >= ASKED_TARGETS


def test_every_make_command_in_the_documents_exists() -> None:
    for page in PAGES:
        named = set(re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE))
        assert named <= targets(), page.name


def test_every_flag_of_serve_in_the_documents_exists() -> None:
    usage = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "serve", "--help"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    known = set(FLAG.findall(usage)) | {"help", "version"}
    for page in PAGES:
        for line in page.read_text().splitlines():
            if COMMAND.search(line):
                assert set(FLAG.findall(line)) <= known, f"{page.name}: {line}"


def test_every_link_between_documents_leads_somewhere() -> None:
    for page in PAGES:
        for link in LINK.findall(page.read_text()):
            assert (page.parent / link).exists(), f"{page.name} links to {link}"


def test_the_version_is_written_once() -> None:
    assert PROJECT["project"]["dynamic"] == ["version"]
    assert version("headrace") == headrace.__version__
    said = subprocess.run(
        [sys.executable, "-m", "headrace.cli.main", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert headrace.__version__ in said


def test_every_dependency_is_locked_with_hashes_and_no_index() -> None:
    for name in ("runtime.txt", "dev.txt"):
        text = (ROOT / "requirements" / name).read_text()
        assert not re.search(r"https?://|--(?:index|extra-index|find-links)", text)
        assert text.count("--hash=sha256:") >= len(pins(name)) > 0
    asked = [re.split(r"[<>=;\[ ]", line)[0].lower() for line in PROJECT["project"]["dependencies"]]
    assert set(asked) <= set(pins("runtime.txt"))


def test_what_users_run_and_what_tests_run_are_the_same_versions() -> None:
    runtime, dev = pins("runtime.txt"), pins("dev.txt")
    assert {name: dev[name] for name in runtime} == runtime


def test_nothing_is_required_that_the_package_never_imports() -> None:
    source = "\n".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    for line in PROJECT["project"]["dependencies"]:
        name = re.split(r"[<>=;\[ ]", line)[0].lower()
        module = MODULES.get(name, name.replace("-", "_"))
        assert re.search(rf"^\s*(?:import|from) {module}\b", source, re.MULTILINE), f"{module} is never imported"
