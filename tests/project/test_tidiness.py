"""The project's own promises about its files: what a reader, and a stranger's machine, may rely on."""

from __future__ import annotations

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LONGEST_FILE = 400  # lines; a longer one has a second noun in it
LONGEST_TEST = 500  # a file of tests is a list, and reads as one
LONGEST_FUNCTION = 60  # lines; a function fits a screen
REGISTRIES = "pypi|maven|npmjs|crates|golang|debian|pythonhosted|jfrog|artifactory|nexus"
REGISTRY = re.compile(rf"\b[a-z0-9.-]*(?:{REGISTRIES})[a-z0-9.-]*\.(?:org|io|com|net)\b", re.IGNORECASE)
MACHINE_PATH = re.compile(r"(?:/home/|/Users/|/root/|/work/|/tmp/[a-z])")
BINARY = {".png", ".ico", ".gz"}


@cache
def files() -> tuple[Path, ...]:
    """What is in the repository, or would be with the next commit."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    return tuple(path for name in sorted(set(listed)) if (path := ROOT / name).is_file())


def text_files() -> list[Path]:
    return [path for path in files() if path.suffix not in BINARY and path != Path(__file__).resolve()]


def python_files(*folders: str) -> list[Path]:
    return [p for p in files() if p.suffix == ".py" and p.relative_to(ROOT).parts[0] in folders]


def where(path: Path, line: int | None = None) -> str:
    name = str(path.relative_to(ROOT))
    return name if line is None else f"{name}:{line}"


@pytest.mark.parametrize("pattern", [REGISTRY, MACHINE_PATH], ids=["registry", "path"])
def test_no_file_names_a_package_registry_or_a_path_of_somebodys_machine(pattern: re.Pattern[str]) -> None:
    found = [
        f"{where(path, number)}: {match.group()}"
        for path in text_files()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if (match := pattern.search(line))
    ]
    assert not found


def test_every_module_says_at_its_head_what_it_is() -> None:
    silent = [
        where(path)
        for path in python_files("src", "bench", "tools")
        if path.read_text().strip() and not ast.get_docstring(ast.parse(path.read_text()))
    ]
    assert not silent


def test_no_file_is_so_long_that_it_must_hold_two_nouns() -> None:
    code = [path for path in files() if path.suffix in {".py", ".rs"}]
    lengths = {where(path): len(path.read_text().splitlines()) for path in code}
    limits = {name: LONGEST_TEST if name.startswith("tests/") else LONGEST_FILE for name in lengths}
    assert not {name: length for name, length in lengths.items() if length > limits[name]}


def test_every_function_fits_a_screen() -> None:
    long = {}
    for path in python_files("src", "bench", "tools"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > LONGEST_FUNCTION:
                    long[f"{where(path, node.lineno)} {node.name}"] = length
    assert not long


def test_names_of_tests_are_sentences() -> None:
    short = [
        f"{where(path, node.lineno)} {node.name}"
        for path in python_files("tests")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
        and node.name.count("_") < 2
    ]
    assert not short


def test_no_test_is_switched_off() -> None:
    """A condition of the machine (no cargo, no kcat) may skip; a fault of ours may not."""
    switched_off = re.compile(r"mark\.(?:skip\b|xfail)|pytest\.xfail|unittest\.mock|MagicMock")
    found = [
        where(path, number)
        for path in python_files("tests")
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if switched_off.search(line)
    ]
    assert not found
