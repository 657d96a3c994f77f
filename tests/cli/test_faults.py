"""What a person sees when something breaks while a command runs: the server, the disk, a stream that was closed."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headrace.cli import exits
from headrace.testing.served import ServedBroker
from tests.cli.running import Run

LIMIT_S = 60.0


def shell(run: Run, command: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`command` has `headrace …` where the arguments go."""
    line = " ".join([sys.executable, "-m", "headrace", *run.line(*arguments)])
    whole = command.replace("headrace", line)
    return subprocess.run(["bash", "-c", whole], capture_output=True, text=True, timeout=LIMIT_S)


def test_a_tail_goes_on_when_its_server_comes_back(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        run = Run(broker.address)
        run("produce", "story", "before")
        process = run.start("tail", "story")
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"before\n"
            broker.kill()
            broker.start()
            run("produce", "story", "after")
            assert process.stdout.readline() == b"after\n"
        finally:
            process.kill()
            process.communicate()


def test_a_server_that_dies_in_mid_stream_fails_the_rest_and_counts_what_arrived(tmp_path: Path) -> None:
    with ServedBroker(tmp_path) as broker:
        process = Run(broker.address).start("produce", "cut", "--timeout", "2s", "-v")
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"one\n")
        process.stdin.flush()
        assert process.stdout.readline().startswith(b"cut partition 0 offset 0")
        broker.kill()
        _, err = process.communicate(b"two\n", timeout=LIMIT_S)
        assert process.returncode in (exits.TIMED_OUT, exits.UNREACHABLE), err
        assert b"1 record acknowledged, and then:" in err
        assert b"Traceback" not in err
        broker.start()
        assert Run(broker.address)("consume", "cut").out == "one\n"


def test_ctrl_c_at_a_producer_says_what_arrived_and_no_more(cli: Run) -> None:
    process = cli.start("produce", "typed", "-v")
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(b"one\n")
    process.stdin.flush()
    assert process.stdout.readline().startswith(b"typed partition 0 offset 0")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == exits.INTERRUPTED
    assert b"1 record acknowledged, then interrupted.\n" in err
    assert b"and then:" not in err


INTERRUPTED_AT = """
import sys

class Interruption:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            raise KeyboardInterrupt

from headrace.cli.main import main
sys.meta_path.insert(0, Interruption())
sys.exit(main({arguments!r}))
"""


@pytest.mark.parametrize(
    ("arguments", "module"),
    [
        (["serve"], "headrace.cli.serve"),
        (["serve"], "headrace.node.node"),
        (["topic", "list"], "headrace.cli.app"),
        (["topic", "list"], "headrace.cli.topic"),
        (["help"], "headrace.cli.app"),
    ],
)
def test_ctrl_c_amid_an_import_ends_quietly(tmp_path: Path, arguments: list[str], module: str) -> None:
    command = [sys.executable, "-c", INTERRUPTED_AT.format(arguments=arguments, module=module)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=LIMIT_S)
    assert (done.returncode, done.stdout, done.stderr.strip()) == (exits.INTERRUPTED, "", "")


def test_a_full_disk_under_the_output_is_named(cli: Run) -> None:
    cli("produce", "wide", stdin="\n".join("x" * 100 for _ in range(1000)))
    done = shell(cli, "headrace > /dev/full", "consume", "wide")
    assert (done.returncode, done.stderr) == (exits.STORAGE, "headrace: No space left on device\n")


def test_closed_streams_are_no_fault(cli: Run) -> None:
    cli("topic", "create", "quiet")
    assert shell(cli, "headrace >&-", "topic", "list").returncode == 0
    assert shell(cli, "headrace <&-", "produce", "quiet").returncode == 0
    assert shell(cli, "headrace 2>&-", "topic", "describe", "none").returncode == exits.NOT_FOUND


def test_somebody_who_listens_and_never_answers_is_told_by_address_and_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        ended = Run(address)("topic", "list", "--timeout", "1s")
    assert ended.code in (exits.TIMED_OUT, exits.UNREACHABLE)
    assert address in ended.err
    assert "Traceback" not in ended.err
    assert time.monotonic() - begin < 10


def test_a_server_that_makes_no_topics_by_itself_refuses_records_for_one(tmp_path: Path) -> None:
    with ServedBroker(tmp_path, "--auto-create-topics", "false") as broker:
        run = Run(broker.address)
        run("topic", "create", "orders")
        ended = run("produce", "odrers", "x", "--timeout", "5s")
        assert ended.code == exits.NOT_FOUND, ended
        assert "did you mean orders?" in ended.err
        assert run("topic", "list", "-o", "csv").out.count("\n") == 2
