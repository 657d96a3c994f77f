"""Which kernels run, and what choosing them costs at start."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.records import kernel
from tests.records.kernels import native

needs_native = pytest.mark.skipif(native is None, reason="the native kernels are not built here")


def run(program: str, path: Path | None = None, **environment: str) -> str:
    """What a fresh interpreter prints; modules in `path` win over installed ones."""
    found = [str(path)] if path else []
    env = os.environ | {"PYTHONPATH": os.pathsep.join(found + sys.path)} | environment
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True)
    return done.stdout.strip()


SHOW = """
from headrace.records import kernel
print(kernel.NATIVE, kernel.validate.__module__.split('.')[0], kernel.REASON, sep='|')
"""


@needs_native
def test_the_native_kernels_are_used_where_they_are() -> None:
    assert run(SHOW, HEADRACE_NATIVE="1") == "True|headrace_native|"


def test_the_environment_can_ask_for_the_python_ones() -> None:
    assert run(SHOW, HEADRACE_NATIVE="0") == ("False|headrace|HEADRACE_NATIVE=0 asks for the Python kernels")


def test_a_wheel_of_another_version_is_not_used_and_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "headrace_native.py").write_text("__version__ = '9.9'\nAPI_VERSION = 99\n")
    assert run(SHOW, tmp_path, HEADRACE_NATIVE="1") == (
        "False|headrace|headrace-native 9.9 has kernels of version 99,"
        f" and this program needs {kernel.API_VERSION}: install the two together"
    )


def test_without_the_wheel_the_python_kernels_run_and_the_reason_is_said(tmp_path: Path) -> None:
    (tmp_path / "headrace_native.py").write_text("raise ImportError('no wheel for this machine')\n")
    assert run(SHOW, tmp_path, HEADRACE_NATIVE="1") == (
        "False|headrace|headrace-native is not installed (no wheel for this machine)"
    )


COSTLY = ("importlib.metadata", "argparse", "email", "pyarrow", "numpy")


@pytest.mark.parametrize("environment", ["0", "1"])
def test_importing_records_brings_in_nothing_costly(environment: str) -> None:
    program = f"""
import sys
before = set(sys.modules)
from headrace.records import batch, codec, columns, control
print([name for name in {COSTLY!r} if name in set(sys.modules) - before])
"""
    assert run(program, HEADRACE_NATIVE=environment) == "[]"


@needs_native
def test_the_two_have_the_same_kernels_with_the_same_parameters() -> None:
    import inspect

    from headrace.records import twin

    for name in twin.__all__:
        ours, theirs = (inspect.signature(getattr(module, name)).parameters for module in (twin, native))
        assert list(ours) == list(theirs), name
        assert [p.default for p in ours.values()] == [p.default for p in theirs.values()], name


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 20])
def test_room_is_a_bytearray_of_that_size_that_can_be_filled(size: int) -> None:
    made = kernel.room(size)
    assert type(made) is bytearray
    made[:] = b"x" * size
    assert made == b"x" * size


def test_room_of_a_negative_size_is_refused() -> None:
    with pytest.raises(ValueError, match="negative count"):
        kernel.room(-1)
